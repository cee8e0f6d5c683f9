//! Every tool of the sample server ends as it should, through a real replica.

use david_e2e::{Submission, World, raw};
use david_testkit::{RawServer, eventually};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

/// What a tool should bring.
struct Expected {
    tool: &'static str,
    arguments: Value,
    outcome: &'static str,
    status: &'static str,
    /// What history tells, in order.
    events: &'static [&'static str],
    /// In the envelope.
    content: Value,
    /// `source` of the envelope's error.
    source: Option<&'static str>,
}

const TASK_FAILED: &[&str] = &["MCP_TASK_CREATED", "MCP_TASK_FAILED"];
const TASK_COMPLETED: &[&str] = &["MCP_TASK_CREATED", "MCP_TASK_COMPLETED"];

fn success(tool: &'static str, arguments: Value, text: &str, events: &'static [&'static str]) -> Expected {
    let content = json!([{ "type": "text", "text": text }]);
    Expected { tool, arguments, outcome: "succeeded", status: "completed", events, content, source: None }
}

fn failure(
    tool: &'static str,
    outcome: &'static str,
    status: &'static str,
    events: &'static [&'static str],
) -> Expected {
    let content = match outcome {
        "tool_error" => json!([{ "type": "text", "text": "the tool did not work" }]),
        _ => json!([]),
    };
    let arguments = json!({ "seconds": 0.1 });
    Expected { tool, arguments, outcome, status, events, content, source: Some("remote") }
}

fn expectations() -> Vec<Expected> {
    vec![
        success("work", json!({ "seconds": 0.2, "text": "zwölf" }), "zwölf", TASK_COMPLETED),
        success("born_done", json!({ "text": "at once" }), "at once", TASK_COMPLETED),
        success("progress", json!({ "steps": 3, "seconds": 0.3 }), "3 steps", TASK_COMPLETED),
        success("sync", json!({ "text": "now" }), "now", &["MCP_TASK_COMPLETED"]),
        failure("fail", "remote_failed", "failed", TASK_FAILED),
        failure("tool_error", "tool_error", "failed", TASK_FAILED),
        failure("sync_error", "tool_error", "failed", &["MCP_TASK_FAILED"]),
        failure("reject", "call_rejected", "failed", &["MCP_TASK_FAILED"]),
        failure("vanish", "task_missing", "failed", TASK_FAILED),
        failure("cancelled", "remote_cancelled", "cancelled", &["MCP_TASK_CREATED", "MCP_TASK_CANCELLED"]),
        failure("no_such_tool", "call_rejected", "failed", &["MCP_TASK_FAILED"]),
    ]
}

#[tokio::test]
async fn every_tool_ends_its_action_as_it_should() {
    let world = World::new().await.unwrap();
    let mut submitted = Vec::new();
    for expected in expectations() {
        let submission = Submission::of(expected.tool, expected.arguments.clone());
        submitted.push((world.submit(submission).await.unwrap(), expected));
    }
    let _replica = world.replica(REPLICA).start().unwrap();

    for (action, expected) in &submitted {
        let tool = expected.tool;
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some(expected.outcome), "{tool}: {standing:?}");
        assert_eq!(standing.status, expected.status, "{tool}: {standing:?}");
        assert_eq!(standing.events, expected.events, "{tool}: {standing:?}");
        assert_eq!(standing.outputs, 1, "{tool}: {standing:?}");
        assert_eq!(world.ledger().calls_with_key(&action.id), 1, "{tool}");
        let processed = world.of::<bool>(action, "a.processed_at is not null").await.unwrap();
        assert!(processed, "{tool} has no processed_at");
        let id: String = world.of(action, "o.message_id").await.unwrap();
        assert_eq!(id, action.id.replace("act_", "message_"), "{tool}");

        let envelope = standing.envelope.unwrap();
        assert_eq!(envelope["version"], 1, "{tool}: {envelope}");
        assert_eq!(envelope["action_id"], json!(action.id), "{tool}: {envelope}");
        assert_eq!(envelope["tool_call_id"], "call_1", "{tool}: {envelope}");
        assert_eq!(envelope["tool_name"], json!(tool), "{tool}: {envelope}");
        assert_eq!(envelope["outcome"], json!(expected.outcome), "{tool}: {envelope}");
        assert_eq!(envelope["is_error"], json!(expected.source.is_some()), "{tool}: {envelope}");
        assert_eq!(envelope["content"], expected.content, "{tool}: {envelope}");
        match expected.source {
            None => assert_eq!(envelope["error"], Value::Null, "{tool}: {envelope}"),
            Some(source) => {
                assert_eq!(envelope["error"]["kind"], json!(expected.outcome), "{tool}: {envelope}");
                assert_eq!(envelope["error"]["source"], json!(source), "{tool}: {envelope}");
                let message = envelope["error"]["message"].as_str().unwrap();
                assert!(!message.is_empty(), "{tool}: {envelope}");
            }
        }
        let structured = &envelope["structured_content"];
        if expected.source.is_none() {
            assert_eq!(*structured, json!({ "text": expected.content[0]["text"] }), "{tool}: {envelope}");
        } else {
            assert_eq!(*structured, Value::Null, "{tool}: {envelope}");
        }
    }
}

