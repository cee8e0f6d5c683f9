//! Questions and answers.

use std::time::Duration;

use david_reconciler::{
    Answer, CancelDebt, InputKey, InputState, InputSubject, Observation, Outcome, PollReply, RequestState,
    Step, Transition,
};
use serde_json::{Value, json};

use super::polls::case as polled;
use super::{Case, Is, failed, failed_owing, goes, goes_after, not_surfaced, not_surfaced_there, row, secs};
use crate::scene::{NOW, Scene, answer, question, state};

fn asks(keys: &[&str]) -> PollReply {
    asks_for(keys.iter().map(|key| (*key, question())).collect())
}

fn asks_for(questions: Vec<(&str, Value)>) -> PollReply {
    let requests = questions.into_iter().map(|(key, request)| (InputKey::new(key), request)).collect();
    PollReply::InputRequired { state: state(), requests }
}

fn pending() -> InputState {
    InputState::Pending
}

fn answered() -> InputState {
    InputState::Answered(answer())
}

fn sending() -> InputState {
    InputState::Sending(answer())
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = planned();
    cases.extend(limits());
    cases.extend(asked());
    cases
}

fn planned() -> Vec<Case> {
    let task = Scene::asking;
    let call = Scene::call_asking;
    vec![
        row("an open question is polled", task(&[("a", pending())]), Is::Observes(Step::Poll)),
        row("an answer is sent", task(&[("a", answered())]), goes("send_answers")),
        row("each as it comes", task(&[("a", answered()), ("b", pending())]), goes("send_answers")),
        row("one that may be lost is asked about", task(&[("a", sending())]), Is::Observes(Step::Poll)),
        row(
            "and holds up the others, lest it be taken for sent",
            task(&[("a", sending()), ("b", answered())]),
            Is::Observes(Step::Poll),
        ),
        row("one that was sent is waited for", task(&[("a", InputState::Sent)]), Is::Observes(Step::Poll)),
        row("a call waits", call(&[("a", pending())]), goes_after("wait", secs(3600))),
        row("for every answer", call(&[("a", answered()), ("b", pending())]), goes_after("wait", secs(3600))),
        row("then it is made again", call(&[("a", answered()), ("b", answered())]), goes("begin_call")),
        row("also when there was no question", call(&[]), goes("begin_call")),
    ]
}

fn limits() -> Vec<Case> {
    let after = |wait: Duration, scene: Scene| {
        scene.with(|scene| {
            scene.now = NOW.saturating_add(wait);
            scene.task.execution_deadline = scene.now.saturating_add(secs(3600));
        })
    };
    let day = secs(24 * 3600);
    let in_round = |round, scene: Scene| scene.with(|scene| scene.task.input_round = round);
    let task = Scene::asking;
    let call = Scene::call_asking;
    vec![
        row("nearly too late", after(day - secs(1), call(&[("a", pending())])), goes_after("wait", secs(1))),
        row("too late", after(day, call(&[("a", pending())])), failed(Outcome::InputTimedOut)),
        row(
            "too late for a task",
            after(day, task(&[("a", pending())])),
            failed_owing(Outcome::InputTimedOut),
        ),
        row("answered in time", after(day, task(&[("a", answered())])), goes("send_answers")),
        row(
            "answered in time, and sent",
            after(day, task(&[("a", InputState::Sent)])),
            Is::Observes(Step::Poll),
        ),
        row("answered in time, of a call", after(day, call(&[("a", answered())])), goes("begin_call")),
        row(
            "not surfaced",
            not_surfaced_there(task(&[("a", answered())])),
            failed_owing(Outcome::InputUnsupported),
        ),
        row(
            "not surfaced, of a call",
            not_surfaced(call(&[("a", pending())])),
            failed(Outcome::InputUnsupported),
        ),
        row("the last round", in_round(16, task(&[("a", pending())])), Is::Observes(Step::Poll)),
        row(
            "a round too many",
            in_round(17, task(&[("a", pending())])),
            failed_owing(Outcome::InputUnsupported),
        ),
    ]
}

