//! What a server says, wrongly or not at all, about a task that works.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::{RawServer, Reply, eventually};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of a task whose every poll is answered like this.
struct Ended {
    name: &'static str,
    outcome: String,
    error: Value,
    calls: usize,
    polls: usize,
    cancels: usize,
}

async fn ends_of(replies: Vec<(&'static str, Reply)>) -> Vec<Ended> {
    let world = World::new().await.unwrap();
    let mut submitted = Vec::new();
    for (name, reply) in replies {
        let server = RawServer::start().await.unwrap();
        server.on("tasks/get", reply);
        world.register(name, &server.url()).await.unwrap();
        let action = world.submit(Submission { registration: name, ..Submission::raw() }).await.unwrap();
        submitted.push((name, server, action));
    }
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_MAX_RESPONSE_BYTES", "65536").start().unwrap();
    let mut ends = Vec::new();
    for (name, server, action) in &submitted {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1), "{name}: {standing:?}");
        ends.push(Ended {
            name,
            outcome: standing.outcome.unwrap(),
            error: standing.envelope.unwrap()["error"].take(),
            calls: server.requests_of("tools/call").len(),
            polls: server.requests_of("tasks/get").len(),
            cancels: server.requests_of("tasks/cancel").len(),
        });
    }
    ends
}

fn task(change: impl FnOnce(&mut Value)) -> Reply {
    let mut task = raw::handle(RawServer::TASK_ID);
    task["resultType"] = json!("complete");
    change(&mut task);
    Reply::Result(task)
}

#[tokio::test]
async fn a_task_whose_polls_make_no_sense_is_given_up_after_five_and_cancelled() {
    let replies = vec![
        ("garbage", Reply::json_text("{\"jsonrpc\": \"2.0\", oops")),
        ("another task", task(|task| task["taskId"] = json!("raw-task-2"))),
        ("no task id", task(|task| task["taskId"] = Value::Null)),
        ("an unknown status", task(|task| task["status"] = json!("pondering"))),
        ("completed without a result", task(|task| task["status"] = json!("completed"))),
        ("failed without an error", task(|task| task["status"] = json!("failed"))),
        ("input of nobody", task(|task| task["status"] = json!("input_required"))),
        ("no such method", Reply::error(-32601, "Method not found")),
        ("status 404", Reply::status(404)),
    ];
    for end in ends_of(replies).await {
        assert_eq!(end.outcome, "protocol_error", "{}: {}", end.name, end.error);
        assert_eq!((end.calls, end.polls, end.cancels), (1, 5, 1), "{}", end.name);
        assert_eq!(end.error["source"], "remote", "{}: {}", end.name, end.error);
    }
}

#[tokio::test]
async fn a_task_whose_result_is_over_the_limit_fails_and_is_cancelled() {
    let big = raw::completed(&raw::result(&"x".repeat(70_000)));
    for end in ends_of(vec![("big", big)]).await {
        assert_eq!(end.outcome, "result_too_large", "{}", end.error);
        assert_eq!((end.calls, end.polls, end.cancels), (1, 1, 1));
    }
}

#[tokio::test]
async fn a_task_whose_credential_is_refused_is_given_up_after_five() {
    for end in ends_of(vec![("status 401", Reply::status(401))]).await {
        assert_eq!(end.outcome, "unauthorised", "{}", end.error);
        assert_eq!((end.calls, end.polls, end.cancels), (1, 5, 0));
    }
}

#[tokio::test]
async fn a_task_that_the_server_does_not_know_is_missing() {
    for end in ends_of(vec![("unknown", Reply::error(-32602, "unknown task"))]).await {
        assert_eq!(end.outcome, "task_missing", "{}", end.error);
        assert_eq!((end.calls, end.polls, end.cancels), (1, 1, 0));
    }
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_again_until_it_answers() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let after = vec![("retry-after".to_owned(), "0".to_owned())];
    for reply in [
        Reply::status(500),
        Reply::status(503),
        Reply::Status(429, after, String::new()),
        Reply::Reset,
        Reply::CloseEarly,
        Reply::error(-32603, "internal error"),
        Reply::Hang,
    ] {
        server.push("tasks/get", reply);
    }
    server.on("tasks/get", raw::completed(&raw::result("in the end")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/get").len(), 8);
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

async fn until_working(world: &World, server: &RawServer) -> Action {
    let action = world.submit(Submission::raw()).await.unwrap();
    world.until_phase(&action, "working").await.unwrap();
    assert!(!server.requests_of("tools/call").is_empty());
    action
}

#[tokio::test]
async fn a_task_with_the_id_of_a_live_one_is_a_protocol_error_and_not_cancelled() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let holder = until_working(&world, &server).await;
    let newcomer = world.submit(Submission::raw()).await.unwrap();
    let standing = world.until_ended(&newcomer).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("protocol_error"), "{standing:?}");
    assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1));

    server.on("tasks/get", raw::completed(&raw::result("undisturbed")));
    let standing = world.until_ended(&holder).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/cancel").len(), 0);
}

#[tokio::test]
async fn an_id_may_come_again_once_its_task_has_ended() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::completed(&raw::result("done")));
    let _replica = world.replica(REPLICA).start().unwrap();
    for _ in 0..2 {
        let action = world.submit(Submission::raw()).await.unwrap();
        let standing = world.until_ended(&action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    }
}

