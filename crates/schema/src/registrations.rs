//! What may be asked of a server now.

use std::collections::HashMap;

use david_reconciler::{RegistrationId, RemoteTaskId};

use crate::leased::RegistrationRow;
use crate::{Ledger, LedgerError, Registered};

impl Ledger {
    /// These registrations as they are now; those that are missing are gone.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn registrations(
        &self,
        ids: &[RegistrationId],
    ) -> Result<HashMap<RegistrationId, Registered>, LedgerError> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let rows = self
            .run(async |connection| {
                sqlx::query_file_as!(RegistrationRow, "../../sql/registrations.sql", &ids)
                    .fetch_all(connection)
                    .await
            })
            .await
            .map_err(LedgerError::new("read registrations"))?;
        Ok(rows.into_iter().map(|row| (RegistrationId::new(&row.id), row.read())).collect())
    }

    /// Whether a remote id that could not be persisted may be cancelled: no live row holds it, and
    /// its registration may still be talked to (DESIGN rules 2 and 11).
    ///
    /// # Errors
    /// When the database does not answer: then nobody knows, and nothing may be cancelled.
    pub async fn may_cancel(
        &self,
        registration: &RegistrationId,
        id: &RemoteTaskId,
    ) -> Result<bool, LedgerError> {
        self.run(async |connection| {
            sqlx::query_file_scalar!("../../sql/may_cancel.sql", registration.as_str(), id.expose())
                .fetch_one(connection)
                .await
        })
        .await
        .map_err(LedgerError::new("say whether a remote task may be cancelled"))
    }
}
