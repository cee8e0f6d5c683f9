//! What came of `tasks/get`, of a task that works or asks for input.

use serde_json::Value;

use super::refusal;
use crate::backoff::{input_delay, poll_delay};
use crate::finish::{with_result, without_result};
use crate::remote_facts::learn;
use crate::{
    Answer, CancelDebt, ErrorSource, InputKey, InputPolicy, InputRequest, InputState, InputSubject, Outcome,
    Phase, PollReply, RemoteState, RemoteStatus, RemoteTask, RunState, Snapshot, Transition,
};

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
        PollReply::Refused(refused) => refusal::decide(snapshot, known, refused),
        // The reply was not read, so nobody knows whether the task has ended.
        PollReply::TooLarge { detail } => without_result(
            snapshot,
            Outcome::ResultTooLarge,
            CancelDebt::Owed,
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
    let end = |message: &str| {
        without_result(snapshot, Outcome::InputUnsupported, CancelDebt::Owed, ErrorSource::Local, message)
    };
    if snapshot.policy.input == InputPolicy::Fail {
        return end("The server asks for input, which is not surfaced here.");
    }
    let round_open = matches!(snapshot.task.phase, Phase::InputRequired { .. });
    let known_inputs = if round_open { snapshot.inputs } else { &[] };
    let answers = unsent(known_inputs, &requests);
    if !answers.is_empty() {
        return Transition::SendAnswers { answers };
    }

    let known_key = |key: &InputKey| known_inputs.iter().any(|input| input.key == *key);
    let fresh: Vec<(InputKey, Value)> = requests.into_iter().filter(|(key, _)| !known_key(key)).collect();
    // A round without a question yet is not over either.
    let stands_open =
        known_inputs.is_empty() || known_inputs.iter().any(|input| input.state == InputState::Pending);
    let round = if round_open && (fresh.is_empty() || stands_open) {
        snapshot.task.input_round
    } else {
        snapshot.task.input_round.saturating_add(1)
    };
    if round > snapshot.policy.input_rounds {
        return end("The server asked for input too many times.");
    }
    let remote = learn(Some(known), state, RemoteStatus::InputRequired, snapshot.now);
    let delay = input_delay(snapshot, remote.poll_interval, remote.expires_at);
    Transition::AwaitInput { subject: InputSubject::Task(remote), round, requests: fresh, delay }
}

/// Answers that did not leave yet, or that may have been lost with a replica: these are sent again,
/// byte for byte. Either only while the server asks for their keys.
fn unsent(inputs: &[InputRequest], requests: &[(InputKey, Value)]) -> Vec<Answer> {
    inputs
        .iter()
        .filter(|input| requests.iter().any(|(key, _)| *key == input.key))
        .filter_map(|input| match &input.state {
            InputState::Answered(response) | InputState::Sending(response) => {
                Some(Answer { key: input.key.clone(), response: response.clone() })
            }
            InputState::Pending | InputState::Sent => None,
        })
        .collect()
}