#[tokio::test]
async fn a_handle_with_a_float_where_an_integer_belongs_is_rescued() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let mut handle = raw::handle(RawServer::TASK_ID);
    handle["pollIntervalMs"] = json!(50.0);
    handle["ttlMs"] = json!(300_000.5);
    handle["createdAt"] = Value::Null;
    server.on("tools/call", Reply::Result(handle));
    server.on("tasks/get", task(|task| task["pollIntervalMs"] = json!(1e300)));
    server.push("tasks/get", task(|task| task["pollIntervalMs"] = json!(50.5)));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    // The second poll is to be a long way off, but no longer than is bearable.
    server.wait_for("tasks/get", 2, PATIENCE).await.unwrap();
    eventually(PATIENCE, "the next poll is bounded", async || {
        let due =
            "t.due_at > now() + interval '4 min' and t.due_at < now() + interval '6 min' and t.polls = 2";
        let bounded = world.of::<bool>(&action, due).await.unwrap();
        let seen = world.of::<String>(&action, "t.due_at - now() || ', ' || t.polls || ' polls'");
        if bounded { Ok(()) } else { Err(seen.await.unwrap()) }
    })
    .await
    .unwrap();
    server.on("tasks/get", raw::completed(&raw::result("rescued")));
    world.let_leases_lapse().await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn numbers_of_any_size_about_a_task_are_borne() {
    for number in [json!(u64::MAX), json!(i64::MAX), json!(-1), json!(0), json!(1e308), json!("soon")] {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        let mut handle = raw::handle(RawServer::TASK_ID);
        handle["ttlMs"] = number.clone();
        handle["pollIntervalMs"] = number.clone();
        server.on("tools/call", Reply::Result(handle));
        server.on("tasks/get", raw::completed(&raw::result("borne")));
        let action = world.submit(Submission::raw()).await.unwrap();
        let _replica = world.replica(REPLICA).start().unwrap();
        // However far off the next poll was put, it is made now.
        let standing = eventually(PATIENCE, "the Action has ended", async || {
            let standing = world.standing(&action).await.unwrap();
            if standing.phase == "working" {
                world.let_leases_lapse().await.unwrap();
            }
            if standing.phase == "finalised" { Ok(standing) } else { Err(format!("{standing:?}")) }
        })
        .await
        .unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{number}: {standing:?}");
    }
}

#[tokio::test]
async fn a_status_that_goes_backwards_is_believed_until_the_task_ends() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    // Completed when it is born, then at work, then asking, then at work again.
    let mut handle = raw::handle(RawServer::TASK_ID);
    handle["status"] = json!("completed");
    server.on("tools/call", Reply::Result(handle));
    server.push("tasks/get", raw::working()).push("tasks/get", raw::asks("q", "Why?"));
    server.push("tasks/get", raw::working());
    server.on("tasks/get", raw::completed(&raw::result("after all")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    world.let_leases_lapse().await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_result_that_is_cut_off_on_its_way_is_fetched_again() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let cut = Reply::Sse {
        chunks: vec!["data: {\"jsonrpc\": \"2.0\", \"id\": $ID, \"result\": {\"status\": \"comp".to_owned()],
        end: david_testkit::raw_server::SseEnd::Cut,
    };
    for lost in [Reply::CloseEarly, Reply::Reset, cut, Reply::status(502), Reply::Accepted202] {
        server.push("tasks/get", lost);
    }
    server.on("tasks/get", raw::completed(&raw::result("in the end")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(standing.envelope.unwrap()["content"][0]["text"], "in the end");
    assert_eq!((server.requests_of("tasks/get").len(), server.requests_of("tools/call").len()), (6, 1));
}

#[tokio::test]
async fn odd_ids_are_polled_and_cancelled_as_they_came() {
    let long = "x".repeat(4096);
    for id in ["ünïcödé-задача-任务-🦀", "two\r\nlines: 1", "../../etc/passwd?a=b#c", " ", &long]
    {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        server.on("tools/call", Reply::Result(raw::handle(id)));
        let mut task = raw::handle(id);
        task["resultType"] = json!("complete");
        server.on("tasks/get", Reply::Result(task));
        let action = world.submit(Submission::raw()).await.unwrap();
        let _replica = world.replica(REPLICA).start().unwrap();
        server.wait_for("tasks/get", 2, PATIENCE).await.unwrap();
        world.cancel(&action).await.unwrap();
        let cancels = server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
        let asked = server.requests_of("tasks/get");
        assert!(asked.iter().chain(&cancels).all(|request| request.params["taskId"] == id), "{id:?}");
        let standing = world.until_ended(&action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("run_cancelled"), "{id:?}: {standing:?}");
    }
}

#[tokio::test]
async fn a_task_that_is_cancelled_at_its_server_cancels_the_action() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", task(|task| task["status"] = json!("cancelled")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("remote_cancelled"), "{standing:?}");
    assert_eq!((standing.status.as_str(), standing.outputs), ("cancelled", 1), "{standing:?}");
    assert_eq!(server.requests_of("tasks/cancel").len(), 0);
}
