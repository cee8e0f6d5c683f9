//! The ends of an Action.

use crate::sentence::sentence;
use crate::{CancelDebt, Envelope, ErrorSource, Finish, Outcome, Snapshot, ToolResult, Transition, Verdict};

/// An end with the tool's own result, good or bad (DESIGN rule 10).
pub(crate) fn with_result(snapshot: &Snapshot<'_>, result: &ToolResult) -> Transition {
    let (outcome, reason) = match result.verdict {
        Verdict::Success => (Outcome::Succeeded, None),
        Verdict::Error => (Outcome::ToolError, Some("The tool reported an error.".to_owned())),
    };
    Transition::Finish(Finish {
        outcome,
        envelope: Envelope::of_result(&snapshot.task.action_id, snapshot.call, result),
        debt: CancelDebt::None,
        reason,
    })
}

/// An end without one.
pub(crate) fn without_result(
    snapshot: &Snapshot<'_>,
    outcome: Outcome,
    debt: CancelDebt,
    source: ErrorSource,
    message: &str,
) -> Transition {
    let message = sentence(snapshot, message);
    Transition::Finish(Finish {
        outcome,
        envelope: Envelope::of_error(&snapshot.task.action_id, snapshot.call, outcome, &message, source),
        debt: owed_to(snapshot, debt),
        reason: Some(message),
    })
}

/// A cancel can only be owed for a task whose id is in the row.
fn owed_to(snapshot: &Snapshot<'_>, debt: CancelDebt) -> CancelDebt {
    match snapshot.task.phase.remote() {
        Some(_) => debt,
        None => CancelDebt::None,
    }
}

/// The end of a row that the database refuses to store otherwise, or that killed its leases
/// (DESIGN rules 15 and 16). Nothing is owed: the row is not to be touched again.
pub fn quarantine(snapshot: &Snapshot<'_>, message: &str) -> Transition {
    without_result(snapshot, Outcome::Quarantined, CancelDebt::None, ErrorSource::Local, message)
}

/// The end of a task whose id belongs to another live row. The id is not cancelled: it is
/// somebody's (DESIGN §3).
pub fn protocol_error(snapshot: &Snapshot<'_>, message: &str) -> Transition {
    without_result(snapshot, Outcome::ProtocolError, CancelDebt::None, ErrorSource::Remote, message)
}
