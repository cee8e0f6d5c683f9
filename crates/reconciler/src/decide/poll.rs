//! What came of `tasks/get`, of a task that works or asks for input.

use serde_json::Value;

use crate::backoff::{input_delay, poll_delay, retry_delay};
use crate::finish::{with_result, without_result};
use crate::remote_facts::learn;
use crate::sentence::sentence;
use crate::{
    Answer, CancelDebt, ErrorSource, InputKey, InputPolicy, InputState, InputSubject, Outcome, Phase,
    PollReply, Refusal, RemoteState, RemoteStatus, RemoteTask, RetryAfter, RunState, Snapshot, Transition,
};

/// Failures in a row after which a task past its TTL is given up though the server may come back.
const ATTEMPTS_PAST_TTL: u32 = 3;

/// Decides about a row in `working`, or in `input_required` with a remote task.
pub(super) fn decide(snapshot: &Snapshot<'_>, known: &RemoteTask, reply: PollReply) -> Transition {
    if snapshot.run.state == RunState::Cancelled {
        return Transition::RepairCancel;
    }
    match reply {
        PollReply::Working(state) => {
            let remote = learn(Some(known), &state, RemoteStatus::Working, snapshot.now);
            let polls = snapshot.task.polls.saturating_add(1);
            let delay = poll_delay(snapshot, polls, remote.poll_interval, remote.expires_at);
            Transition::Continue { remote, delay }
        }
        PollReply::InputRequired { state, requests } => asks(snapshot, known, &state, requests),
        // Completed is not success: the result may say that it is an error (DESIGN rule 10).
        PollReply::Completed { state: _, result } => with_result(snapshot, &result),
        PollReply::Failed { state: _, error } => without_result(
            snapshot,
            Outcome::RemoteFailed,
            CancelDebt::None,
            ErrorSource::Remote,
            &format!("The remote task failed: {} (code {}).", error.message, error.code),
        ),
        PollReply::Cancelled(_) => without_result(
            snapshot,
            Outcome::RemoteCancelled,
            CancelDebt::None,
            ErrorSource::Remote,
            "The server cancelled the task.",
        ),
        PollReply::Refused(refusal) => refused(snapshot, known, refusal),
        PollReply::TooLarge { detail } => without_result(
            snapshot,
            Outcome::ResultTooLarge,
            CancelDebt::None,
            ErrorSource::Remote,
            &format!("The tool's result is too large: {detail}"),
        ),
    }
}

/// A round of questions is the set of keys asked until the task goes on. A key that was not asked
/// before in this round begins a new one, unless the round's others still stand open: servers may
/// add questions, take answers one by one, or begin their keys anew on every leg (PROTOCOL 10).
fn asks(
    snapshot: &Snapshot<'_>,
    known: &RemoteTask,
    state: &RemoteState,
    requests: Vec<(InputKey, Value)>,
) -> Transition {
    let remote = learn(Some(known), state, RemoteStatus::InputRequired, snapshot.now);
    let delay = input_delay(snapshot, remote.poll_interval, remote.expires_at);
    let round_open = matches!(snapshot.task.phase, Phase::InputRequired { .. });
    let known_key = |key: &InputKey| round_open && snapshot.inputs.iter().any(|input| input.key == *key);

    // An answer that may have been lost with a replica is sent again, byte for byte, but only
    // while the server still asks for its key.
    let lost: Vec<Answer> = snapshot
        .inputs
        .iter()
        .filter(|input| round_open && requests.iter().any(|(key, _)| *key == input.key))
        .filter_map(|input| match &input.state {
            InputState::Sending(response) => {
                Some(Answer { key: input.key.clone(), response: response.clone() })
            }
            InputState::Pending | InputState::Answered(_) | InputState::Sent => None,
        })
        .collect();
    if !lost.is_empty() {
        return Transition::SendAnswers { answers: lost };
    }

    let fresh: Vec<(InputKey, Value)> = requests.into_iter().filter(|(key, _)| !known_key(key)).collect();
    let same_round = round_open
        && (fresh.is_empty() || snapshot.inputs.iter().any(|input| input.state == InputState::Pending));
    let round =
        if same_round { snapshot.task.input_round } else { snapshot.task.input_round.saturating_add(1) };

    let end = |message: &str| {
        without_result(snapshot, Outcome::InputUnsupported, CancelDebt::Owed, ErrorSource::Local, message)
    };
    match snapshot.policy.input {
        InputPolicy::Fail => end("The server asks for input, which is not surfaced here."),
        InputPolicy::Surface if round > snapshot.policy.input_rounds => {
            end("The server asked for input too many times.")
        }
        InputPolicy::Surface => {
            Transition::AwaitInput { subject: InputSubject::Task(remote), round, requests: fresh, delay }
        }
    }
}

fn refused(snapshot: &Snapshot<'_>, known: &RemoteTask, refusal: Refusal) -> Transition {
    let policy = snapshot.policy;
    let attempt = snapshot.task.attempt.saturating_add(1);
    let past_ttl = known.expires_at.is_some_and(|at| snapshot.now >= at);
    let end = |outcome, debt, source, message: &str| without_result(snapshot, outcome, debt, source, message);
    match refusal {
        // Unknown, expired or not ours: the TTL tells which it was (DESIGN rule 12).
        Refusal::Gone { message } => {
            let (outcome, what) = if past_ttl {
                (Outcome::TaskExpired, "The remote task expired")
            } else {
                (
                    Outcome::TaskMissing,
                    "The server does not know the task any more, before its time to live was over",
                )
            };
            end(outcome, CancelDebt::None, ErrorSource::Remote, &format!("{what}: {message}"))
        }
        Refusal::Unauthorised { detail } if attempt >= policy.unauthorised_attempts => {
            end(Outcome::Unauthorised, CancelDebt::None, ErrorSource::Remote, &detail)
        }
        Refusal::Transient(trouble) if attempt >= policy.give_up_attempts => {
            end(Outcome::RemoteUnreachable, CancelDebt::None, ErrorSource::Local, &trouble.detail)
        }
        Refusal::Transient(trouble) if past_ttl && attempt >= ATTEMPTS_PAST_TTL => end(
            Outcome::RemoteUnreachable,
            CancelDebt::None,
            ErrorSource::Local,
            &format!("The task's time to live is over and the server does not answer: {}", trouble.detail),
        ),
        // The id is ours and in the row, so what may still run there is worth a cancel.
        Refusal::Malformed { detail } if attempt >= policy.malformed_attempts => end(
            Outcome::ProtocolError,
            CancelDebt::Owed,
            ErrorSource::Remote,
            &format!("The server's replies about the task cannot be read: {detail}"),
        ),
        Refusal::Unauthorised { detail } | Refusal::Malformed { detail } => {
            retry(snapshot, attempt, &detail, None)
        }
        Refusal::Transient(trouble) => retry(snapshot, attempt, &trouble.detail, trouble.retry_after),
    }
}

fn retry(snapshot: &Snapshot<'_>, attempt: u32, reason: &str, retry_after: RetryAfter) -> Transition {
    Transition::Retry {
        delay: retry_delay(snapshot, attempt, retry_after),
        attempt,
        reason: sentence(reason),
    }
}
