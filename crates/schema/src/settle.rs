//! A locked row against the write that wants it: apply, already applied, or why not.

use david_reconciler::{Fence, Outcome, PhaseName, Transition};
use sha2::{Digest, Sha256};

use crate::{Guard, Write};

/// A task row as `lock_tasks.sql` reads it.
#[derive(Debug, Clone)]
pub(crate) struct LockedRow {
    pub(crate) id: i64,
    pub(crate) phase: String,
    pub(crate) fence: i64,
    pub(crate) call_fence: Option<i64>,
    pub(crate) remote_task_key: Option<Vec<u8>>,
    pub(crate) outcome: Option<String>,
    pub(crate) envelope: Option<String>,
}

/// What is to be done with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Write it, and leave the row with this fence.
    Apply(Fence),
    /// It was written before: a COMMIT whose answer was lost did arrive (rule 2).
    Already(Fence),
    /// The Action has ended otherwise.
    Ended(Option<Outcome>),
    /// Somebody else leased or changed the row.
    Lost,
}

/// Compares. Total, so that zero rows are never a mystery (rule 3).
pub(crate) fn settle(row: &LockedRow, write: &Write) -> Verdict {
    if written_before(row, write) {
        return Verdict::Already(Fence(row.fence));
    }
    let phase = PhaseName::parse(&row.phase);
    let holds = match write.guard {
        Guard::Fence(fence) => row.fence == fence.0 && phase == Some(write.leased.task.phase.name()),
        Guard::Call(fence) => row.call_fence == Some(fence.0) && phase == Some(PhaseName::Calling),
    };
    if holds {
        return Verdict::Apply(match write.guard {
            Guard::Fence(fence) => fence,
            // Another replica may have leased the row since; it must find out.
            Guard::Call(_) => Fence(row.fence.saturating_add(1)),
        });
    }
    match &row.outcome {
        Some(word) => Verdict::Ended(Outcome::parse(word)),
        None => Verdict::Lost,
    }
}

/// Does the row show what this very write leaves behind? A fence is ours alone: nobody else writes
/// under it, so finding our work under our fence is finding our own work.
fn written_before(row: &LockedRow, write: &Write) -> bool {
    let under_our_fence = match write.guard {
        Guard::Fence(fence) => row.fence == fence.0,
        Guard::Call(fence) => row.call_fence == Some(fence.0),
    };
    let phase = PhaseName::parse(&row.phase);
    under_our_fence
        && match &write.transition {
            Transition::BeginCall { .. } => {
                phase == Some(PhaseName::Calling) && row.call_fence == Some(write.leased.task.fence.0)
            }
            // The phase may have moved on since; the id is what must not be lost.
            Transition::Track { remote, .. } => {
                row.remote_task_key.as_deref()
                    == Some(Sha256::digest(remote.id.expose().as_bytes()).as_slice())
            }
            Transition::Requeue { .. } => phase == Some(PhaseName::Queued),
            Transition::Finish(finish) => {
                row.outcome.as_deref() == Some(finish.outcome.as_str())
                    && row.envelope.as_deref() == Some(finish.envelope.as_str())
            }
            Transition::SettleCancel { .. } => phase == Some(PhaseName::Finalised),
            Transition::AwaitInput { .. } => {
                phase == Some(PhaseName::InputRequired)
                    && write.leased.task.phase.name() != PhaseName::InputRequired
            }
            // Writing these twice leaves what writing them once does.
            Transition::Continue { .. }
            | Transition::Retry { .. }
            | Transition::Wait { .. }
            | Transition::SendAnswers { .. }
            | Transition::AnswersSent { .. }
            | Transition::RepairCancel
            | Transition::Impossible { .. } => false,
        }
}
