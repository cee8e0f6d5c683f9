//! What C compares: the same turn of lease and reschedule, of this schema and of the least that could do it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use david_reconciler::{Phase, Timestamp, Transition};
use david_schema::{BatchAnswer, Committed, Due, Guard, LeaseBatch, Leased, Ledger, ReplicaId, Write};

use super::TERM;

/// Rows per lease and per write.
pub(crate) const BATCH: u32 = 100;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Four columns and one index: when, under which fence, how often in vain.
    Narrow,
    /// `lease.sql` and `write_tasks.sql`, each a transaction, as the narrow one's are.
    Statements,
    /// [`Ledger`]: the lease reads what surrounds the rows, and the commit holds and compares them first.
    Ledger,
}

/// The settings are those of `david.mcp_action_tasks`, so that vacuum comes as often.
pub(crate) const NARROW: &str = "
    create schema bench;
    create table bench.schedule (
        id      bigint       primary key,
        due_at  timestamptz  not null,
        fence   bigint       not null default 0,
        lapses  integer      not null default 0
    ) with (
        fillfactor = 70,
        autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05
    );
    create index schedule_due on bench.schedule (due_at) where lapses < 2;
    insert into bench.schedule (id, due_at) select t.id, t.due_at from david.mcp_action_tasks t";

/// The form of `lease.sql`, with its low-water mark, less the cancels and the time of the lease.
const LEASE_NARROW: &str = "
    with due as materialized (
        select d.id, d.due_at
          from bench.schedule d
         where d.due_at <= now()
           and d.due_at >= timestamptz 'epoch' + $3::bigint * interval '1 microsecond'
           and d.lapses < 2
         order by d.due_at
         limit $1::bigint
           for update skip locked
    ), leased as (
        update bench.schedule t
           set due_at = now() + $2::bigint * interval '1 microsecond',
               fence  = t.fence + 1,
               lapses = t.lapses + 1
         where t.id = any (array(select id from due))
     returning t.id, t.fence
    )
    select l.id, l.fence, (select (extract(epoch from max(d.due_at)) * 1000000)::bigint from due d)
      from leased l";

const RESCHEDULE_NARROW: &str = "
    update bench.schedule t
       set due_at = now() + w.due_in * interval '1 microsecond',
           lapses = 0
      from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as w (id, fence, due_in)
     where t.id = w.id
       and t.fence = w.fence";

const LEASE: &str = include_str!("../../../../sql/lease.sql");

const WRITE_TASKS: &str = include_str!("../../../../sql/write_tasks.sql");

/// Id, fence, now, oldest, newest: see `lease.sql`.
type LeasedRow = (i64, i64, i64, Option<i64>, Option<i64>);

impl Side {
    /// Leases a batch and makes it due again at once. How many rows, and when the last of them was due.
    pub(crate) async fn turn(
        self,
        ledger: &Ledger,
        replica: ReplicaId,
        from: Option<Timestamp>,
    ) -> anyhow::Result<LeaseBatch> {
        match self {
            Self::Narrow => narrow(ledger, from).await,
            Self::Statements => statements(ledger, replica, from).await,
            Self::Ledger => whole(ledger, replica, from).await,
        }
    }
}

async fn narrow(ledger: &Ledger, from: Option<Timestamp>) -> anyhow::Result<LeaseBatch> {
    let rows: Vec<(i64, i64, Option<i64>)> = sqlx::query_as(LEASE_NARROW)
        .bind(i64::from(BATCH))
        .bind(term())
        .bind(from.map_or(0, |from| from.0))
        .fetch_all(ledger.pool())
        .await?;
    let (ids, fences): (Vec<i64>, Vec<i64>) = rows.iter().map(|row| (row.0, row.1)).unzip();
    let done = sqlx::query(RESCHEDULE_NARROW)
        .bind(&ids)
        .bind(&fences)
        .bind(vec![0_i64; ids.len()])
        .execute(ledger.pool())
        .await?;
    full(ids.len(), done.rows_affected())?;
    Ok(learnt(rows.first().and_then(|row| row.2)))
}

