//! One case for each row of the decision tables (DESIGN §6) and for each rule behind them.

mod acks;
mod calls;
mod delays;
mod inputs;
mod plans;
mod polls;
mod redaction;
mod words;

use std::collections::BTreeSet;
use std::time::Duration;

use david_reconciler::{
    ActionStatus, CancelDebt, InputPolicy, Observation, Outcome, Phase, Repeat, RunState, Step, Transition,
};

use crate::scene::{NOW, Scene, delay_of};

/// One row of the table.
struct Case {
    name: &'static str,
    scene: Scene,
    given: Given,
    expected: Is,
}

/// What is known when it is decided.
enum Given {
    /// The row alone: `plan`.
    Row,
    /// What was seen: `decide`.
    Seen(Observation),
}

/// What is expected.
#[derive(Debug, PartialEq)]
enum Is {
    /// The Action ends.
    Ends(Outcome, ActionStatus, CancelDebt),
    /// The row goes on, and is due again after the delay, if the transition names one.
    Goes(&'static str, Option<Duration>),
    /// Something is to be observed first.
    Observes(Step),
}

fn row(name: &'static str, scene: Scene, expected: Is) -> Case {
    Case { name, scene, given: Given::Row, expected }
}

fn seen(name: &'static str, scene: Scene, observation: Observation, expected: Is) -> Case {
    Case { name, scene, given: Given::Seen(observation), expected }
}

fn completed() -> Is {
    Is::Ends(Outcome::Succeeded, ActionStatus::Completed, CancelDebt::None)
}

fn cancelled(outcome: Outcome) -> Is {
    Is::Ends(outcome, ActionStatus::Cancelled, CancelDebt::None)
}

fn failed(outcome: Outcome) -> Is {
    Is::Ends(outcome, ActionStatus::Failed, CancelDebt::None)
}

fn failed_owing(outcome: Outcome) -> Is {
    Is::Ends(outcome, ActionStatus::Failed, CancelDebt::Owed)
}

fn goes(label: &'static str) -> Is {
    Is::Goes(label, None)
}

fn goes_after(label: &'static str, delay: Duration) -> Is {
    Is::Goes(label, Some(delay))
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs one case; gives the transition it led to, if it led to one.
fn check(case: Case) -> Option<Transition> {
    let Case { name, scene, given, expected } = case;
    let step = match given {
        Given::Row => scene.plan(),
        Given::Seen(observation) => Step::Commit(scene.decide(observation)),
    };
    let actual = match &step {
        Step::Commit(Transition::Finish(finish)) => {
            assert_eq!(
                finish.reason.is_none(),
                finish.outcome == Outcome::Succeeded,
                "{name}: an end that is no success says why"
            );
            Is::Ends(finish.outcome, finish.outcome.action_status(), finish.debt)
        }
        Step::Commit(other) => Is::Goes(other.label(), delay_of(other)),
        Step::Poll | Step::Cancel => Is::Observes(step.clone()),
    };
    assert_eq!(actual, expected, "{name}\n{step:#?}\n{scene:#?}");
    match step {
        Step::Commit(transition) => Some(transition),
        Step::Poll | Step::Cancel => None,
    }
}

fn every_case() -> Vec<Case> {
    [plans::cases(), calls::cases(), polls::cases(), inputs::cases(), acks::cases(), delays::cases()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_row_of_the_table_is_decided_as_designed() {
    for case in every_case() {
        check(case);
    }
}

#[test]
fn every_outcome_is_reached_by_some_row() {
    let mut reached: BTreeSet<Outcome> = BTreeSet::new();
    for case in every_case() {
        match check(case) {
            Some(Transition::Finish(finish)) => reached.insert(finish.outcome),
            // Written by the database's own function, which the repair calls (DESIGN rule 6).
            Some(Transition::RepairCancel) => reached.insert(Outcome::RunCancelled),
            Some(_) | None => false,
        };
    }
    let missing: Vec<_> = Outcome::ALL.iter().filter(|outcome| !reached.contains(outcome)).collect();
    assert!(missing.is_empty(), "no case ends as {missing:?}");
}

#[test]
fn whatever_is_seen_or_known_of_an_unfinished_row_a_cancelled_run_is_repaired_and_gets_no_result() {
    for case in every_case() {
        if matches!(case.scene.task.phase, Phase::Cancelling { .. } | Phase::Finalised { .. })
            || matches!(case.expected, Is::Goes("impossible", _))
        {
            continue;
        }
        check(Case { scene: run_cancelled(case.scene), expected: goes("repair_cancel"), ..case });
    }
}

fn at_deadline(scene: Scene) -> Scene {
    scene.with(|scene| scene.now = scene.task.execution_deadline)
}

fn run_cancelled(scene: Scene) -> Scene {
    scene.with(|scene| scene.run.state = RunState::Cancelled)
}

fn after_failures(attempt: u32, scene: Scene) -> Scene {
    scene.with(|scene| scene.task.attempt = attempt)
}

fn idempotent(scene: Scene) -> Scene {
    scene.with(|scene| scene.call.repeat = Repeat::Idempotent)
}

fn not_surfaced(scene: Scene) -> Scene {
    scene.with(|scene| scene.policy.input = InputPolicy::Fail)
}

/// The same, by the registration's word instead of the worker's.
fn not_surfaced_there(scene: Scene) -> Scene {
    scene.with(|scene| scene.call.input = InputPolicy::Fail)
}

/// The remote TTL passes this long after [`NOW`].
fn expiring_in(ttl: Duration, scene: Scene) -> Scene {
    scene.with(|scene| {
        if let Some(remote) = scene.remote_mut() {
            remote.expires_at = Some(NOW.saturating_add(ttl));
            remote.ttl = Some(secs(3600));
        }
    })
}
