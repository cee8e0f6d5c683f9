//! Names: of transitions, phases, outcomes and events.

use std::collections::BTreeSet;

use david_reconciler::{
    EventName, InputKey, InputState, Observation, Outcome, PhaseName, PollReply, Transition,
};

use super::{at_deadline, every_case};
use crate::scene::{Scene, question, state};

#[test]
fn every_outcome_and_phase_is_read_back_as_it_is_written() {
    for outcome in Outcome::ALL {
        assert_eq!(Outcome::parse(outcome.as_str()), Some(outcome));
    }
    for phase in PhaseName::ALL {
        assert_eq!(PhaseName::parse(phase.as_str()), Some(phase));
    }
    assert_eq!(Outcome::parse("done"), None);
    assert_eq!(PhaseName::parse("done"), None);
}

#[test]
fn every_transition_occurs_in_the_table() {
    let labels: BTreeSet<&str> =
        every_case().into_iter().filter_map(super::check).map(|transition| transition.label()).collect();
    let expected = [
        "answers_sent",
        "await_input",
        "begin_call",
        "continue",
        "finish",
        "finish_owing_cancel",
        "impossible",
        "repair_cancel",
        "requeue",
        "retry",
        "send_answers",
        "settle_cancel",
        "track",
        "wait",
    ];
    assert_eq!(labels, BTreeSet::from(expected));
}

fn asked(scene: &Scene) -> Transition {
    let requests = vec![(InputKey::new("a"), question())];
    scene.decide(Observation::Poll(PollReply::InputRequired { state: state(), requests }))
}

#[test]
fn history_tells_of_a_question_but_not_of_every_look_at_it() {
    assert_eq!(asked(&Scene::working()).events(), [EventName::InputRequired]);
    assert_eq!(asked(&Scene::asking(&[("a", InputState::Pending)])).events(), []);
}

#[test]
fn history_tells_of_a_failure_and_of_the_cancel_it_owes() {
    let david_reconciler::Step::Commit(late) = at_deadline(Scene::working()).plan() else {
        panic!("the deadline passed")
    };
    assert_eq!(late.events(), [EventName::Failed, EventName::CancelRequested]);
}
