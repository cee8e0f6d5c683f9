//! What C compares: the same turn of lease and reschedule, of this schema and of the least that could do it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use david_reconciler::{Phase, Timestamp, Transition};
use david_schema::{BatchAnswer, Committed, Due, Guard, Leased, Ledger, ReplicaId, Write};

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

/// What one turn took: so many rows, the last of which was due then.
pub(crate) struct Turn {
    pub(crate) rows: usize,
    pub(crate) newest: Option<Timestamp>,
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

/// Id, fence, time of the lease, and when the row was due.
type Taken = (i64, i64, i64, Option<i64>);

const WRITE_TASKS: &str = include_str!("../../../../sql/write_tasks.sql");

impl Side {
    /// Leases a batch and makes it due again at once.
    pub(crate) async fn turn(
        self,
        ledger: &Ledger,
        replica: ReplicaId,
        from: Option<Timestamp>,
    ) -> anyhow::Result<Turn> {
        match self {
            Self::Narrow => narrow(ledger, from).await,
            Self::Statements => statements(ledger, replica, from).await,
            Self::Ledger => whole(ledger, replica, from).await,
        }
    }
}

async fn narrow(ledger: &Ledger, from: Option<Timestamp>) -> anyhow::Result<Turn> {
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
    ensure!(done.rows_affected() == ids.len() as u64, "a lease was lost, and nobody else leases");
    Ok(Turn { rows: ids.len(), newest: rows.first().and_then(|row| row.2).map(Timestamp) })
}

async fn statements(ledger: &Ledger, replica: ReplicaId, from: Option<Timestamp>) -> anyhow::Result<Turn> {
    let rows: Vec<Taken> = sqlx::query_as(LEASE)
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
    ensure!(done.rows_affected() == count as u64, "a lease was lost, and nobody else leases");
    Ok(Turn { rows: count, newest: rows.iter().filter_map(|row| row.3).max().map(Timestamp) })
}

async fn whole(ledger: &Ledger, replica: ReplicaId, from: Option<Timestamp>) -> anyhow::Result<Turn> {
    let due = Due { limit: BATCH, cancels: BATCH, from };
    let batch = ledger.lease_due(replica, due, TERM).await?;
    let turn = Turn { rows: batch.len(), newest: batch.newest };
    reschedule(ledger, replica, batch.rows).await?;
    Ok(turn)
}

/// Commits the next poll of each row, due at once.
pub(crate) async fn reschedule(ledger: &Ledger, replica: ReplicaId, rows: Vec<Leased>) -> anyhow::Result<()> {
    let again = |leased: &Leased| match &leased.task.phase {
        Phase::Working { remote } => {
            Ok(Transition::Continue { remote: remote.clone(), delay: Duration::ZERO })
        }
        other => bail!("a row is {other:?}"),
    };
    commit(ledger, replica, rows, again).await?;
    Ok(())
}

/// Commits one transition of each row, in one batch if that can be. How many rows it could not be for.
pub(crate) async fn commit(
    ledger: &Ledger,
    replica: ReplicaId,
    rows: Vec<Leased>,
    transition: impl Fn(&Leased) -> anyhow::Result<Transition>,
) -> anyhow::Result<usize> {
    let writes = rows.into_iter().map(|leased| {
        let transition = transition(&leased)?;
        Ok(Write { guard: Guard::Fence(leased.task.fence), leased: Arc::new(leased), transition })
    });
    let writes = writes.collect::<anyhow::Result<Vec<Write>>>()?;
    let mut alone = 0;
    for (answer, write) in ledger.commit_batch(replica, &writes).await.into_iter().zip(&writes) {
        let committed = match answer {
            BatchAnswer::Settled(committed) => committed,
            // A lease of somebody else's may hold the row for a moment, to find that it is leased already. The
            // committer waits for it, too.
            BatchAnswer::Alone => {
                alone += 1;
                ledger.commit_alone(replica, write).await
            }
        };
        ensure!(matches!(committed, Ok(Committed::Applied { .. })), "a write was not applied: {committed:?}");
    }
    Ok(alone)
}

fn term() -> i64 {
    i64::try_from(TERM.as_micros()).unwrap_or(i64::MAX)
}
