//! Writing decisions, in batches, each in one transaction.
//!
//! The order of locks is Run → Action → task, each sorted by id, the same as the cancel trigger's.
//! A batch skips whatever somebody else holds, so it never waits while holding something, and
//! cannot take part in a deadlock; what it skipped is committed alone afterwards, waiting, where a
//! single chain in the common order cannot close a circle either.
//!
//! Cancel beats complete: the Run is held `for share` from its re-read to COMMIT, so a cancel
//! either committed first, and its fence or the re-read stops the result here, or it comes after,
//! and finds the Action ended (DESIGN rule 7).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use david_reconciler::{Fence, Outcome, TaskId, Transition};
use sqlx::PgConnection;

use crate::changes::{Changes, action_status};
use crate::error::fault_of;
use crate::settle::{LockedRow, Verdict, settle};
use crate::write::NewRow;
use crate::{CommitError, Fault, Ledger, ReplicaId, Write};

/// What came of a write. Zero rows have a name each (rule 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// It is written, now or by an earlier try whose answer was lost.
    Applied {
        /// The row's fence now.
        fence: Fence,
    },
    /// Somebody else leased or changed the row since; nothing was written.
    LeaseLost,
    /// The Action had ended otherwise; nothing was written.
    AlreadyFinalised {
        /// How, if the word is one we know.
        outcome: Option<Outcome>,
    },
    /// The row is gone with its Action or Run; nothing was written.
    Vanished,
}

/// Do we wait for locks?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Skip what is locked.
    Skip,
    /// Wait: for one row only.
    Wait,
}

/// What came of a batch, in the order of its writes.
#[derive(Debug)]
pub enum BatchAnswer {
    /// The write is settled.
    Settled(Result<Committed, CommitError>),
    /// Somebody holds its Run, Action or row, or the batch was refused for one of its rows: commit
    /// it with [`Ledger::commit_alone`], which may wait, so that the others need not.
    Alone,
}

impl Ledger {
    /// Commits `writes`, at most one per row, without ever waiting for a lock. Every write gets an
    /// answer of its own: one bad or locked row does not fail or stall the batch it travels in
    /// (rules 7 and 16).
    pub async fn commit_batch(&self, replica: ReplicaId, writes: &[Write]) -> Vec<BatchAnswer> {
        match self.commit_together(replica, writes, Patience::Skip).await {
            Ok(mut settled) => writes
                .iter()
                .map(|write| match settled.remove(&write.leased.task.id) {
                    Some(committed) => BatchAnswer::Settled(Ok(committed)),
                    None => BatchAnswer::Alone,
                })
                .collect(),
            // The connection is gone, and with it the knowledge of what was written. The caller
            // tries again, and each write recognises itself.
            Err(error) if fault_of(&error) == Fault::Unavailable => {
                let error = Arc::new(error);
                let unavailable = || BatchAnswer::Settled(Err(CommitError::Unavailable(Arc::clone(&error))));
                writes.iter().map(|_| unavailable()).collect()
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a batch goes row by row");
                writes.iter().map(|_| BatchAnswer::Alone).collect()
            }
        }
    }

    /// Commits one write, waiting up to five seconds for each lock.
    ///
    /// # Errors
    /// See [`CommitError`]: nothing was written, or ([`CommitError::Unavailable`]) nobody knows.
    pub async fn commit_alone(&self, replica: ReplicaId, write: &Write) -> Result<Committed, CommitError> {
        let id = write.leased.task.id;
        match self.commit_together(replica, std::slice::from_ref(write), Patience::Wait).await {
            // Waited for, and not there.
            Ok(mut settled) => Ok(settled.remove(&id).unwrap_or(Committed::Vanished)),
            Err(error) => Err(match fault_of(&error) {
                Fault::Conflict | Fault::Unavailable => CommitError::Unavailable(Arc::new(error)),
                Fault::RemoteTaskTaken => CommitError::RemoteTaskTaken,
                Fault::Refused => CommitError::Refused(Arc::new(error)),
            }),
        }
    }

    /// One transaction. Rows that are missing from the answer were locked by somebody else, or are
    /// gone.
    async fn commit_together(
        &self,
        replica: ReplicaId,
        writes: &[Write],
        patience: Patience,
    ) -> Result<HashMap<TaskId, Committed>, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        if patience == Patience::Wait {
            sqlx::query_file!("../../sql/limit_lock_wait.sql").execute(&mut *transaction).await?;
        }
        let writes = hold_ledger(&mut transaction, writes, patience).await?;
        let locked = lock_tasks(&mut transaction, &writes, patience).await?;

