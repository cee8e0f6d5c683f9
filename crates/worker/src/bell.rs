//! Wakes the leaser when the database says that something is due. Never needed for correctness: a replica
//! looks every idle interval anyway, and behind a pooler in transaction mode nothing is ever heard.

use std::sync::Arc;
use std::time::Duration;

use david_schema::{Ledger, WakeUps, causes};
use tokio::sync::Notify;

use crate::leaser::jittered;
use crate::metrics::Metrics;

/// Pause after a connection that was lost or could not be made.
const PAUSE: Duration = Duration::from_secs(5);

/// Listens for as long as the replica runs, on a connection of its own.
pub(crate) async fn listen(ledger: Ledger, bell: Arc<Notify>, metrics: Arc<Metrics>) {
    loop {
        let lost = match ledger.listen().await {
            Ok(mut wake_ups) => heard(&mut wake_ups, &bell, &metrics).await,
            Err(error) => error,
        };
        tracing::info!(
            error = causes(&lost),
            "no wake-ups for a while; rows are looked for every idle interval"
        );
        tokio::time::sleep(jittered(PAUSE)).await;
    }
}

/// Rings until the connection is lost; returns why it was.
async fn heard(wake_ups: &mut WakeUps, bell: &Notify, metrics: &Metrics) -> david_schema::LedgerError {
    loop {
        match wake_ups.next().await {
            Ok(()) => {
                metrics.wake_ups.inc();
                bell.notify_one();
            }
            Err(error) => return error,
        }
    }
}
