//! Changes, each through its function (migrations 0008 and 0011), which writes down who and why.

use std::time::Duration;

use david_reconciler::{ActionId, RegistrationId, RunId};

use super::{Operator, OperatorError};
use crate::lease::micros;
use crate::{Pruned, ReplicaId};

/// Who does something, and why.
#[derive(Debug, Clone)]
pub struct Signed {
    /// Why, in words.
    pub reason: String,
    /// The person behind a login that several share.
    pub by: Option<String>,
}

/// Which outputs retention takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// Those that Core has acknowledged.
    Acknowledged,
    /// All, for a Core that reads them where they stand.
    All,
}

/// One statement with a Boolean answer: id, reason, person.
macro_rules! signed_change {
    ($(#[$doc:meta])* $name:ident($id:ty), $file:literal, $what:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// What the function refuses, and when the database does not answer.
        pub async fn $name(&self, id: &$id, signed: &Signed) -> Result<bool, OperatorError> {
            let (id, by) = (id.as_str(), signed.by.as_deref());
            self.ledger
                .run(async |connection| {
                    sqlx::query_file_scalar!($file, id, signed.reason, by).fetch_one(connection).await
                })
                .await
                .map_err(OperatorError::new($what))
        }
    };
}

impl Operator {
    signed_change!(
        /// Stops a server. Whether this call did.
        pause(RegistrationId), "../../sql/operate/pause.sql", "pause the server"
    );
    signed_change!(
        /// Ends a pause and closes the breaker. Whether that changed anything.
        resume(RegistrationId), "../../sql/operate/resume.sql", "resume the server"
    );
    signed_change!(
        /// Makes an Action due now. Whether that changed anything.
        retry(ActionId), "../../sql/operate/retry.sql", "retry the Action"
    );
    signed_change!(
        /// Ends an Action as failed. Whether this call did.
        fail(ActionId), "../../sql/operate/fail.sql", "end the Action"
    );
    signed_change!(
        /// Gives up a remote cancel that is owed. Whether this call did.
        give_up(ActionId), "../../sql/operate/give_up.sql", "give the cancel up"
    );
    signed_change!(
        /// Cancels a Run. Whether this call did.
        cancel_run(RunId), "../../sql/operate/cancel_run.sql", "cancel the Run"
    );

    /// Takes up to `limit` leases from a replica. How many.
    ///
    /// # Errors
    /// What the function refuses, and when the database does not answer.
    pub async fn release(
        &self,
        replica: ReplicaId,
        signed: &Signed,
        limit: u32,
    ) -> Result<i64, OperatorError> {
        let (by, limit) = (signed.by.as_deref(), i32::try_from(limit).unwrap_or(i32::MAX));
        self.ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/release.sql", replica.0, signed.reason, by, limit)
                    .fetch_one(connection)
                    .await
            })
            .await
            .map_err(OperatorError::new("release the leases"))
    }

    /// How many calls a replica may have on the wire.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn calls_of(&self, replica: ReplicaId) -> Result<i64, OperatorError> {
        let calls = self
            .ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/calls_of_replica.sql", replica.0)
                    .fetch_optional(connection)
                    .await
            })
            .await
            .map_err(OperatorError::new("count the calls"))?;
        Ok(calls.unwrap_or_default())
    }

    /// One batch of retention: of what ended longer ago than `keep`, up to `batch` of each kind.
    ///
    /// # Errors
    /// What the function refuses, and when the database does not answer.
    pub async fn prune(
        &self,
        keep: Duration,
        batch: u32,
        outputs: Outputs,
        signed: &Signed,
    ) -> Result<Pruned, OperatorError> {
        let (by, batch) = (signed.by.as_deref(), i32::try_from(batch).unwrap_or(i32::MAX));
        let which = match outputs {
            Outputs::Acknowledged => "acknowledged",
            Outputs::All => "all",
        };
        let row = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!(
                    "../../sql/operate/prune.sql",
                    micros(keep),
                    batch,
                    which,
                    signed.reason,
                    by
                )
                .fetch_one(connection)
                .await
            })
            .await
            .map_err(OperatorError::new("prune"))?;
        Ok(Pruned {
            tasks: row.tasks.unsigned_abs(),
            outputs: row.outputs.unsigned_abs(),
            events: row.events.unsigned_abs(),
        })
    }
}