fn asked() -> Vec<Case> {
    let working = |round| Scene::working().with(|scene| scene.task.input_round = round);
    let waits = || goes_after("await_input", secs(15));
    let task = Scene::asking;
    vec![
        polled("a question", working(0), asks(&["a"]), waits()),
        polled("the last round", working(15), asks(&["a"]), waits()),
        polled("a round too many", working(16), asks(&["a"]), failed_owing(Outcome::InputUnsupported)),
        polled(
            "not surfaced",
            not_surfaced_there(working(0)),
            asks(&["a"]),
            failed_owing(Outcome::InputUnsupported),
        ),
        polled(
            "not surfaced, though an answer was on its way",
            not_surfaced(task(&[("a", sending())])),
            asks(&["a"]),
            failed_owing(Outcome::InputUnsupported),
        ),
        polled(
            "goes on by itself",
            task(&[("a", pending())]),
            PollReply::Working(state()),
            goes_after("continue", secs(2)),
        ),
        polled(
            "an answer that may be lost, asked for",
            task(&[("a", sending())]),
            asks(&["a"]),
            goes("send_answers"),
        ),
        polled("an answer that may be lost, not asked for", task(&[("a", sending())]), asks(&[]), waits()),
        polled("still asked after it was sent", task(&[("a", InputState::Sent)]), asks(&["a"]), waits()),
    ]
}

