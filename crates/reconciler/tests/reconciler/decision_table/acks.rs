//! What the empty replies to `tasks/update` and `tasks/cancel` mean.

use david_reconciler::{Ack, InputState, Observation, Outcome, Refusal, Transition, Trouble};

use super::{
    Case, after_failures, at_deadline, expiring_in, failed, failed_owing, goes, goes_after, secs, seen,
};
use crate::scene::{Scene, answer};

fn trouble() -> Ack {
    Ack::Refused(Refusal::Transient(Trouble { detail: "503.".to_owned(), retry_after: None }))
}

fn gone() -> Ack {
    Ack::Refused(Refusal::Gone { message: "unknown task".to_owned() })
}

fn malformed() -> Ack {
    Ack::Refused(Refusal::Malformed { detail: "HTML.".to_owned() })
}

fn unauthorised() -> Ack {
    Ack::Refused(Refusal::Unauthorised { detail: "401.".to_owned() })
}

fn forbidden() -> Ack {
    Ack::Refused(Refusal::EndpointForbidden { detail: "It leads to 10.0.0.1.".to_owned() })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = updates();
    cases.extend(cancels());
    cases
}

fn updates() -> Vec<Case> {
    let sending =
        |attempt| after_failures(attempt, Scene::asking(&[("name", InputState::Sending(answer()))]));
    let case = |name, scene, ack, expected| seen(name, scene, Observation::Update(ack), expected);
    vec![
        case("taken", sending(0), Ack::Acknowledged, goes_after("answers_sent", secs(1))),
        case("trouble", sending(0), trouble(), goes_after("retry", secs(1))),
        case("trouble in the end", sending(999), trouble(), failed(Outcome::RemoteUnreachable)),
        case(
            "trouble past the TTL",
            expiring_in(secs(0), sending(2)),
            trouble(),
            failed(Outcome::RemoteUnreachable),
        ),
        case("unreadable", sending(0), malformed(), goes_after("retry", secs(1))),
        case("unreadable in the end", sending(4), malformed(), failed_owing(Outcome::ProtocolError)),
        case("unauthorised", sending(0), unauthorised(), goes_after("retry", secs(1))),
        case("unauthorised in the end", sending(4), unauthorised(), failed(Outcome::Unauthorised)),
        case("a forbidden address", sending(0), forbidden(), failed(Outcome::EndpointForbidden)),
        // Of an update, -32602 is also said of answers; the next poll tells.
        case("refused", sending(0), gone(), goes_after("retry", secs(1))),
        case("unanswerable", sending(4), gone(), failed_owing(Outcome::InputUnsupported)),
    ]
}

fn cancels() -> Vec<Case> {
    let owing = |attempt| after_failures(attempt, Scene::cancelling());
    let case = |name, scene, ack, expected| seen(name, scene, Observation::Cancel(ack), expected);
    let mut cases = vec![
        case("acknowledged", owing(0), Ack::Acknowledged, goes("settle_cancel")),
        case("a forbidden address", owing(0), forbidden(), goes("settle_cancel")),
        case("no longer known", owing(0), gone(), goes("settle_cancel")),
    ];
    for refusal in [trouble, malformed, unauthorised] {
        cases.push(case("refused", owing(0), refusal(), goes_after("retry", secs(1))));
        cases.push(case("refused for the seventh time", owing(6), refusal(), goes_after("retry", secs(60))));
        cases.push(case("refused for the last time", owing(7), refusal(), goes("settle_cancel")));
        cases.push(case(
            "the deadline means nothing any more",
            at_deadline(owing(2)),
            refusal(),
            goes_after("retry", secs(4)),
        ));
    }
    cases
}

#[test]
fn acknowledged_answers_leave_the_phase_to_the_next_poll() {
    let scene = Scene::asking(&[("name", InputState::Sending(answer()))]);
    assert_eq!(scene.decide(Observation::Update(Ack::Acknowledged)).next_phase(), None);
}

#[test]
fn only_answers_that_were_on_their_way_are_marked_as_sent() {
    let scene = Scene::asking(&[
        ("sending", InputState::Sending(answer())),
        ("answered", InputState::Answered(answer())),
        ("pending", InputState::Pending),
        ("sent", InputState::Sent),
    ]);
    let Transition::AnswersSent { keys, .. } = scene.decide(Observation::Update(Ack::Acknowledged)) else {
        panic!("not acknowledged");
    };
    assert_eq!(keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(), ["sending"]);
}
