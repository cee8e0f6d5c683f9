//! What a reply to `tools/call` means.

use david_reconciler::{CallReply, InputKey, NotExecuted, Observation, Outcome, RemoteStatus, Verdict};

use super::{
    Case, after_failures, at_deadline, completed, failed, goes_after, idempotent, not_surfaced,
    not_surfaced_there, secs, seen,
};
use crate::scene::{Scene, error, question, result, state};

fn case(name: &'static str, scene: Scene, reply: CallReply, expected: super::Is) -> Case {
    seen(name, scene, Observation::Call(reply), expected)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = results();
    cases.extend(questions());
    cases.extend(never_executed());
    cases.extend(perhaps_executed());
    cases
}

fn results() -> Vec<Case> {
    let task = |status| CallReply::Task { state: state(), status };
    let calling = Scene::calling;
    let mut cases = vec![
        case("a result", calling(), CallReply::Result(result(Verdict::Success)), completed()),
        case("isError", calling(), CallReply::Result(result(Verdict::Error)), failed(Outcome::ToolError)),
        case(
            "a result counts though the deadline passed meanwhile",
            at_deadline(calling()),
            CallReply::Result(result(Verdict::Success)),
            completed(),
        ),
        case("a task", calling(), task(RemoteStatus::Working), goes_after("track", secs(1))),
        case(
            "a JSON-RPC error",
            calling(),
            CallReply::Rejected(error(-32050)),
            failed(Outcome::CallRejected),
        ),
        case(
            "a JSON-RPC error is final, idempotent or not",
            idempotent(calling()),
            CallReply::Rejected(error(-32050)),
            failed(Outcome::CallRejected),
        ),
        case(
            "unreadable",
            calling(),
            CallReply::Malformed { detail: "Half a JSON.".to_owned() },
            failed(Outcome::ProtocolError),
        ),
        case(
            "over the cap",
            calling(),
            CallReply::TooLarge { detail: "9 MB.".to_owned() },
            failed(Outcome::ResultTooLarge),
        ),
    ];
    // There is news already, to be had by asking.
    for status in
        [RemoteStatus::Completed, RemoteStatus::Failed, RemoteStatus::Cancelled, RemoteStatus::InputRequired]
    {
        cases.push(case("a task born otherwise", calling(), task(status), goes_after("track", secs(0))));
    }
    cases
}

fn questions() -> Vec<Case> {
    let asks = || CallReply::InputRequired {
        requests: vec![(InputKey::new("name"), question())],
        request_state: None,
    };
    let only_state = || CallReply::InputRequired { requests: Vec::new(), request_state: None };
    let in_round = |round| Scene::calling().with(|scene| scene.task.input_round = round);
    vec![
        // Until the question times out (a day), but the deadline is in an hour.
        case("a question", Scene::calling(), asks(), goes_after("await_input", secs(3600))),
        case("the last round", in_round(15), asks(), goes_after("await_input", secs(3600))),
        case("one round too many", in_round(16), asks(), failed(Outcome::InputUnsupported)),
        case("not surfaced", not_surfaced(Scene::calling()), asks(), failed(Outcome::InputUnsupported)),
        case(
            "not surfaced there",
            not_surfaced_there(Scene::calling()),
            asks(),
            failed(Outcome::InputUnsupported),
        ),
        case(
            "no question, so nobody is waited for",
            Scene::calling(),
            only_state(),
            goes_after("await_input", secs(1)),
        ),
    ]
}

/// Provably not executed: made again, for a while.
fn never_executed() -> Vec<Case> {
    let refused = |proof, retry_after: Option<u64>| CallReply::NotExecuted {
        proof,
        detail: "Refused.".to_owned(),
        retry_after: retry_after.map(secs),
    };
    let calling = Scene::calling;
    let mut cases = Vec::new();
    for (proof, bound, outcome) in [
        (NotExecuted::NeverSent, 1000, Outcome::RemoteUnreachable),
        (NotExecuted::RateLimited, 1000, Outcome::RemoteUnreachable),
        (NotExecuted::Unauthorised, 5, Outcome::Unauthorised),
        (NotExecuted::Unsupported, 5, Outcome::ProtocolError),
    ] {
        cases.push(case("the first time", calling(), refused(proof, None), goes_after("requeue", secs(1))));
        cases.push(case(
            "the last time but one",
            after_failures(bound - 2, calling()),
            refused(proof, Some(100)),
            goes_after("requeue", secs(100)),
        ));
        cases.push(case(
            "the last time",
            after_failures(bound - 1, calling()),
            refused(proof, Some(100)),
            failed(outcome),
        ));
    }
    cases.push(case(
        "a forbidden address",
        calling(),
        refused(NotExecuted::EndpointForbidden, None),
        failed(Outcome::EndpointForbidden),
    ));
    cases
}

/// Perhaps executed: nobody can know.
fn perhaps_executed() -> Vec<Case> {
    let lost = || CallReply::Unknown { detail: "Connection reset.".to_owned() };
    let calling = Scene::calling;
    vec![
        case("a lost reply", calling(), lost(), failed(Outcome::OutcomeUnknown)),
        case(
            "a lost reply of an idempotent call",
            idempotent(calling()),
            lost(),
            goes_after("requeue", secs(1)),
        ),
        case(
            "lost replies of an idempotent call, in the end",
            after_failures(999, idempotent(calling())),
            lost(),
            failed(Outcome::RemoteUnreachable),
        ),
    ]
}
