//! What `david-tasks dev` does in Core's place.

use crate::{Ledger, LedgerError};

impl Ledger {
    /// Registers the sample server at `url` as `reg_sample` of `user_dev`, once.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn register_sample(&self, url: &str) -> Result<(), LedgerError> {
        self.run(async |connection| {
            sqlx::query_file!("../../sql/dev/register_sample.sql", url).execute(connection).await
        })
        .await
        .map_err(LedgerError::new("take in the sample server"))?;
        Ok(())
    }
}
