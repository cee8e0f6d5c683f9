//! A replica dies at each step of the path, really; another takes over. Every Action ends with
//! exactly one outcome, whatever the step was.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::{RawServer, Replica, eventually};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

/// A whole path with a crash in it.
const PATIENCE: Duration = Duration::from_secs(40);

struct Case {
    /// The `n` of `point:n`: which passing of the point is the fatal one.
    passings: &'static [u32],
    point: &'static str,
}

async fn dies_at(point: &'static str, passing: u32) {
    let world = World::new().await.unwrap();
    // Every kind of path at once: a task, an ordinary result, errors of both kinds, a question, an
    // adopted task, and a Run that is cancelled while its task goes on.
    let mut expected: Vec<(Action, &str)> = Vec::new();
    for (tool, outcome) in [
        ("work", "succeeded"),
        ("sync", "succeeded"),
        ("tool_error", "tool_error"),
        ("fail", "remote_failed"),
        ("ask", "succeeded"),
    ] {
        let submission = Submission::of(tool, json!({ "seconds": 0.3, "question": "Which?" }));
        expected.push((world.submit(submission).await.unwrap(), outcome));
    }
    let asked = expected.last().unwrap().0.clone();
    let stubborn = world.submit(Submission::of("stubborn", json!({ "seconds": 600 }))).await.unwrap();
    expected.push((stubborn.clone(), "run_cancelled"));
    let server = world.raw_server().await.unwrap();
    server.push("tasks/get", raw::working());
    server.on("tasks/get", raw::completed(&raw::result("adopted")));
    let remote_task_id = Some(RawServer::TASK_ID.to_owned());
    let adopted = world.submit(Submission { remote_task_id, ..Submission::raw() }).await.unwrap();
    expected.push((adopted, "succeeded"));

    let first =
        world.replica(REPLICA).env("DAVID_TASKS_CRASH_AT", format!("{point}:{passing}")).start().unwrap();
    let mut second: Option<Replica> = None;
    let mut in_call: Vec<String> = Vec::new();
    eventually(PATIENCE, "every Action has ended", async || {
        // Somebody answers the question and cancels the Run as soon as that can be done.
        world.answer(&asked, &json!({ "action": "accept", "content": { "answer": "this" } })).await.unwrap();
        if world.standing(&stubborn).await.unwrap().phase == "working" {
            world.cancel(&stubborn).await.unwrap();
        }
        if second.is_none() && first.exited().unwrap().is_some() {
            // What it had begun to call, nobody can know about. Its leases lapse, and another
            // takes over.
            in_call = world.in_phase("calling").await.unwrap();
            world.let_leases_lapse_of(&first).await.unwrap();
            second = Some(world.replica(REPLICA).start().unwrap());
        }
        let mut open = Vec::new();
        for (action, _) in &expected {
            let standing = world.standing(action).await.unwrap();
            if standing.phase != "finalised" {
                open.push((action.id.clone(), standing));
            }
        }
        match &second {
            Some(_) if open.is_empty() => Ok(()),
            Some(replica) => Err(format!("{open:?}\n{}", replica.logs())),
            None => Err(format!("the first replica is alive; {open:?}\n{}", first.logs())),
        }
    })
    .await
    .unwrap_or_else(|error| panic!("{point}:{passing}: {error:#}"));
    let status = first
        .exited()
        .unwrap()
        .unwrap_or_else(|| panic!("{point}:{passing} was never reached:\n{}", first.logs()));
    assert_eq!(
        status.signal(),
        Some(6),
        "died of something else at {point}:{passing}: {status}\n{}",
        first.logs()
    );

    for (action, outcome) in &expected {
        let standing = world.standing(action).await.unwrap();
        let ended = standing.outcome.as_deref().unwrap();
        let lost = in_call.contains(&action.id);
        // A lost call is never made again, and only a lost call ends as unknown.
        let expected = if lost { "outcome_unknown" } else { outcome };
        assert_eq!(ended, expected, "{point}:{passing}: {action:?}, in call: {lost}, is {standing:?}");
        let outputs = i64::from(expected != "run_cancelled");
        assert_eq!(standing.outputs, outputs, "{point}:{passing}: {action:?} is {standing:?}");
        let calls = world.ledger().calls_with_key(&action.id);
        assert!(calls <= 1, "{point}:{passing}: {action:?} was called {calls} times");
        // What happened once is told once.
        let told: BTreeSet<&String> = standing.events.iter().collect();
        assert_eq!(told.len(), standing.events.len(), "{point}:{passing}: {action:?} is {standing:?}");
    }
    assert_eq!(server.requests_of("tools/call").len(), 0, "{point}:{passing}: the adopted task was called");
}

async fn check(case: Case) {
    assert!(david_tasks::crash::POINTS.contains(&case.point), "{} is no crash point", case.point);
    for passing in case.passings {
        dies_at(case.point, *passing).await;
    }
}

macro_rules! dies_at {
    ($($name:ident: $point:literal at $passings:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                check(Case { point: $point, passings: &$passings }).await;
            }
        )*

        #[test]
        fn every_crash_point_is_died_at() {
            let tested = [$($point),*];
            let untested: Vec<_> = david_tasks::crash::POINTS.iter().filter(|point| !tested.contains(point)).collect();
            assert!(untested.is_empty(), "no test dies at {untested:?}");
        }
    };
}

dies_at! {
    a_replica_that_dies_with_a_fresh_lease_loses_nothing: "leased" at [1, 4];
    a_replica_that_dies_before_a_call_is_begun_loses_nothing: "before_begin_call" at [1, 3];
    a_replica_that_dies_with_a_call_begun_leaves_one_outcome: "call_begun" at [1, 3];
    a_replica_that_dies_with_a_reply_in_hand_leaves_one_outcome: "call_answered" at [1, 3];
    a_replica_that_dies_after_keeping_a_reply_loses_nothing: "call_committed" at [1, 3];
    a_replica_that_dies_with_a_poll_in_hand_loses_nothing: "poll_answered" at [1, 3];
    a_replica_that_dies_after_a_poll_is_committed_loses_nothing: "poll_committed" at [1, 4];
    a_replica_that_dies_before_an_answer_is_sent_loses_nothing: "answers_marked" at [1];
    a_replica_that_dies_after_an_answer_is_sent_loses_nothing: "answers_sent" at [1];
    a_replica_that_dies_after_a_remote_cancel_leaves_the_run_cancelled: "cancel_sent" at [1];
    a_replica_that_dies_before_a_commit_leaves_one_outcome: "before_commit" at [1, 2, 5];
    a_replica_that_dies_after_a_commit_leaves_one_outcome: "after_commit" at [1, 2, 5];
}
