//! Taking due rows.

use std::collections::HashMap;
use std::time::Duration;

use david_reconciler::{Fence, RegistrationId, RemoteTaskId, TaskId, Timestamp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::leased::{InputRow, LeaseRow, RegistrationRow};
use crate::{BadRow, Leased, Ledger, LedgerError, Registered};

/// Who leases: a new one at every boot, for operators to read, never used for correctness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicaId(pub Uuid);

impl ReplicaId {
    /// A fresh identity.
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

impl Default for ReplicaId {
    fn default() -> Self {
        Self::new()
    }
}

/// What one lease took.
#[derive(Debug, Default)]
pub struct LeaseBatch {
    /// The rows.
    pub rows: Vec<Leased>,
    /// Rows that are leased but cannot be read; they lapse until they are quarantined by hand.
    pub bad: Vec<BadRow>,
    /// The database's clock at the lease; none when nothing was due.
    pub now: Option<Timestamp>,
}

impl Ledger {
    /// Leases up to `limit` due rows for `term`.
    ///
    /// # Errors
    /// When the database does not answer. Rows may be leased all the same; they lapse after `term`.
    pub async fn lease(
        &self,
        replica: ReplicaId,
        limit: u32,
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        let (limit, term) = (i64::from(limit), micros(term));
        self.run(async |connection| {
            let rows = sqlx::query_file_as!(LeaseRow, "../../sql/lease.sql", limit, replica.0, term)
                .fetch_all(&mut *connection)
                .await?;
            read_all(connection, rows).await
        })
        .await
        .map_err(LedgerError::new("lease rows"))
    }

    /// Leases one row that ended two leases or more without a commit. The caller holds nothing
    /// else meanwhile (DESIGN rule 16).
    ///
    /// # Errors
    /// As [`Ledger::lease`].
    pub async fn lease_suspect(&self, replica: ReplicaId, term: Duration) -> Result<LeaseBatch, LedgerError> {
        self.run(async |connection| {
            let rows =
                sqlx::query_file_as!(LeaseRow, "../../sql/lease_suspect.sql", 1, replica.0, micros(term))
                    .fetch_all(&mut *connection)
                    .await?;
            read_all(connection, rows).await
        })
        .await
        .map_err(LedgerError::new("lease a suspect row"))
    }

    /// Whether a row is due that only [`Ledger::lease_suspect`] takes.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn suspect_due(&self) -> Result<bool, LedgerError> {
        self.run(async |connection| {
            sqlx::query_file_scalar!("../../sql/suspect_due.sql").fetch_one(connection).await
        })
        .await
        .map_err(LedgerError::new("look for suspect rows"))
    }

    /// Gives rows back untouched: due at once, fence and counters as they were. Rows in `calling`
    /// and rows that somebody else has leased or changed since are left alone (DESIGN rule 1).
    ///
    /// # Errors
    /// When the database does not answer; the rows then lapse by themselves.
    pub async fn release(&self, rows: &[(TaskId, Fence)]) -> Result<u64, LedgerError> {
        let (ids, fences): (Vec<i64>, Vec<i64>) = rows.iter().map(|(id, fence)| (id.0, fence.0)).unzip();
        let done = self
            .run(async |connection| {
                sqlx::query_file!("../../sql/release.sql", &ids, &fences).execute(connection).await
            })
            .await
            .map_err(LedgerError::new("release rows"))?;
        Ok(done.rows_affected())
    }

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

async fn read_all(connection: &mut PgConnection, rows: Vec<LeaseRow>) -> Result<LeaseBatch, sqlx::Error> {
    let asking: Vec<i64> = rows.iter().filter(|row| row.has_inputs()).map(|row| row.id).collect();
    let mut inputs = Vec::new();
    if !asking.is_empty() {
        inputs =
            sqlx::query_file_as!(InputRow, "../../sql/inputs.sql", &asking).fetch_all(connection).await?;
    }
    inputs.sort_by_key(|input| input.task_id);

    let mut shared = HashMap::new();
    let mut batch = LeaseBatch { now: rows.first().map(|row| Timestamp(row.now)), ..LeaseBatch::default() };
    for row in rows {
        let start = inputs.partition_point(|input| input.task_id < row.id);
        let end = inputs.partition_point(|input| input.task_id <= row.id);
        match row.read(inputs.get(start..end).unwrap_or_default(), &mut shared) {
            Ok(leased) => batch.rows.push(leased),
            Err(bad) => batch.bad.push(bad),
        }
    }
    Ok(batch)
}

/// Microseconds for an interval parameter, saturating.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