/// The round and the keys that are recorded when `scene`'s task asks.
fn recorded(scene: &Scene, reply: PollReply) -> (u32, Vec<String>) {
    match scene.decide(Observation::Poll(reply)) {
        Transition::AwaitInput { round, requests, .. } => {
            (round, requests.into_iter().map(|(key, _)| key.to_string()).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn expect_recorded(scene: &Scene, reply: PollReply, round: u32, keys: &[&str]) {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(recorded(scene, reply), (round, keys), "{scene:#?}");
}

#[test]
fn more_questions_than_anybody_answers_and_endless_keys_end_the_action_and_its_task() {
    let keys: Vec<String> = (0..65).map(|number| format!("key {number}")).collect();
    let asked = |count: usize| asks(&keys.iter().take(count).map(String::as_str).collect::<Vec<_>>());
    let ended = |scene: &Scene, reply: PollReply| match scene.decide(Observation::Poll(reply)) {
        Transition::Finish(finish) => Some((finish.outcome, finish.debt)),
        _ => None,
    };
    let owed = Some((Outcome::ProtocolError, CancelDebt::Owed));
    assert_eq!(ended(&Scene::working(), asked(64)), None);
    assert_eq!(ended(&Scene::working(), asked(65)), owed);
    // What belongs to the round already counts, however slowly it grows.
    let open: Vec<(&str, InputState)> = keys.iter().take(64).map(|key| (key.as_str(), pending())).collect();
    assert_eq!(ended(&Scene::asking(&open), asked(64)), None);
    assert_eq!(ended(&Scene::asking(&open), asked(65)), owed);
    assert_eq!(ended(&Scene::working(), asks(&["k".repeat(256).as_str()])), None);
    assert_eq!(ended(&Scene::working(), asks(&["k".repeat(257).as_str()])), owed);
}

#[test]
fn a_question_is_recorded_once() {
    let open = Scene::asking(&[("a", pending())]);
    expect_recorded(&open, asks(&["a"]), 1, &[]);
    let sent = Scene::asking(&[("a", InputState::Sent)]);
    expect_recorded(&sent, asks(&["a"]), 1, &[]);
}

#[test]
fn a_question_that_is_added_while_others_are_asked_or_open_belongs_to_their_round() {
    let open = Scene::asking(&[("a", pending())]);
    expect_recorded(&open, asks(&["a", "b"]), 1, &["b"]);
    expect_recorded(&open, asks(&["b"]), 1, &["b"]);
    let sent = Scene::asking(&[("a", InputState::Sent)]);
    expect_recorded(&sent, asks(&["a", "b"]), 1, &["b"]);
    expect_recorded(&Scene::asking(&[]), asks(&["a"]), 1, &["a"]);
}

#[test]
fn new_questions_begin_a_round_once_the_old_ones_are_answered_and_asked_no_more() {
    let sent = Scene::asking(&[("a", InputState::Sent)]);
    expect_recorded(&sent, asks(&["b"]), 2, &["b"]);
    let went_on = Scene::working().with(|scene| scene.task.input_round = 1);
    expect_recorded(&went_on, asks(&["a"]), 2, &["a"]);
}

#[test]
fn a_key_begun_anew_with_another_question_is_asked_again_even_if_the_leg_between_was_not_seen() {
    let sent = Scene::asking(&[("a", InputState::Sent), ("b", InputState::Sent)]);
    let another = json!({ "method": "elicitation/create", "params": { "message": "And then?" } });
    expect_recorded(&sent, asks_for(vec![("a", another), ("b", question())]), 2, &["a"]);
}

#[test]
fn an_answer_is_never_sent_to_another_question_under_the_same_key() {
    let another = || json!({ "method": "elicitation/create", "params": { "message": "And then?" } });
    let lost = Scene::asking(&[("a", sending())]);
    expect_recorded(&lost, asks_for(vec![("a", another())]), 2, &["a"]);
    let beside = Scene::asking(&[("a", sending()), ("b", answered())]);
    expect_recorded(&beside, asks_for(vec![("a", another())]), 2, &["a"]);
    let both = asks_for(vec![("a", another()), ("b", question())]);
    let answers = vec![Answer { key: InputKey::new("b"), response: answer() }];
    assert_eq!(beside.decide(Observation::Poll(both)), Transition::SendAnswers { answers });
    // Nobody answered it yet, so the wording may change.
    expect_recorded(&Scene::asking(&[("a", pending())]), asks_for(vec![("a", another())]), 1, &[]);
}

#[test]
fn a_task_that_asks_for_nothing_is_waited_for_and_its_round_is_not_used_up() {
    expect_recorded(&Scene::working(), asks(&[]), 1, &[]);
    expect_recorded(&Scene::asking(&[]), asks(&[]), 1, &[]);
}

#[test]
fn an_answer_that_may_be_lost_is_sent_again_byte_for_byte_and_only_while_it_is_asked_for() {
    let scene = Scene::asking(&[
        ("lost", sending()),
        ("taken", sending()),
        ("new", answered()),
        ("sent", InputState::Sent),
        ("open", pending()),
    ]);
    let transition = scene.decide(Observation::Poll(asks(&["lost", "new", "sent", "open"])));
    let again = |key: &str| Answer { key: InputKey::new(key), response: answer() };
    assert_eq!(transition, Transition::SendAnswers { answers: vec![again("lost"), again("new")] });
}

#[test]
fn only_what_is_answered_is_sent() {
    let scene = Scene::asking(&[("a", answered()), ("b", pending()), ("c", InputState::Sent)]);
    let answers = vec![Answer { key: InputKey::new("a"), response: answer() }];
    assert_eq!(scene.plan(), Step::Commit(Transition::SendAnswers { answers }));
}

#[test]
fn the_state_of_a_call_that_asks_is_kept_as_it_came() {
    for request_state in [None, Some(RequestState::new("é\u{1}=="))] {
        let reply = david_reconciler::CallReply::InputRequired {
            requests: vec![(InputKey::new("a"), question())],
            request_state: request_state.clone(),
        };
        let Transition::AwaitInput { subject, round, requests, .. } =
            Scene::calling().decide(Observation::Call(reply))
        else {
            panic!("it does not wait");
        };
        assert_eq!((round, requests.len()), (1, 1));
        assert_eq!(subject, InputSubject::Call { request_state });
    }
}
