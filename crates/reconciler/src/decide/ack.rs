//! What came of `tasks/update` and `tasks/cancel`, whose acknowledgements prove nothing.

use super::refusal;
use crate::backoff::before_deadline;
use crate::finish::without_result;
use crate::sentence::sentence;
use crate::{
    Ack, CancelDebt, ErrorSource, InputKey, InputState, Outcome, Refusal, RemoteTask, RunState, Snapshot,
    Transition, Trouble,
};

/// Answers were sent.
pub(super) fn of_update(snapshot: &Snapshot<'_>, known: &RemoteTask, ack: Ack) -> Transition {
    if snapshot.run.state == RunState::Cancelled {
        return Transition::RepairCancel;
    }
    let attempt = snapshot.task.attempt.saturating_add(1);
    match ack {
        Ack::Acknowledged => Transition::AnswersSent {
            keys: sending(snapshot),
            delay: before_deadline(snapshot, snapshot.policy.poll_base),
        },
        // The task is gone, or the answers are not to the server's taste: `-32602` is both. The
        // next poll tells which; a task that is still there and still refuses cannot be answered.
        Ack::Refused(Refusal::Gone { message }) if attempt >= snapshot.policy.malformed_attempts => {
            without_result(
                snapshot,
                Outcome::InputUnsupported,
                CancelDebt::Owed,
                ErrorSource::Remote,
                &format!("The server does not take the answers to its questions: {message}"),
            )
        }
        Ack::Refused(Refusal::Gone { message }) => refusal::retry(snapshot, attempt, &message, None),
        Ack::Refused(refused) => refusal::decide(snapshot, known, refused),
    }
}

/// A remote cancel was asked for: done, or tried again a few times. Best effort either way; the
/// Action ended long ago.
pub(super) fn of_cancel(snapshot: &Snapshot<'_>, ack: Ack) -> Transition {
    let settle = |reason: String| Transition::SettleCancel { reason };
    match ack {
        Ack::Acknowledged => settle("The server acknowledged the cancel.".to_owned()),
        Ack::Refused(Refusal::Gone { .. }) => settle("The server no longer knows the task.".to_owned()),
        Ack::Refused(Refusal::EndpointForbidden { detail }) => {
            settle(sentence(snapshot, &format!("The remote cancel may not be sent: {detail}")))
        }
        Ack::Refused(refused)
            if snapshot.task.attempt.saturating_add(1) >= snapshot.policy.cancel_attempts =>
        {
            let (detail, _) = of_refusal(refused);
            settle(sentence(snapshot, &format!("The remote cancel was given up: {detail}")))
        }
        Ack::Refused(refused) => {
            let (detail, retry_after) = of_refusal(refused);
            refusal::retry(snapshot, snapshot.task.attempt.saturating_add(1), &detail, retry_after)
        }
    }
}

fn of_refusal(refusal: Refusal) -> (String, crate::RetryAfter) {
    match refusal {
        Refusal::Gone { message: detail }
        | Refusal::EndpointForbidden { detail }
        | Refusal::Unauthorised { detail }
        | Refusal::Malformed { detail } => (detail, None),
        Refusal::Transient(Trouble { detail, retry_after }) => (detail, retry_after),
    }
}

/// Every answer marked as `sending`. Those of them that did not go out just now are no longer asked
/// for: [`super::poll`] sends all that are.
fn sending(snapshot: &Snapshot<'_>) -> Vec<InputKey> {
    let being_sent = snapshot.inputs.iter().filter(|input| matches!(input.state, InputState::Sending(_)));
    being_sent.map(|input| input.key.clone()).collect()
}
