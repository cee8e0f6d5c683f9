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
