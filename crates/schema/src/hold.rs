//! The locks of a commit.
//!
//! Their order is Run → Action → task, each sorted by id, the same as the cancel trigger's. A batch
//! skips whatever row somebody else holds, so it never waits for a row lock. It may still wait on a unique
//! index, for a transaction that has inserted the same id and not committed, and for another batch that hands
//! out slots: for a fifth of a second, and then it goes row by row. What it skipped is committed alone
//! afterwards, waiting, where a single chain in the common order cannot close a circle either.

use std::collections::{BTreeSet, HashMap, HashSet};

use david_reconciler::Transition;
use sqlx::PgConnection;

use crate::Write;
use crate::changes::action_status;
use crate::settle::LockedRow;

/// Do we wait for locks?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Skip what is locked.
    Skip,
    /// Wait: for one row only.
    Wait,
}

impl Patience {
    /// What it means for whatever else a commit may wait for.
    pub(crate) fn lock_timeout(self) -> &'static str {
        match self {
            Self::Skip => "200ms",
            Self::Wait => "5s",
        }
    }
}

/// The task rows that are held, with their Actions and Runs where those are written too.
pub(crate) struct Held {
    rows: HashMap<i64, LockedRow>,
    runs: HashSet<String>,
    actions: HashSet<String>,
}

impl Held {
    /// The row of this write, once: a second write for it has to wait its turn.
    pub(crate) fn take(&mut self, write: &Write) -> Option<LockedRow> {
        let run = !needs_run(&write.transition) || self.runs.contains(write.leased.run.id.as_str());
        let action = action_status(&write.transition).is_none()
            || self.actions.contains(write.leased.task.action_id.as_str());
        if run && action { self.rows.remove(&write.leased.task.id.0) } else { None }
    }
}

/// Takes them.
pub(crate) async fn hold(
    connection: &mut PgConnection,
    writes: &[Write],
    patience: Patience,
) -> Result<Held, sqlx::Error> {
    let ending = writes.iter().filter(|write| needs_run(&write.transition));
    let runs =
        hold_runs(connection, unique(ending.map(|write| write.leased.run.id.as_str())), patience).await?;

    let touching = writes.iter().filter(|write| action_status(&write.transition).is_some());
    let touching = unique(touching.map(|write| write.leased.task.action_id.as_str()));
    let actions = hold_actions(connection, touching, patience).await?;

    let ids: Vec<i64> = writes.iter().map(|write| write.leased.task.id.0).collect();
    let rows = match patience {
        Patience::Skip => {
            sqlx::query_file_as!(LockedRow, "../../sql/lock_tasks.sql", &ids).fetch_all(connection).await?
        }
        Patience::Wait => {
            sqlx::query_file_as!(LockedRow, "../../sql/lock_task.sql", &ids).fetch_all(connection).await?
        }
    };
    Ok(Held { rows: rows.into_iter().map(|row| (row.id, row)).collect(), runs, actions })
}

/// Holds the Runs of Actions that end, so that none can be cancelled before COMMIT, and re-reads
/// them: cancel beats complete (DESIGN rule 7). The rows of a Run that is cancelled already, by a
/// canceller who could not see them, leave the batch and are repaired one by one, since the repair
/// may have to wait.
async fn hold_runs(
    connection: &mut PgConnection,
    runs: Vec<String>,
    patience: Patience,
) -> Result<HashSet<String>, sqlx::Error> {
    if runs.is_empty() {
        return Ok(HashSet::new());
    }
    match patience {
        Patience::Skip => {
            let held = sqlx::query_file!("../../sql/lock_runs.sql", &runs).fetch_all(connection).await?;
            Ok(held.into_iter().filter(|run| !run.cancelled).map(|run| run.id).collect())
        }
        Patience::Wait => {
            let held = sqlx::query_file!("../../sql/lock_run.sql", &runs).fetch_all(&mut *connection).await?;
            for run in held.iter().filter(|run| run.cancelled) {
                sqlx::query_file!("../../sql/repair_cancel.sql", run.id).fetch_one(&mut *connection).await?;
            }
            Ok(held.into_iter().map(|run| run.id).collect())
        }
    }
}

async fn hold_actions(
    connection: &mut PgConnection,
    actions: Vec<String>,
    patience: Patience,
) -> Result<HashSet<String>, sqlx::Error> {
    if actions.is_empty() {
        return Ok(HashSet::new());
    }
    let held = match patience {
        Patience::Skip => {
            sqlx::query_file_scalar!("../../sql/lock_actions.sql", &actions).fetch_all(connection).await
        }
        Patience::Wait => {
            sqlx::query_file_scalar!("../../sql/lock_action.sql", &actions).fetch_all(connection).await
        }
    };
    Ok(held?.into_iter().collect())
}

/// Which writes must hold their Run: those that end an Action, and the repair.
fn needs_run(transition: &Transition) -> bool {
    matches!(transition, Transition::Finish(_) | Transition::RepairCancel)
}

fn unique<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    ids.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}
