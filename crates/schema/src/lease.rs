//! Taking due rows.

use std::collections::HashMap;
use std::time::Duration;

use david_reconciler::{Fence, PhaseName, RegistrationId, TaskId, Timestamp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::leased::{InputRow, LeaseRow};
use crate::{BadRow, Leased, Ledger, LedgerError};

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
    /// When the longest waiting of them was due, owed cancels left out.
    pub oldest: Option<Timestamp>,
    /// When the last of them was due; whatever was due before that has been leased, unless somebody made
    /// it due afterwards.
    pub newest: Option<Timestamp>,
    /// How long each of them had been due, owed cancels that overtook left out.
    pub waits: Vec<Duration>,
}

impl LeaseBatch {
    /// How many rows it took.
    pub fn len(&self) -> usize {
        self.rows.len() + self.bad.len()
    }

    /// Whether nothing was due.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the longest waiting of them had been due.
    pub fn lag(&self) -> Duration {
        let (Some(now), Some(oldest)) = (self.now, self.oldest) else { return Duration::ZERO };
        wait(now.0, oldest.0)
    }
}

/// What one replica has of one server, in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The server.
    pub registration: RegistrationId,
    /// The phase.
    pub phase: PhaseName,
}

/// One row of every `lease*.sql`.
struct Taken {
    id: i64,
    fence: i64,
    now: i64,
    due_at: Option<i64>,
}

/// [`Ledger::lease_due`].
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Rows at most.
    pub limit: u32,
    /// Owed cancels at most, beyond the limit.
    pub cancels: u32,
    /// Rows that were due before this are not looked for; none looks for all.
    pub from: Option<Timestamp>,
}

impl Ledger {
    /// Leases up to `limit` due rows for `term`, and as many owed cancels.
    ///
    /// # Errors
    /// When the database does not answer. Rows may be leased all the same; they lapse after `term`.
    pub async fn lease(
        &self,
        replica: ReplicaId,
        limit: u32,
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        self.lease_due(replica, Due { limit, cancels: limit, from: None }, term).await
    }

    /// Leases due rows, the longest due first, and owed cancels before them.
    ///
    /// # Errors
    /// As [`Ledger::lease`].
    pub async fn lease_due(
        &self,
        replica: ReplicaId,
        due: Due,
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        let (limit, cancels) = (i64::from(due.limit), i64::from(due.cancels));
        let from = due.from.map_or(0, |from| from.0);
        self.run(async |connection| {
            let taken = sqlx::query_file_as!(
                Taken,
                "../../sql/lease.sql",
                limit,
                replica.0,
                micros(term),
                cancels,
                from
            )
            .fetch_all(&mut *connection)
            .await?;
            read_all(connection, taken).await
        })
        .await
        .map_err(LedgerError::new("lease rows"))
    }

    /// Leases up to `limit` due rows from these lanes, so many of each at most: what piled up on one server
    /// stands in nobody's way.
    ///
    /// # Errors
    /// As [`Ledger::lease`].
    pub async fn lease_lanes(
        &self,
        replica: ReplicaId,
        limit: u32,
        lanes: &[(Lane, u32)],
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        let servers: Vec<String> = lanes.iter().map(|(lane, _)| lane.registration.to_string()).collect();
        let phases: Vec<&str> = lanes.iter().map(|(lane, _)| lane.phase.as_str()).collect();
        let most: Vec<i64> = lanes.iter().map(|(_, most)| i64::from(*most)).collect();
        self.run(async |connection| {
            let taken = sqlx::query_file_as!(
                Taken,
                "../../sql/lease_lanes.sql",
                i64::from(limit),
                replica.0,
                micros(term),
                &servers,
                &phases as &[&str],
                &most
            )
            .fetch_all(&mut *connection)
            .await?;
            read_all(connection, taken).await
        })
        .await
        .map_err(LedgerError::new("lease rows"))
    }

