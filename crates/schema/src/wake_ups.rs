//! `listen`, for replicas that have nothing to do.

use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::{Ledger, LedgerError};

/// The channel of `david.wake_workers()` (migration 0006).
const CHANNEL: &str = "david_tasks";

/// Wake-ups, on a connection of its own.
#[derive(Debug)]
pub struct WakeUps(PgListener);

impl Ledger {
    /// Listens for wake-ups. Needs a session of its own: behind a pooler in transaction mode nothing is
    /// ever heard, and nothing breaks.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn listen(&self) -> Result<WakeUps, LedgerError> {
        let connected = async {
            let options = (*self.pool().connect_options()).clone();
            let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
            let mut listener = PgListener::connect_with(&pool).await?;
            // One that reconnects by itself would hide what it missed.
            listener.ignore_pool_close_event(true);
            listener.listen(CHANNEL).await?;
            Ok(listener)
        };
        connected.await.map(WakeUps).map_err(LedgerError::new("let us listen for wake-ups"))
    }
}

impl WakeUps {
    /// Waits for the next one, or for news that the connection was lost meanwhile and has been made again,
    /// which is as good: something may have been missed.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn next(&mut self) -> Result<(), LedgerError> {
        self.0.try_recv().await.map(|_| ()).map_err(LedgerError::new("go on with wake-ups"))
    }
}
