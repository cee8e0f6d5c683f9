//! What is clear from the row alone.

use david_reconciler::{Authority, InputState, Outcome, Phase, Step};

use super::{
    Case, after_failures, at_deadline, failed, failed_owing, goes, goes_after, idempotent, row,
    run_cancelled, secs,
};
use crate::scene::{Scene, answer};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = ordinary();
    cases.extend(run_and_deadline());
    cases.extend(authority());
    cases.extend(lapses());
    cases
}

fn ordinary() -> Vec<Case> {
    let finalised = Scene::of(Phase::Finalised { outcome: Outcome::Succeeded });
    vec![
        row("a queued row begins its call", Scene::queued(), goes("begin_call")),
        row("a working row is polled", Scene::working(), super::Is::Observes(Step::Poll)),
        row("a row that owes a cancel pays", Scene::cancelling(), super::Is::Observes(Step::Cancel)),
        row("a finalised row is left alone", finalised, goes("impossible")),
        row("a lost call is never made again", Scene::calling(), failed(Outcome::OutcomeUnknown)),
        row(
            "a lost idempotent call is made again at once",
            idempotent(Scene::calling()),
            goes_after("requeue", secs(0)),
        ),
        row(
            "a call that killed too many replicas is quarantined, idempotent or not",
            after_failures(5, idempotent(Scene::calling())),
            failed(Outcome::Quarantined),
        ),
    ]
}

fn run_and_deadline() -> Vec<Case> {
    let asking = || Scene::asking(&[("name", InputState::Pending)]);
    let call_asking = || Scene::call_asking(&[("name", InputState::Pending)]);
    let poll_no_more = |scene: Scene| scene.with(|scene| scene.authority = Authority::Disabled);
    vec![
        row("Run cancelled: queued", run_cancelled(Scene::queued()), goes("repair_cancel")),
        row("Run cancelled: calling", run_cancelled(Scene::calling()), goes("repair_cancel")),
        row("Run cancelled: working", run_cancelled(Scene::working()), goes("repair_cancel")),
        row("Run cancelled: asking", run_cancelled(asking()), goes("repair_cancel")),
        row(
            "Run cancelled comes before a refused server",
            poll_no_more(run_cancelled(Scene::working())),
            goes("repair_cancel"),
        ),
        row(
            "the Run's cancel is what cancelling is about",
            run_cancelled(Scene::cancelling()),
            super::Is::Observes(Step::Cancel),
        ),
        row("deadline: queued", at_deadline(Scene::queued()), failed(Outcome::DeadlineExceeded)),
        row("deadline: working", at_deadline(Scene::working()), failed_owing(Outcome::DeadlineExceeded)),
        row("deadline: a task asks", at_deadline(asking()), failed_owing(Outcome::DeadlineExceeded)),
        row("deadline: a call asks", at_deadline(call_asking()), failed(Outcome::DeadlineExceeded)),
        row(
            "deadline: everything is answered",
            at_deadline(Scene::call_asking(&[("name", InputState::Answered(answer()))])),
            failed(Outcome::DeadlineExceeded),
        ),
        row(
            "deadline: a lost call stays unknown",
            at_deadline(Scene::calling()),
            failed(Outcome::OutcomeUnknown),
        ),
        row(
            "deadline: it means nothing after the end",
            at_deadline(Scene::cancelling()),
            super::Is::Observes(Step::Cancel),
        ),
    ]
}

fn authority() -> Vec<Case> {
    let refusals = [
        ("registration deleted", Authority::Missing, Outcome::RegistrationMissing),
        ("registration disabled", Authority::Disabled, Outcome::RegistrationDisabled),
        ("registration of somebody else", Authority::NotOwner, Outcome::RegistrationForbidden),
        (
            "endpoint forbidden",
            Authority::EndpointForbidden { reason: "Loopback addresses are not allowed.".to_owned() },
            Outcome::EndpointForbidden,
        ),
        (
            "no credential",
            Authority::NoCredential { reason: "There is no credential source.".to_owned() },
            Outcome::Unauthorised,
        ),
    ];
    let mut cases = Vec::new();
    for (name, authority, outcome) in refusals {
        let refused = |scene: Scene| scene.with(|scene| scene.authority = authority.clone());
        // No remote traffic at all, so nothing is owed either (DESIGN rule 11).
        cases.push(row(name, refused(Scene::queued()), failed(outcome)));
        cases.push(row(name, refused(Scene::working()), failed(outcome)));
        let answered = Scene::asking(&[("name", InputState::Answered(answer()))]);
        cases.push(row(name, refused(answered), failed(outcome)));
        cases.push(row(name, at_deadline(refused(Scene::working())), failed(outcome)));
        cases.push(row(name, refused(Scene::cancelling()), goes("settle_cancel")));
        cases.push(row(name, refused(Scene::calling()), failed(Outcome::OutcomeUnknown)));
    }
    cases
}

fn lapses() -> Vec<Case> {
    let lapsed = |times, scene: Scene| scene.with(|scene| scene.task.lapses = times);
    vec![
        row("four lapses are borne", lapsed(4, Scene::working()), super::Is::Observes(Step::Poll)),
        row("five are not: queued", lapsed(5, Scene::queued()), failed(Outcome::Quarantined)),
        row("five are not: working", lapsed(5, Scene::working()), failed(Outcome::Quarantined)),
        row(
            "five are not: asking",
            lapsed(5, Scene::asking(&[("name", InputState::Pending)])),
            failed(Outcome::Quarantined),
        ),
        row("five are not: cancelling", lapsed(5, Scene::cancelling()), goes("settle_cancel")),
        row(
            "seven failed cancels are borne",
            after_failures(7, Scene::cancelling()),
            super::Is::Observes(Step::Cancel),
        ),
        row("eight are not", after_failures(8, Scene::cancelling()), goes("settle_cancel")),
    ]
}

#[test]
fn a_call_is_leased_for_its_own_timeout_and_the_grace() {
    use david_reconciler::Transition;
    let scene = Scene::queued().with(|scene| scene.call.request_timeout = secs(300));
    assert_eq!(scene.plan(), Step::Commit(Transition::BeginCall { lease: secs(330) }));
}