#[tokio::test]
async fn a_task_that_is_gone_after_its_time_to_live_is_expired() {
    let world = World::new().await.unwrap();
    let submission = Submission::of("short_ttl", json!({ "ttl_ms": 300 }));
    let action = world.submit(submission).await.unwrap();
    // The first poll would come long after the task has expired, and is made as soon as it has.
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_POLL_BASE", "5s").start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    eventually(std::time::Duration::from_secs(10), "the time to live has passed", async || {
        let passed = world.of::<bool>(&action, "t.remote_expires_at < now()").await.unwrap();
        if passed { Ok(()) } else { Err("it has not".to_owned()) }
    })
    .await
    .unwrap();
    world.let_leases_lapse().await.unwrap();

    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("task_expired"), "{standing:?}");
    assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1), "{standing:?}");
    assert_eq!(standing.events, ["MCP_TASK_CREATED", "MCP_TASK_EXPIRED"]);
}

#[tokio::test]
async fn an_adopted_task_is_polled_to_its_end_and_never_called() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.push("tasks/get", raw::working());
    server.on("tasks/get", raw::completed(&raw::result("adopted")));
    let remote_task_id = Some(RawServer::TASK_ID.to_owned());
    let action = world.submit(Submission { remote_task_id, ..Submission::raw() }).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();

    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(standing.envelope.unwrap()["content"][0]["text"], "adopted");
    assert_eq!(standing.events, ["MCP_TASK_COMPLETED"]);
    assert_eq!(server.requests_of("tools/call").len(), 0);
    for get in server.requests_of("tasks/get") {
        assert_eq!(get.params["taskId"], RawServer::TASK_ID);
    }
}

#[tokio::test]
async fn an_action_past_its_deadline_fails_and_its_task_is_cancelled() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(600.0)).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();
    world
        .execute(
            "update david.mcp_action_tasks set execution_deadline = now(), due_at = now(), fence = fence + 1",
        )
        .await
        .unwrap();

    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("deadline_exceeded"), "{standing:?}");
    assert_eq!(standing.envelope.unwrap()["error"]["source"], "local");
    assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1));
    assert_eq!(world.ledger().cancels(&remote), 1);
}

#[tokio::test]
async fn the_remote_task_id_stands_in_no_log_line_and_no_event() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::of("fail", json!({ "seconds": 0.2 }))).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_LOG", "trace").start().unwrap();
    world.until_ended(&action).await.unwrap();
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();

    let logs = replica.logs();
    let lines: Vec<&str> = logs.lines().filter(|line| line.contains(&remote)).collect();
    assert!(lines.is_empty(), "{lines:#?}");
    assert!(logs.contains("is tracked"), "the logs tell nothing:\n{logs}");
    let told: i64 =
        sqlx::query_scalar("select count(*) from david.mcp_task_events e where position($1 in e::text) > 0")
            .bind(&remote)
            .fetch_one(&world.db.pool)
            .await
            .unwrap();
    assert_eq!(told, 0);
}