        let mut settled = HashMap::with_capacity(writes.len());
        let mut changes = Changes::default();
        for write in writes {
            let id = write.leased.task.id;
            let Some(row) = locked.get(&id.0) else {
                continue;
            };
            let committed = match (settle(row, write), NewRow::of(write)) {
                (Verdict::Apply(fence), Some(new)) => {
                    changes.add(write, &new, row, fence);
                    Committed::Applied { fence }
                }
                // The repair was done with the Run; the row has moved unless it had ended before.
                (Verdict::Apply(fence) | Verdict::Already(fence), None)
                | (Verdict::Already(fence), Some(_)) => Committed::Applied { fence },
                (Verdict::Ended(outcome), _) => Committed::AlreadyFinalised { outcome },
                (Verdict::Lost, _) => Committed::LeaseLost,
            };
            settled.insert(id, committed);
        }
        changes.write(&mut transaction, replica).await?;
        transaction.commit().await?;
        Ok(settled)
    }
}

/// Locks Runs and Actions of the writes that end or begin an Action, repairs what a cancelled Run
/// left behind, and returns the writes that may go on.
async fn hold_ledger<'a>(
    connection: &mut PgConnection,
    writes: &'a [Write],
    patience: Patience,
) -> Result<Vec<&'a Write>, sqlx::Error> {
    let runs: Vec<String> = unique(
        writes.iter().filter(|write| needs_run(&write.transition)).map(|write| write.leased.run.id.as_str()),
    );
    let mut held = HashSet::new();
    if !runs.is_empty() {
        let rows: Vec<(String, bool)> = match patience {
            Patience::Skip => sqlx::query_file!("../../sql/lock_runs.sql", &runs)
                .fetch_all(&mut *connection)
                .await?
                .into_iter()
                .map(|run| (run.id, run.cancelled))
                .collect(),
            Patience::Wait => sqlx::query_file!("../../sql/lock_run.sql", &runs)
                .fetch_all(&mut *connection)
                .await?
                .into_iter()
                .map(|run| (run.id, run.cancelled))
                .collect(),
        };
        for (id, cancelled) in rows {
            if cancelled {
                sqlx::query_file!("../../sql/repair_cancel.sql", id).fetch_one(&mut *connection).await?;
            }
            held.insert(id);
        }
    }
    let writes: Vec<&Write> = writes
        .iter()
        .filter(|write| !needs_run(&write.transition) || held.contains(write.leased.run.id.as_str()))
        .collect();

    let actions: Vec<String> = unique(
        writes
            .iter()
            .filter(|write| action_status(&write.transition).is_some())
            .map(|write| write.leased.task.action_id.as_str()),
    );
    if actions.is_empty() {
        return Ok(writes);
    }
    let held: HashSet<String> = match patience {
        Patience::Skip => {
            sqlx::query_file_scalar!("../../sql/lock_actions.sql", &actions)
                .fetch_all(&mut *connection)
                .await?
        }
        Patience::Wait => {
            sqlx::query_file_scalar!("../../sql/lock_action.sql", &actions)
                .fetch_all(&mut *connection)
                .await?
        }
    }
    .into_iter()
    .collect();
    Ok(writes
        .into_iter()
        .filter(|write| {
            action_status(&write.transition).is_none() || held.contains(write.leased.task.action_id.as_str())
        })
        .collect())
}

async fn lock_tasks(
    connection: &mut PgConnection,
    writes: &[&Write],
    patience: Patience,
) -> Result<HashMap<i64, LockedRow>, sqlx::Error> {
    let ids: Vec<i64> = writes.iter().map(|write| write.leased.task.id.0).collect();
    let rows = match patience {
        Patience::Skip => {
            sqlx::query_file_as!(LockedRow, "../../sql/lock_tasks.sql", &ids).fetch_all(connection).await?
        }
        Patience::Wait => {
            sqlx::query_file_as!(LockedRow, "../../sql/lock_task.sql", &ids).fetch_all(connection).await?
        }
    };
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Which writes must hold their Run: those that end an Action, and the repair.
fn needs_run(transition: &Transition) -> bool {
    matches!(transition, Transition::Finish(_) | Transition::RepairCancel)
}

fn unique<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    ids.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}
