//! How long is waited.

use std::time::Duration;

use david_reconciler::{
    Ack, CallReply, InputState, Jitter, NotExecuted, Observation, PollReply, Refusal, RemoteStatus, Trouble,
};

use super::polls::case as polled;
use super::{Case, after_failures, expiring_in, goes_after, secs, seen};
use crate::scene::{NOW, Scene, delay_of, state};

fn working(polls: u32) -> Scene {
    Scene::working().with(|scene| scene.task.polls = polls)
}

/// Still working, wants to be asked every so many milliseconds.
fn every(interval: u64) -> PollReply {
    let mut state = state();
    state.poll_interval = Some(Duration::from_millis(interval));
    PollReply::Working(state)
}

fn ends_in(left: Duration, scene: Scene) -> Scene {
    scene.with(|scene| scene.task.execution_deadline = scene.now.saturating_add(left))
}

fn jittered(thousandths: i16, scene: Scene) -> Scene {
    scene.with(|scene| scene.jitter = Jitter::thousandths(thousandths))
}

fn trouble(retry_after: Option<u64>) -> Refusal {
    Refusal::Transient(Trouble { detail: "503.".to_owned(), retry_after: retry_after.map(secs) })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = ladder();
    cases.extend(servers_interval());
    cases.extend(time_to_live());
    cases.extend(retries());
    cases.extend(deadline());
    cases
}

fn ladder() -> Vec<Case> {
    let goes_on = |polls, wait| {
        polled("the ladder", working(polls), PollReply::Working(state()), goes_after("continue", secs(wait)))
    };
    let born = CallReply::Task { state: state(), status: RemoteStatus::Working };
    vec![
        seen("the first step", Scene::calling(), Observation::Call(born), goes_after("track", secs(1))),
        goes_on(0, 2),
        goes_on(1, 3),
        goes_on(2, 5),
        goes_on(3, 5),
        goes_on(u32::MAX, 5),
    ]
}

fn servers_interval() -> Vec<Case> {
    let millis = |wait| goes_after("continue", Duration::from_millis(wait));
    let asking = Scene::asking(&[("a", InputState::Pending)]);
    let mut asks_every_minute = state();
    asks_every_minute.poll_interval = Some(secs(60));
    let asks = PollReply::InputRequired { state: asks_every_minute, requests: Vec::new() };
    vec![
        polled("zero", working(0), every(0), millis(2_000)),
        polled("faster than the ladder is not asked for", working(0), every(100), millis(2_000)),
        polled("a floor", working(0), every(7_000), millis(7_000)),
        polled(
            "a floor that jitter does not undercut",
            jittered(-100, working(0)),
            every(7_000),
            millis(7_000),
        ),
        polled("but may lengthen", jittered(100, working(0)), every(7_000), millis(7_700)),
        polled("jitter of our own", jittered(-100, working(0)), every(0), millis(1_800)),
        polled("a ceiling", working(0), every(u64::MAX), millis(300_000)),
        polled("also of a task that asks", asking, asks, goes_after("await_input", secs(60))),
    ]
}

fn time_to_live() -> Vec<Case> {
    // The server repeats the TTL that is known, so the expiry stays.
    let still = || {
        let mut state = state();
        state.ttl = Some(secs(3600));
        PollReply::Working(state)
    };
    let ttl = |wait: u64| expiring_in(Duration::from_millis(wait), working(9));
    let millis = |wait| goes_after("continue", Duration::from_millis(wait));
    let retry = |left, attempt, retry_after| {
        let scene = after_failures(attempt, expiring_in(secs(left), Scene::working()));
        (scene, PollReply::Refused(trouble(retry_after)))
    };
    let (soon, failed) = retry(10, 5, None);
    let (asked, refused) = retry(10, 5, Some(20));
    vec![
        polled("far off", ttl(60_000), still(), millis(5_000)),
        polled("a last look shortly before", ttl(4_000), still(), millis(2_000)),
        polled("nor is it hurried: a TTL may move with every reply", ttl(2_001), still(), millis(1_000)),
        polled("was that look, so on with the ladder", ttl(2_000), still(), millis(5_000)),
        polled("over", ttl(0), still(), millis(5_000)),
        polled("not missed for a retry", soon, failed, goes_after("retry", secs(8))),
        polled("but for a server that says when", asked, refused, goes_after("retry", secs(20))),
    ]
}