    /// The lanes in which something is due.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn lanes(&self) -> Result<Vec<Lane>, LedgerError> {
        let rows = self
            .run(async |connection| sqlx::query_file!("../../sql/lanes.sql").fetch_all(connection).await)
            .await
            .map_err(LedgerError::new("say where something is due"))?;
        let lane = |id: String, phase: &str| {
            Some(Lane { registration: RegistrationId::new(id), phase: PhaseName::parse(phase)? })
        };
        Ok(rows.into_iter().filter_map(|row| lane(row.registration_id, &row.phase)).collect())
    }

    /// Leases one row of a server whose breaker has been open for long enough, unless another replica
    /// does: for `answer_within` nobody else tries.
    ///
    /// # Errors
    /// As [`Ledger::lease`].
    pub async fn lease_probe(
        &self,
        replica: ReplicaId,
        server: &RegistrationId,
        phases: &[PhaseName],
        answer_within: Duration,
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        let phases: Vec<&str> = phases.iter().map(|phase| phase.as_str()).collect();
        self.run(async |connection| {
            let taken = sqlx::query_file_as!(
                Taken,
                "../../sql/lease_probe.sql",
                server.as_str(),
                replica.0,
                micros(term),
                micros(answer_within),
                &phases as &[&str]
            )
            .fetch_all(&mut *connection)
            .await?;
            read_all(connection, taken).await
        })
        .await
        .map_err(LedgerError::new("lease a row to see whether its server answers"))
    }

    /// Leases up to `limit` rows of closed servers whose deadline has come.
    ///
    /// # Errors
    /// As [`Ledger::lease`].
    pub async fn lease_overdue(
        &self,
        replica: ReplicaId,
        limit: u32,
        closed: &[RegistrationId],
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        let closed: Vec<String> = closed.iter().map(ToString::to_string).collect();
        self.run(async |connection| {
            let taken = sqlx::query_file_as!(
                Taken,
                "../../sql/lease_overdue.sql",
                i64::from(limit),
                replica.0,
                micros(term),
                &closed
            )
            .fetch_all(&mut *connection)
            .await?;
            read_all(connection, taken).await
        })
        .await
        .map_err(LedgerError::new("lease overdue rows"))
    }

    /// Leases one row that ended two leases or more without a commit, of no closed server. The caller
    /// holds nothing else meanwhile (DESIGN rule 16).
    ///
    /// # Errors
    /// As [`Ledger::lease`].
    pub async fn lease_suspect(
        &self,
        replica: ReplicaId,
        closed: &[RegistrationId],
        term: Duration,
    ) -> Result<LeaseBatch, LedgerError> {
        let closed: Vec<String> = closed.iter().map(ToString::to_string).collect();
        self.run(async |connection| {
            let taken = sqlx::query_file_as!(
                Taken,
                "../../sql/lease_suspect.sql",
                1,
                replica.0,
                micros(term),
                &closed
            )
            .fetch_all(&mut *connection)
            .await?;
            read_all(connection, taken).await
        })
        .await
        .map_err(LedgerError::new("lease a suspect row"))
    }

    /// Whether a row is due that only [`Ledger::lease_suspect`] takes, of no closed server.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn suspect_due(&self, closed: &[RegistrationId]) -> Result<bool, LedgerError> {
        let closed: Vec<String> = closed.iter().map(ToString::to_string).collect();
        self.run(async |connection| {
            sqlx::query_file_scalar!("../../sql/suspect_due.sql", &closed).fetch_one(connection).await
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
}

async fn read_all(connection: &mut PgConnection, taken: Vec<Taken>) -> Result<LeaseBatch, sqlx::Error> {
    let Some(first) = taken.first() else { return Ok(LeaseBatch::default()) };
    let now = first.now;
    let due = || taken.iter().filter_map(|row| row.due_at);
    let mut batch = LeaseBatch {
        now: Some(Timestamp(now)),
        oldest: due().min().map(Timestamp),
        newest: due().max().map(Timestamp),
        waits: due().map(|due| wait(now, due)).collect(),
        ..LeaseBatch::default()
    };
    let (ids, fences): (Vec<i64>, Vec<i64>) = taken.iter().map(|row| (row.id, row.fence)).unzip();
    let rows = sqlx::query_file_as!(LeaseRow, "../../sql/read_leased.sql", &ids, &fences)
        .fetch_all(&mut *connection)
        .await?;
    let asking: Vec<i64> = rows.iter().filter(|row| row.has_inputs()).map(|row| row.id).collect();
    let mut inputs = Vec::new();
    if !asking.is_empty() {
        inputs =
            sqlx::query_file_as!(InputRow, "../../sql/inputs.sql", &asking).fetch_all(connection).await?;
    }
    inputs.sort_by_key(|input| input.task_id);

    let mut shared = HashMap::new();
    for row in rows {
        let start = inputs.partition_point(|input| input.task_id < row.id);
        let end = inputs.partition_point(|input| input.task_id <= row.id);
        match row.read(Timestamp(now), inputs.get(start..end).unwrap_or_default(), &mut shared) {
            Ok(leased) => batch.rows.push(leased),
            Err(bad) => batch.bad.push(bad),
        }
    }
    Ok(batch)
}

/// For how long something that was due at `due` had waited.
fn wait(now: i64, due: i64) -> Duration {
    Duration::from_micros(u64::try_from(now.saturating_sub(due)).unwrap_or(0))
}

/// Microseconds for an interval parameter, saturating.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
