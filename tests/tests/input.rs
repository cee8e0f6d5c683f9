//! Servers ask; the question is kept, the answer goes out once, byte for byte.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Standing, Submission, World, raw};
use david_testkit::{RawServer, Replica, Reply, eventually};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

/// Shorter than the 15 s after which a row that waits for input would be looked at anyway.
const WOKEN: Duration = Duration::from_secs(10);

fn accept(answer: &str) -> Value {
    json!({ "action": "accept", "content": { "answer": answer } })
}

async fn until_ended_soon(world: &World, action: &Action) -> Standing {
    let ended = tokio::time::timeout(WOKEN, world.until_ended(action)).await;
    ended.unwrap_or_else(|_| panic!("the answer woke nobody")).unwrap()
}

/// Keys, requests and states of all questions, in order.
async fn questions(world: &World) -> Vec<(String, Value, String)> {
    let rows: Vec<(String, String, String)> =
        sqlx::query_as("select key, request::text, state from david.mcp_input_requests order by id")
            .fetch_all(&world.db.pool)
            .await
            .unwrap();
    rows.into_iter()
        .map(|(key, request, state)| (key, serde_json::from_str(&request).unwrap(), state))
        .collect()
}

#[tokio::test]
async fn a_question_is_kept_as_sent_and_its_answer_goes_out_once() {
    let world = World::new().await.unwrap();
    let submission = Submission::of("ask", json!({ "question": "Wie viele?", "questions": 2 }));
    let action = world.submit(submission).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    let asked = |number: u32| (format!("question-{number}"), raw::form("Wie viele?"), "pending".to_owned());
    assert_eq!(questions(&world).await, [asked(1), asked(2)]);

    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();
    assert_eq!(world.answer(&action, &accept("zwölf")).await.unwrap(), 2);
    let standing = until_ended_soon(&world, &action).await;
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    let answers = json!({ "question-1": accept("zwölf"), "question-2": accept("zwölf") });
    assert_eq!(standing.envelope.unwrap()["structured_content"]["answers"], answers);
    let events = ["MCP_TASK_CREATED", "MCP_TASK_INPUT_REQUIRED", "MCP_TASK_WORKING", "MCP_TASK_COMPLETED"];
    assert_eq!(standing.events, events);
    assert!(questions(&world).await.iter().all(|(_, _, state)| state == "sent"));
    // Both were answered before either could leave, or the first left alone.
    let updates = world.ledger().updates(&remote);
    assert!((1..=2).contains(&updates), "{updates} updates");
    assert_eq!(world.ledger().calls_with_key(&action.id), 1);
}

#[tokio::test]
async fn questions_that_nobody_may_answer_end_the_action_and_cancel_the_task() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::of("ask", json!({}))).await.unwrap();
    let first = world.submit(Submission::of("ask_first", json!({}))).await.unwrap();
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_INPUT", "fail").start().unwrap();
    for action in [&action, &first] {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("input_unsupported"), "{standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1));
    }
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();
    assert_eq!(world.ledger().cancels(&remote), 1);
}

#[tokio::test]
async fn a_question_that_is_not_answered_in_time_ends_the_action_and_cancels_the_task() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::of("ask", json!({}))).await.unwrap();
    let first = world.submit(Submission::of("ask_first", json!({}))).await.unwrap();
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_INPUT_TIMEOUT", "1h").start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    world.until_phase(&first, "input_required").await.unwrap();
    // Two hours later.
    let asked = "update david.mcp_input_requests set created_at = created_at - interval '2 hours'";
    assert_eq!(world.execute(asked).await.unwrap(), 2);
    world.let_leases_lapse().await.unwrap();

    for action in [&action, &first] {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("input_timed_out"), "{standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1));
    }
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();
    assert_eq!(world.ledger().cancels(&remote), 1);
}

#[tokio::test]
async fn a_tool_that_asks_first_is_called_again_with_the_answer() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::of("ask_first", json!({ "question": "Warum?" }))).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    assert_eq!(world.answer(&action, &accept("darum")).await.unwrap(), 1);
    let standing = until_ended_soon(&world, &action).await;
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(standing.envelope.unwrap()["content"][0]["text"], "darum");
    // One call per leg: the question, and the answer.
    assert_eq!(world.ledger().calls_with_key(&action.id), 2);
}

#[tokio::test]
async fn the_state_of_a_call_that_asks_is_echoed_byte_for_byte() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let state = "\u{0}opaque \u{1f9ea}\r\n\"\\ e\u{301} {\"a\":1.0}";
    server.push(
        "tools/call",
        Reply::Result(json!({
            "resultType": "input_required",
            "inputRequests": { "q 1": raw::form("Why?") },
            "requestState": state,
        })),
    );
    server.on("tools/call", Reply::Result(raw::result("asked and answered")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    world.answer(&action, &accept("because")).await.unwrap();
    let standing = until_ended_soon(&world, &action).await;
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");

    let calls = server.requests_of("tools/call");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].params.get("requestState"), None);
    assert_eq!(calls[1].params["requestState"], state);
    assert_eq!(calls[1].params["inputResponses"], json!({ "q 1": accept("because") }));
    assert_eq!(calls[1].params["arguments"], calls[0].params["arguments"]);
}

