//! What a server's refusals and silences mean for a call, which is never made twice by mistake.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::raw_server::SseEnd;
use david_testkit::{RawServer, Reply, eventually};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a call has failed at least so often and its Action is queued again.
async fn until_queued_again(world: &World, action: &Action, attempts: i32) {
    eventually(PATIENCE, "the call is queued again", async || {
        let again = format!("t.phase = 'queued' and t.attempt >= {attempts} and t.last_error is not null");
        let queued = world.of::<bool>(action, &again).await.unwrap();
        if queued { Ok(()) } else { Err(format!("{:?}", world.standing(action).await)) }
    })
    .await
    .unwrap();
}

/// Each reply at a server of its own, all at once: the outcome of each, and how often it was called.
async fn outcomes_of(replies: Vec<(&'static str, Reply)>) -> Vec<(&'static str, String, Value, usize)> {
    let world = World::new().await.unwrap();
    let mut submitted = Vec::new();
    for (name, reply) in replies {
        let server = RawServer::start().await.unwrap();
        server.on("tools/call", reply);
        world.register(name, &server.url()).await.unwrap();
        let action = world.submit(Submission { registration: name, ..Submission::raw() }).await.unwrap();
        submitted.push((name, server, action));
    }
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_MAX_RESPONSE_BYTES", "65536").start().unwrap();
    let mut outcomes = Vec::new();
    for (name, server, action) in &submitted {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1), "{name}: {standing:?}");
        let error = standing.envelope.unwrap()["error"].take();
        outcomes.push((*name, standing.outcome.unwrap(), error, server.requests_of("tools/call").len()));
    }
    outcomes
}

#[tokio::test]
async fn a_call_whose_reply_is_lost_is_unknown_and_never_made_again() {
    let replies = vec![
        ("status 500", Reply::status(500)),
        ("status 502 with a page", Reply::Status(502, Vec::new(), "<html>".to_owned())),
        ("status 503 and retry-after", Reply::Status(503, vec![header("retry-after", "1")], String::new())),
        ("reset", Reply::Reset),
        ("half a reply", Reply::CloseEarly),
        ("silence", Reply::Hang),
        ("another id", Reply::WrongId),
        ("an event stream cut off", Reply::Sse { chunks: vec![": hello\n\n".to_owned()], end: SseEnd::Cut }),
        ("an event stream that says nothing", Reply::Sse { chunks: Vec::new(), end: SseEnd::Hang }),
    ];
    for (name, outcome, error, calls) in outcomes_of(replies).await {
        assert_eq!(outcome, "outcome_unknown", "{name}: {error}");
        assert_eq!(error["source"], "local", "{name}: {error}");
        assert_eq!(calls, 1, "{name}");
    }
}

#[tokio::test]
async fn a_reply_that_makes_no_sense_is_a_protocol_error_and_the_call_is_not_made_again() {
    let handle_with = |id: &str| Reply::Result(raw::handle(id));
    let replies = vec![
        ("garbage", Reply::json_text("{\"jsonrpc\": \"2.0\", oops")),
        ("a page", Reply::RawBody { content_type: "text/html".to_owned(), body: b"<html>hello".to_vec() }),
        ("half a surrogate", text_result("\\ud800")),
        ("an unknown resultType", Reply::Result(json!({ "resultType": "teapot" }))),
        ("input of nobody", Reply::Result(json!({ "resultType": "input_required" }))),
        ("a handle without an id", Reply::Result(json!({ "resultType": "task", "status": "working" }))),
        ("an empty id", handle_with("")),
        ("an id with NUL", handle_with("a\0b")),
        ("an id over 4 KB", handle_with(&"x".repeat(4097))),
        ("status 404", Reply::status(404)),
    ];
    for (name, outcome, error, calls) in outcomes_of(replies).await {
        assert_eq!(outcome, "protocol_error", "{name}: {error}");
        assert_eq!(error["source"], "remote", "{name}: {error}");
        assert_eq!(calls, 1, "{name}");
    }
}

#[tokio::test]
async fn a_result_over_the_limit_is_refused_and_the_call_is_not_made_again() {
    let big = "x".repeat(70_000);
    let replies = vec![("big", Reply::Result(raw::result(&big)))];
    for (name, outcome, error, calls) in outcomes_of(replies).await {
        assert_eq!(outcome, "result_too_large", "{name}: {error}");
        assert_eq!(calls, 1, "{name}");
    }
}

