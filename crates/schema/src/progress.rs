//! Progress, passed on to whoever listens.

use crate::{Ledger, LedgerError};

impl Ledger {
    /// Tells `payloads` to whoever listens on `channel`; each under 8,000 bytes.
    ///
    /// # Errors
    /// When the database does not answer, or its notify queue is full.
    pub async fn notify(&self, channel: &str, payloads: &[String]) -> Result<(), LedgerError> {
        self.run(async |connection| {
            sqlx::query_file_scalar!("../../sql/notify_progress.sql", channel, payloads)
                .fetch_one(connection)
                .await
        })
        .await
        .map_err(LedgerError::new("pass on progress"))?;
        Ok(())
    }
}
