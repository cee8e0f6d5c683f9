//! What servers send is kept as it is, however odd; nothing they send makes a row come back for ever.

use david_e2e::{Submission, World, raw};
use david_testkit::{RawServer, Reply};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

fn odd_results() -> Vec<(&'static str, Value)> {
    vec![
        ("NUL", json!({ "content": [{ "type": "text", "text": "a\u{0}b" }] })),
        ("NUL in a key", json!({ "content": [], "structuredContent": { "a\u{0}b": "\u{0}", "text": "x" } })),
        ("a huge number", json!({ "content": [], "structuredContent": { "n": 1e300, "m": u64::MAX } })),
        ("noncharacters", json!({ "content": [{ "type": "text", "text": "\u{ffff}\u{10ffff}\u{202e}" }] })),
        ("an unknown block", json!({ "content": [{ "type": "hologram", "depth": 3 }] })),
        ("many blocks", json!({ "content": vec![json!({ "type": "text", "text": "x" }); 3_000] })),
        ("structured null", json!({ "content": [], "structuredContent": Value::Null })),
        ("no content", json!({ "content": [] })),
    ]
}

#[tokio::test]
async fn odd_results_are_kept_as_they_are() {
    for (name, result) in odd_results() {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        server.push("tools/call", Reply::Result(result.clone()));
        server.on("tasks/get", raw::completed(&result));
        let _replica = world.replica(REPLICA).start().unwrap();
        // At once, and by way of a task.
        for way in ["at once", "by a task"] {
            let action = world.submit(Submission::raw()).await.unwrap();
            let standing = world.until_ended(&action).await.unwrap();
            assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{name} {way}: {standing:?}");
            let envelope = standing.envelope.unwrap();
            assert_eq!(envelope["content"], result["content"], "{name} {way}");
            assert_eq!(envelope["structured_content"], result["structuredContent"], "{name} {way}");
            assert_eq!(standing.outputs, 1, "{name} {way}");
        }
        assert_eq!(server.requests_of("tools/call").len(), 2, "{name}");
    }
}

#[tokio::test]
async fn arguments_reach_the_server_as_they_were_submitted() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", Reply::Result(raw::result("thanks")));
    let mut arguments = json!({ "nul": "a\u{0}b", "deep": [[[{}]]], "n": -0.5, "big": u64::MAX, "": null });
    let submission = Submission { arguments: arguments.clone(), ..Submission::raw() };
    let action = world.submit(submission).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    arguments["key"] = json!(action.id);
    assert_eq!(server.requests_of("tools/call")[0].params["arguments"], arguments);
    assert_eq!(server.requests_of("tools/call")[0].params["name"], "work");
}

#[tokio::test]
async fn a_nul_in_an_error_message_is_stored_and_ends_the_action_once() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let message = "bad\u{0}news".repeat(100);
    server.push("tools/call", Reply::error(-32050, &message));
    server.on("tools/call", Reply::Default);
    let _replica = world.replica(REPLICA).start().unwrap();
    let rejected = world.submit(Submission::raw()).await.unwrap();
    let standing = world.until_ended(&rejected).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("call_rejected"), "{standing:?}");
    let told = standing.envelope.unwrap()["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.contains("bad\u{fffd}news") && told.chars().count() < 600, "{told}");

    // A poll that fails with it and is tried again, then a task that failed with it.
    server.push("tasks/get", Reply::error(-32603, &message));
    let mut failed = raw::handle(RawServer::TASK_ID);
    failed["resultType"] = json!("complete");
    failed["status"] = json!("failed");
    failed["statusMessage"] = json!(message);
    failed["error"] = json!({ "code": -32050, "message": message });
    server.on("tasks/get", Reply::Result(failed));
    let action = world.submit(Submission::raw()).await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("remote_failed"), "{standing:?}");
    assert_eq!((standing.outputs, server.requests_of("tasks/get").len()), (1, 2));
}

#[tokio::test]
async fn arguments_that_json_allows_but_nothing_can_send_end_the_action() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::of("sync", json!({}))).await.unwrap();
    world
        .execute(r#"update david.mcp_action_calls set arguments = '{"n": 1e999, "s": "\ud800"}'"#)
        .await
        .unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("quarantined"), "{standing:?}");
    assert_eq!(world.ledger().calls_with_key(&action.id), 0);
}

