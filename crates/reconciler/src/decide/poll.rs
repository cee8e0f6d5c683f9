//! What came of `tasks/get`, of a task that works or asks for input.

use serde_json::Value;

use super::refusal;
use crate::backoff::{input_delay, poll_delay};
use crate::finish::{with_result, without_result};
use crate::input::excess;
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

/// What the task asks, and what was asked before.
fn asks(
    snapshot: &Snapshot<'_>,
    known: &RemoteTask,
    state: &RemoteState,
    requests: Vec<(InputKey, Value)>,
) -> Transition {
    let end = |message: &str| {
        without_result(snapshot, Outcome::InputUnsupported, CancelDebt::Owed, ErrorSource::Local, message)
    };
    if snapshot.input_policy() == InputPolicy::Fail {
        return end("The server asks for input, which is not surfaced here.");
    }
    let round_open = matches!(snapshot.task.phase, Phase::InputRequired { .. });
    let known_inputs = if round_open { snapshot.inputs } else { &[] };
    let answers = unsent(known_inputs, &requests);
    if !answers.is_empty() {
        return Transition::SendAnswers { answers };
    }

    let (news, questions) = news_of(known_inputs, requests);
    let (round, known_questions) = match news {
        News::SameRound if round_open => (snapshot.task.input_round, known_inputs.len()),
        News::SameRound | News::NewRound => (snapshot.task.input_round.saturating_add(1), 0),
    };
    if let Some(reason) = excess(known_questions, &questions) {
        return without_result(
            snapshot,
            Outcome::ProtocolError,
            CancelDebt::Owed,
            ErrorSource::Remote,
            &reason,
        );
    }
    if round > snapshot.policy.input_rounds {
        return end("The server asked for input too many times.");
    }
    let remote = learn(Some(known), state, RemoteStatus::InputRequired, snapshot.now);
    let delay = input_delay(snapshot, remote.poll_interval, remote.expires_at);
    Transition::AwaitInput { subject: InputSubject::Task(remote), round, requests: questions, delay }
}

/// Answers that did not leave yet, or that may have been lost with a replica: these are sent again,
/// byte for byte. Either only while the server asks what they answer: a key may have come back with
/// another question, which nobody has seen yet.
fn unsent(inputs: &[InputRequest], requests: &[(InputKey, Value)]) -> Vec<Answer> {
    inputs
        .iter()
        .filter(|input| requests.iter().any(|(key, asked)| *key == input.key && *asked == input.request))
        .filter_map(|input| match &input.state {
            InputState::Answered(response) | InputState::Sending(response) => {
                Some(Answer { key: input.key.clone(), response: response.clone() })
            }
            InputState::Pending | InputState::Sent => None,
        })
        .collect()
}

/// Whether what is asked belongs to the round that is open.
enum News {
    SameRound,
    NewRound,
}

/// A round of questions is the set of keys asked until the task goes on; servers may add to it, take
/// its answers one by one, and go on asking for a while after an answer (PROTOCOL 10). So a round is
/// over once none of its questions is open or asked any more. It is also over when a key that was
/// answered, whether or not we know that the answer arrived, comes with another question: the server
/// begins its keys anew on every leg, and went through `working` between two polls. Returned are the
/// questions that are to be recorded.
fn news_of(round: &[InputRequest], asked: Vec<(InputKey, Value)>) -> (News, Vec<(InputKey, Value)>) {
    let known = |key: &InputKey| round.iter().find(|input| input.key == *key);
    let begun_anew = |(key, request): &(InputKey, Value)| {
        known(key).is_some_and(|input| was_answered(&input.state) && input.request != *request)
    };
    if asked.iter().any(begun_anew) {
        let stale = |question: &(InputKey, Value)| {
            known(&question.0).is_some_and(|input| was_answered(&input.state)) && !begun_anew(question)
        };
        let questions = asked.iter().filter(|question| !stale(question)).cloned().collect();
        return (News::NewRound, questions);
    }
    let still_asked = asked.iter().any(|(key, _)| known(key).is_some());
    let open = round.iter().any(|input| input.state == InputState::Pending);
    let fresh: Vec<_> = asked.into_iter().filter(|(key, _)| known(key).is_none()).collect();
    let goes_on = fresh.is_empty() || round.is_empty() || still_asked || open;
    (if goes_on { News::SameRound } else { News::NewRound }, fresh)
}

/// An open question may be worded anew; an answered one may not.
fn was_answered(state: &InputState) -> bool {
    match state {
        InputState::Pending => false,
        InputState::Answered(_) | InputState::Sending(_) | InputState::Sent => true,
    }
}