async fn statements(
    ledger: &Ledger,
    replica: ReplicaId,
    from: Option<Timestamp>,
) -> anyhow::Result<LeaseBatch> {
    let rows: Vec<LeasedRow> = sqlx::query_as(LEASE)
        .bind(i64::from(BATCH))
        .bind(replica.0)
        .bind(term())
        .bind(i64::from(BATCH))
        .bind(from.map_or(0, |from| from.0))
        .fetch_all(ledger.pool())
        .await?;
    let (ids, fences): (Vec<i64>, Vec<i64>) = rows.iter().map(|row| (row.0, row.1)).unzip();
    let count = ids.len();
    let remote: Vec<String> = ids.iter().map(|id| format!("remote-{id}")).collect();
    let done = sqlx::query(WRITE_TASKS)
        .bind(&ids)
        .bind(&fences)
        .bind(vec!["working"; count])
        .bind(vec![0_i64; count])
        .bind(&fences)
        .bind(vec![None::<i64>; count])
        .bind(vec![false; count])
        .bind(remote)
        .bind(vec!["working"; count])
        .bind(vec![None::<i64>; count])
        .bind(vec![None::<i64>; count])
        .bind(vec![1000_i64; count])
        .bind(vec![0_i32; count])
        .bind(vec![1_i32; count])
        .bind(vec![true; count])
        .bind(vec![None::<String>; count])
        .bind(vec![0_i32; count])
        .bind(vec![None::<String>; count])
        .bind(vec![None::<i32>; count])
        .execute(ledger.pool())
        .await?;
    full(count, done.rows_affected())?;
    Ok(learnt(rows.first().and_then(|row| row.4)))
}

async fn whole(ledger: &Ledger, replica: ReplicaId, from: Option<Timestamp>) -> anyhow::Result<LeaseBatch> {
    let due = Due { limit: BATCH, cancels: BATCH, from };
    let mut batch = ledger.lease_due(replica, due, TERM).await?;
    full(batch.len(), u64::from(BATCH))?;
    reschedule(ledger, replica, std::mem::take(&mut batch.rows)).await?;
    Ok(batch)
}

/// Commits the next poll of each row, due at once.
pub(crate) async fn reschedule(ledger: &Ledger, replica: ReplicaId, rows: Vec<Leased>) -> anyhow::Result<()> {
    let again = |leased: &Leased| match &leased.task.phase {
        Phase::Working { remote } => {
            Ok(Transition::Continue { remote: remote.clone(), delay: Duration::ZERO })
        }
        other => bail!("a row is {other:?}"),
    };
    commit(ledger, replica, rows, again).await
}

/// Commits one transition of each row, in one batch.
pub(crate) async fn commit(
    ledger: &Ledger,
    replica: ReplicaId,
    rows: Vec<Leased>,
    transition: impl Fn(&Leased) -> anyhow::Result<Transition>,
) -> anyhow::Result<()> {
    let writes = rows.into_iter().map(|leased| {
        let transition = transition(&leased)?;
        Ok(Write { guard: Guard::Fence(leased.task.fence), leased: Arc::new(leased), transition })
    });
    let writes = writes.collect::<anyhow::Result<Vec<Write>>>()?;
    for answer in ledger.commit_batch(replica, &writes).await {
        match answer {
            BatchAnswer::Settled(Ok(Committed::Applied { .. })) => {}
            other => bail!("a write was not applied: {other:?}"),
        }
    }
    Ok(())
}

/// A turn that found less than a batch, or wrote less than it leased, measures something else.
fn full(leased: usize, written: u64) -> anyhow::Result<()> {
    ensure!(
        leased == BATCH as usize && written == u64::from(BATCH),
        "leased {leased}, rescheduled {written}"
    );
    Ok(())
}

/// What the low-water mark learns from.
fn learnt(newest: Option<i64>) -> LeaseBatch {
    LeaseBatch { newest: newest.map(Timestamp), ..LeaseBatch::default() }
}

fn term() -> i64 {
    i64::try_from(TERM.as_micros()).unwrap_or(i64::MAX)
}
