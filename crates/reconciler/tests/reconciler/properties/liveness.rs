//! Whatever a server does, an Action ends.

use std::time::Duration;

use david_reconciler::{Ack, CallReply, InputPolicy, Jitter, PollReply, Repeat, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::arbitrary::{some_ack, some_call_reply, some_poll_reply};
use super::config;
use super::simulation::{Person, Simulation, Turn};
use crate::scene::{NOW, Scene, result, state};

fn some_turn() -> BoxedStrategy<Turn> {
    let server = (some_call_reply(), some_poll_reply(), some_ack())
        .prop_map(|(call, poll, ack)| Turn::Server(call, Box::new(poll), ack));
    prop_oneof![20 => server, 2 => Just(Turn::Killed), 1 => Just(Turn::CancelRun)].boxed()
}

/// A turn of a server that will not end anything.
fn stubborn_turn() -> BoxedStrategy<Turn> {
    let ends = |poll: &PollReply| {
        !matches!(poll, PollReply::Working(_) | PollReply::InputRequired { .. } | PollReply::Refused(_))
    };
    let task = || CallReply::Task { state: state(), status: david_reconciler::RemoteStatus::Working };
    (some_poll_reply().prop_filter("it goes on", move |poll| !ends(poll)), some_ack())
        .prop_map(move |(poll, ack)| Turn::Server(task(), Box::new(poll), ack))
        .boxed()
}

prop_compose! {
    fn some_simulation()(
        person in select(vec![Person::Answers, Person::Silent]),
        repeat in select(vec![Repeat::Never, Repeat::Idempotent]),
        surfaced in prop_oneof![4 => Just(InputPolicy::Surface), 1 => Just(InputPolicy::Fail)],
        jitter in -100..=100_i16,
    ) -> Simulation {
        let scene = Scene::queued().with(|scene| {
            scene.call.repeat = repeat;
            scene.policy.input = surfaced;
            scene.jitter = Jitter::thousandths(jitter);
        });
        Simulation { scene, person }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_action_ends_soon_after_its_deadline_whatever_the_server_does(
        mut simulation in some_simulation(),
        turns in vec(prop_oneof![some_turn(), stubborn_turn()], 1..40),
    ) {
        let limit = Duration::from_secs(300);
        simulation.scene.task.execution_deadline = NOW.saturating_add(limit);
        // A poll each 0.9 s at the most, and the attempts at a cancel in the end.
        let mut steps = 0;
        for turn in turns.into_iter().cycle().take(450) {
            if simulation.is_over() {
                break;
            }
            simulation.turn(turn);
            steps += 1;
        }
        prop_assert!(simulation.is_over(), "it goes on after {steps} steps: {simulation:?}");
    }

    #[test]
    fn every_action_ends_soon_after_its_server_has_made_an_end_even_without_a_deadline(
        mut simulation in some_simulation(),
        turns in vec(prop_oneof![some_turn(), stubborn_turn()], 0..40),
    ) {
        simulation.scene.task.execution_deadline = david_reconciler::Timestamp(i64::MAX);
        let done = || result(Verdict::Success);
        let end = Turn::Server(
            CallReply::Result(done()),
            Box::new(PollReply::Completed { state: state(), result: done() }),
            Ack::Acknowledged,
        );
        // The longest way: a silent person, the call made at last, the cancel that is owed then.
        for turn in turns.into_iter().chain(std::iter::repeat_n(end, 6)) {
            if !simulation.is_over() {
                simulation.turn(turn);
            }
        }
        prop_assert!(simulation.is_over(), "{simulation:?}");
    }
}