/// A raw server whose task asks, answered; the replica dies at `point` with the answer in hand.
async fn dies_with_the_answer(point: &str) -> (World, RawServer, Action) {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::asks("q", "Why?"));
    let action = world.submit(Submission::raw()).await.unwrap();
    let first: Replica = world.replica(REPLICA).env("DAVID_TASKS_CRASH_AT", point).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    world.answer(&action, &accept("because")).await.unwrap();
    world.until_dead(&first).await.unwrap();
    assert_eq!(questions(&world).await[0].2, "sending");
    world.let_leases_lapse_of(&first).await.unwrap();
    (world, server, action)
}

/// Completes the task as soon as it was told the answer.
fn completes_when_answered(server: &RawServer) {
    server.on("tasks/update", Reply::Result(json!({ "resultType": "complete" })));
    server.on("tasks/get", raw::completed(&raw::result("answered")));
}

#[tokio::test]
async fn an_answer_that_may_be_lost_is_sent_again_word_for_word_while_it_is_asked_for() {
    for (point, sent_before) in [("answers_marked", 0), ("answers_sent", 1)] {
        let (world, server, action) = dies_with_the_answer(point).await;
        assert_eq!(server.requests_of("tasks/update").len(), sent_before, "{point}");
        let _second = world.replica(REPLICA).start().unwrap();
        let updates = server.wait_for("tasks/update", sent_before + 1, WOKEN).await.unwrap();
        completes_when_answered(&server);
        for update in &updates {
            assert_eq!(update.params["inputResponses"], json!({ "q": accept("because") }), "{point}");
        }
        let standing = world.until_ended(&action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{point}: {standing:?}");
        assert_eq!(server.requests_of("tasks/update").len(), sent_before + 1, "{point}");
        assert_eq!(server.requests_of("tools/call").len(), 1, "{point}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_asked_for_any_more_is_not_sent_again() {
    let (world, server, action) = dies_with_the_answer("answers_sent").await;
    server.push("tasks/get", raw::working());
    completes_when_answered(&server);
    let _second = world.replica(REPLICA).start().unwrap();
    let standing = until_ended_soon(&world, &action).await;
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/update").len(), 1);
}

#[tokio::test]
async fn an_answer_given_during_a_poll_is_not_overwritten_by_it() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::asks("q", "Why?"));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    let slow = Reply::Delay(Duration::from_millis(700), Box::new(raw::asks("q", "Why?")));
    server.push("tasks/get", slow);
    let polls = server.requests_of("tasks/get").len();
    world.let_leases_lapse().await.unwrap();
    server.wait_for("tasks/get", polls + 1, WOKEN).await.unwrap();

    world.answer(&action, &accept("because")).await.unwrap();
    server.wait_for("tasks/update", 1, WOKEN).await.unwrap();
    completes_when_answered(&server);
    let standing = until_ended_soon(&world, &action).await;
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/update").len(), 1);
}

#[tokio::test]
async fn answers_that_the_server_keeps_refusing_end_the_action() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::asks("q", "Why?"));
    server.on("tasks/update", Reply::error(-32602, "not to my taste"));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    world.answer(&action, &accept("because")).await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("input_unsupported"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/cancel").len(), 1);
}

#[tokio::test]
async fn a_run_cancelled_while_it_is_asked_is_cancelled_remotely() {
    let world = World::new().await.unwrap();
    let task = world.submit(Submission::of("ask", json!({}))).await.unwrap();
    let call = world.submit(Submission::of("ask_first", json!({}))).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    for action in [&task, &call] {
        world.until_phase(action, "input_required").await.unwrap();
        world.cancel(action).await.unwrap();
        let standing = until_ended_soon(&world, action).await;
        assert_eq!(standing.outcome.as_deref(), Some("run_cancelled"), "{standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("cancelled", 0));
    }
    let remote: String = world.of(&task, "t.remote_task_id").await.unwrap();
    assert_eq!(world.ledger().cancels(&remote), 1);
    assert_eq!(world.ledger().calls_with_key(&call.id), 1);
}

#[tokio::test]
async fn a_question_whose_key_cannot_be_stored_does_not_come_back_for_ever() {
    // The second is too long for an index, and of a kind that does not compress.
    let noise: String =
        (0..6_000_u32).map(|n| char::from(33 + (n.wrapping_mul(n ^ 0x9e37) >> 3) as u8 % 90)).collect();
    for key in ["with\u{0}nul", &noise] {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        server.on("tasks/get", raw::asks(key, "Why?"));
        let action = world.submit(Submission::raw()).await.unwrap();
        let replica = world.replica(REPLICA).start().unwrap();
        let settled = eventually(WOKEN, "the question is kept or the Action has ended", async || {
            let standing = world.standing(&action).await.unwrap();
            let settled = standing.phase == "finalised" || standing.phase == "input_required";
            if settled { Ok(standing) } else { Err(format!("{standing:?}\n{}", replica.logs())) }
        })
        .await
        .unwrap();
        if settled.phase == "finalised" {
            assert_eq!(settled.outputs, 1, "{settled:?}");
        }
    }
}
