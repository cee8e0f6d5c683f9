//! What came of `tasks/update` and `tasks/cancel`, whose acknowledgements prove nothing.

use crate::backoff::{SHORTEST, before_deadline, retry_delay};
use crate::sentence::sentence;
use crate::{Ack, InputKey, InputState, Refusal, RunState, Snapshot, Transition, Trouble};

/// Answers were sent.
pub(super) fn of_update(snapshot: &Snapshot<'_>, ack: Ack) -> Transition {
    if snapshot.run.state == RunState::Cancelled {
        return Transition::RepairCancel;
    }
    match ack {
        Ack::Acknowledged => Transition::AnswersSent {
            keys: sending(snapshot),
            delay: before_deadline(snapshot, snapshot.policy.poll_base),
        },
        // The next poll finds out what became of the task.
        Ack::Refused(Refusal::Gone { message }) => {
            Transition::Retry { delay: SHORTEST, attempt: snapshot.task.attempt, reason: sentence(&message) }
        }
        Ack::Refused(refusal) => again(snapshot, refusal),
    }
}

/// A remote cancel was asked for: done, or tried again a few times. Best effort either way; the
/// Action ended long ago.
pub(super) fn of_cancel(snapshot: &Snapshot<'_>, ack: Ack) -> Transition {
    let settle = |reason: String| Transition::SettleCancel { reason };
    match ack {
        Ack::Acknowledged => settle("The server acknowledged the cancel.".to_owned()),
        Ack::Refused(Refusal::Gone { .. }) => settle("The server no longer knows the task.".to_owned()),
        Ack::Refused(refusal)
            if snapshot.task.attempt.saturating_add(1) >= snapshot.policy.cancel_attempts =>
        {
            let (detail, _) = of_refusal(refusal);
            settle(sentence(&format!("The remote cancel was given up: {detail}")))
        }
        Ack::Refused(refusal) => again(snapshot, refusal),
    }
}

fn again(snapshot: &Snapshot<'_>, refusal: Refusal) -> Transition {
    let attempt = snapshot.task.attempt.saturating_add(1);
    let (detail, retry_after) = of_refusal(refusal);
    Transition::Retry {
        delay: retry_delay(snapshot, attempt, retry_after),
        attempt,
        reason: sentence(&detail),
    }
}

fn of_refusal(refusal: Refusal) -> (String, crate::RetryAfter) {
    match refusal {
        Refusal::Gone { message: detail }
        | Refusal::Unauthorised { detail }
        | Refusal::Malformed { detail } => (detail, None),
        Refusal::Transient(Trouble { detail, retry_after }) => (detail, retry_after),
    }
}

fn sending(snapshot: &Snapshot<'_>) -> Vec<InputKey> {
    let being_sent = snapshot.inputs.iter().filter(|input| matches!(input.state, InputState::Sending(_)));
    being_sent.map(|input| input.key.clone()).collect()
}