#[tokio::test]
async fn a_reply_over_the_limit_takes_no_other_call_of_its_server_with_it() {
    for (name, kind) in [("json", BIG_JSON), ("events", BIG_EVENT), ("garbage events", BAD_EVENT)] {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        let slow =
            Reply::Delay(Duration::from_millis(1200), Box::new(Reply::Result(raw::result("unharmed"))));
        server.push("tools/call", slow);
        server.on("tools/call", kind());
        let _replica = world.replica(REPLICA).env("DAVID_TASKS_MAX_RESPONSE_BYTES", "65536").start().unwrap();
        let beside = world.submit(Submission::raw()).await.unwrap();
        server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
        let action = world.submit(Submission::raw()).await.unwrap();

        let ended = world.until_ended(&action).await.unwrap();
        assert_ne!(ended.outcome.as_deref(), Some("succeeded"), "{name}: {ended:?}");
        let ended = world.until_ended(&beside).await.unwrap();
        assert_eq!(ended.outcome.as_deref(), Some("succeeded"), "{name}: {ended:?}");
    }
}

const BIG_JSON: fn() -> Reply = || Reply::Result(raw::result(&"x".repeat(70_000)));
const BIG_EVENT: fn() -> Reply = || Reply::Sse {
    chunks: vec![format!("data: {}\n\n", raw::result(&"x".repeat(70_000)))],
    end: SseEnd::Close,
};
const BAD_EVENT: fn() -> Reply =
    || Reply::Sse { chunks: vec!["data: {oops\n\n".to_owned()], end: SseEnd::Close };

#[tokio::test]
async fn a_refused_credential_is_tried_five_times_and_then_unauthorised() {
    let replies = vec![("status 401", Reply::status(401)), ("status 403", Reply::status(403))];
    for (name, outcome, error, calls) in outcomes_of(replies).await {
        assert_eq!(outcome, "unauthorised", "{name}: {error}");
        assert_eq!(calls, 5, "{name}");
    }
}

#[tokio::test]
async fn errors_that_prove_nothing_ran_are_tried_five_times() {
    let replies = vec![
        ("header mismatch", Reply::error(-32020, "header mismatch")),
        ("missing capability", Reply::error(-32021, "missing capability")),
        ("unsupported version", Reply::error(-32022, "unsupported version")),
    ];
    for (name, outcome, error, calls) in outcomes_of(replies).await {
        assert_eq!(outcome, "protocol_error", "{name}: {error}");
        // After a header mismatch the SDK lists the tools and tries once more by itself.
        assert_eq!(calls, if name == "header mismatch" { 10 } else { 5 }, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_waited_for_as_long_as_it_says() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.push("tools/call", Reply::Status(429, vec![header("retry-after", "1200")], String::new()));
    server.on("tools/call", Reply::Result(raw::result("after a while")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    until_queued_again(&world, &action, 1).await;
    let due = "t.due_at between now() + interval '19 min' and now() + interval '21 min'";
    assert!(world.of::<bool>(&action, due).await.unwrap(), "the Retry-After is not honoured");
    world.let_leases_lapse().await.unwrap();

    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!((standing.outputs, server.requests_of("tools/call").len()), (1, 2));
}

#[tokio::test]
async fn a_server_that_is_down_is_called_once_it_is_up() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let address = server.address();
    drop(server);
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    // More often than a malformed reply or a refused credential would be taken.
    until_queued_again(&world, &action, 7).await;
    let server = eventually(PATIENCE, "the address is free again", async || {
        RawServer::start_on(address).await.map_err(|error| format!("{error:#}"))
    })
    .await
    .unwrap();
    server.on("tools/call", Reply::Result(raw::result("up again")));
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_server_whose_handshake_fails_is_not_called() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("server/discover", Reply::status(500));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    until_queued_again(&world, &action, 2).await;
    assert_eq!(server.requests_of("tools/call").len(), 0);
    server.on("server/discover", Reply::Default);
    world.until_phase(&action, "working").await.unwrap();
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_lost_call_that_is_idempotent_is_made_again() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.push("tools/call", Reply::status(500));
    server.push("tools/call", Reply::Reset);
    server.on("tools/call", Reply::Result(raw::result("third time")));
    let action = world.submit(Submission { idempotent: true, ..Submission::raw() }).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!((standing.outputs, server.requests_of("tools/call").len()), (1, 3));
}

#[tokio::test]
async fn an_older_server_without_discovery_is_called_and_answers_at_once() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("server/discover", Reply::error(-32601, "Method not found"));
    server.on("tools/call", Reply::Result(raw::result("the old way")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("initialize").len(), 1);
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A result whose text is this JSON, unescaped.
fn text_result(escaped: &str) -> Reply {
    Reply::json_text(&format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{escaped}"}}]}}}}"#
    ))
}