/// A reply to `tools/call` or `tasks/get` around this JSON text, which serde_json might refuse to hold.
fn around(method: &str, text: &str) -> Reply {
    let result =
        format!("{{\"content\": [{{\"type\": \"text\", \"text\": \"x\"}}], \"structuredContent\": {text}}}");
    let result = match method {
        "tools/call" => result,
        _ => format!(
            "{{\"resultType\": \"complete\", \"taskId\": \"{}\", \"status\": \"completed\", \"ttlMs\": null,
              \"createdAt\": \"2026-07-28T00:00:00Z\", \"lastUpdatedAt\": \"2026-07-28T00:00:00Z\", \"result\": {result}}}",
            RawServer::TASK_ID
        ),
    };
    Reply::json_text(&format!("{{\"jsonrpc\": \"2.0\", \"id\": $ID, \"result\": {result}}}"))
}

/// Every one of these has broken a database or a client somewhere. What can be parsed is kept as the
/// value it is; what cannot is a protocol error; nothing comes back for ever.
#[tokio::test]
async fn hostile_json_is_kept_or_refused_and_never_leased_for_ever() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for (name, text, outcome) in [
        ("a lone high surrogate", r#""\ud800""#.to_owned(), "protocol_error"),
        ("a lone low surrogate in a key", r#"{"\udfff": 1}"#.to_owned(), "protocol_error"),
        ("a number beyond any double", "1e200000".to_owned(), "protocol_error"),
        ("a number that jsonb would write out", r#"{"a":1e131071}"#.to_owned(), "protocol_error"),
        ("a tiny number", "1e-200000".to_owned(), "succeeded"),
        ("a key twice", r#"{"a": 1, "a": 2}"#.to_owned(), "succeeded"),
        ("a NUL", r#"{"\u0000": "\u0000"}"#.to_owned(), "succeeded"),
        ("64 levels", deep(64), "succeeded"),
        ("10,000 levels", deep(10_000), "protocol_error"),
        ("half of it", r#"{"a": "#.to_owned(), "protocol_error"),
        ("not a number", "NaN".to_owned(), "protocol_error"),
    ] {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        let replica = world.replica(REPLICA).start().unwrap();
        for method in ["tools/call", "tasks/get"] {
            server.on("tools/call", Reply::Default);
            server.on(method, around(method, &text));
            let action = world.submit(Submission::raw()).await.unwrap();
            let standing = world.until_ended(&action).await.unwrap();
            assert_eq!(standing.outcome.as_deref(), Some(outcome), "{name} of {method}: {standing:?}");
            assert_eq!(standing.outputs, 1, "{name} of {method}");
        }
        assert_eq!(server.requests_of("tools/call").len(), 2, "{name}: called again");
        assert!(replica.exited().unwrap().is_none(), "{name}: {}", replica.logs());
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_end_the_action_once() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let mut body =
        br#"{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": ""#.to_vec();
    body.extend([0xff, 0xfe, 0xc0, 0x80]);
    body.extend(br#""}]}}"#);
    server.on("tools/call", Reply::RawBody { content_type: "application/json".to_owned(), body });
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("protocol_error"), "{standing:?}");
    assert_eq!((standing.outputs, server.requests_of("tools/call").len()), (1, 1));
}

#[tokio::test]
async fn a_result_that_is_an_error_fails_its_action_at_once_or_by_a_task() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let result = json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true });
    server.push("tools/call", Reply::Result(result.clone()));
    server.on("tasks/get", raw::completed(&result));
    let _replica = world.replica(REPLICA).start().unwrap();
    for way in ["at once", "by a task"] {
        let action = world.submit(Submission::raw()).await.unwrap();
        let standing = world.until_ended(&action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("tool_error"), "{way}: {standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1), "{way}: {standing:?}");
        let envelope = standing.envelope.unwrap();
        assert_eq!(
            (&envelope["is_error"], &envelope["content"]),
            (&json!(true), &result["content"]),
            "{way}"
        );
    }
}