fn retries() -> Vec<Case> {
    let day = |scene| ends_in(secs(24 * 3600), scene);
    let retry = |name, attempt, retry_after, wait| {
        let scene = day(after_failures(attempt, Scene::working()));
        polled(name, scene, PollReply::Refused(trouble(retry_after)), goes_after("retry", secs(wait)))
    };
    let late = CallReply::NotExecuted {
        proof: NotExecuted::RateLimited,
        detail: "429.".to_owned(),
        retry_after: Some(Duration::from_millis(u64::MAX)),
    };
    vec![
        retry("the first", 0, None, 1),
        retry("the second", 1, None, 2),
        retry("the third", 2, None, 4),
        retry("the sixth", 5, None, 32),
        retry("the seventh is capped", 6, None, 60),
        retry("as is the nine hundredth", 899, None, 60),
        retry("Retry-After is a floor", 0, Some(120), 120),
        retry("not a ceiling", 6, Some(3), 60),
        retry("and has one", 0, Some(u64::MAX / 1_000_000), 3600),
        seen(
            "of a call, too",
            day(Scene::calling()),
            Observation::Call(late),
            goes_after("requeue", secs(3600)),
        ),
        polled(
            "jitter does not undercut Retry-After",
            jittered(-100, Scene::working()),
            PollReply::Refused(trouble(Some(30))),
            goes_after("retry", secs(30)),
        ),
    ]
}

fn deadline() -> Vec<Case> {
    let soon = Duration::from_millis(300);
    let shortest = Duration::from_millis(50);
    let refused = || PollReply::Refused(trouble(Some(120)));
    let asks = CallReply::Task { state: state(), status: RemoteStatus::Working };
    let owed = |left| ends_in(left, after_failures(3, Scene::cancelling()));
    let cancel = || Observation::Cancel(Ack::Refused(trouble(None)));
    vec![
        polled("a poll", ends_in(soon, working(9)), every(60_000), goes_after("continue", soon)),
        polled("a retry", ends_in(soon, working(9)), refused(), goes_after("retry", soon)),
        polled("passed meanwhile", ends_in(secs(0), working(9)), refused(), goes_after("retry", shortest)),
        seen(
            "a new task",
            ends_in(soon, Scene::calling()),
            Observation::Call(asks),
            goes_after("track", soon),
        ),
        seen("not of a cancel", owed(soon), cancel(), goes_after("retry", secs(8))),
        seen("also when it passed", owed(secs(0)), cancel(), goes_after("retry", secs(8))),
    ]
}

#[test]
fn a_ttl_is_counted_from_when_it_was_first_heard_of() {
    let mut working = state();
    working.ttl = Some(secs(90));
    let transition = Scene::working().decide(Observation::Poll(PollReply::Working(working)));
    let david_reconciler::Transition::Continue { remote, .. } = transition else { panic!("it ended") };
    assert_eq!(remote.expires_at, Some(NOW.saturating_add(secs(90))));
    assert_eq!(remote.status, Some(RemoteStatus::Working));
}

#[test]
fn no_delay_is_so_long_that_it_overflows() {
    let scene = jittered(100, Scene::working()).with(|scene| {
        scene.policy.poll_base = Duration::MAX;
        scene.policy.poll_cap = Duration::MAX;
        scene.policy.poll_interval_ceiling = Duration::MAX;
    });
    assert_eq!(delay_of(&scene.decide(Observation::Poll(every(u64::MAX)))), Some(secs(3600)));
}
