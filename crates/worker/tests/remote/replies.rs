//! Replies that are none, or not whole, or somebody else's.

use david_testkit::Reply;
use david_testkit::raw_server::SseEnd;
use serde_json::json;

use crate::support::{check, row};

fn sse(chunks: &[&str], end: SseEnd) -> Reply {
    Reply::Sse { chunks: chunks.iter().map(|chunk| (*chunk).to_owned()).collect(), end }
}

/// Each of these hangs the SDK for ever.
#[tokio::test]
async fn what_never_answers_is_given_up_at_the_deadline() {
    let error = |id: &str| {
        Reply::json_text(&format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32603,"message":"no"}}}}"#))
    };
    check(vec![
        row("silence", Reply::Hang, "timeout", "timeout"),
        row("an error with id null", error(r#""id":null,"#), "timeout", "timeout"),
        row("an error without an id", error(""), "timeout", "timeout"),
        row("a result with an id nobody used", Reply::WrongId, "timeout", "timeout"),
        row("202", Reply::Accepted202, "timeout", "timeout"),
        row("204", Reply::status(204), "timeout", "timeout"),
        row("an event stream without an event", sse(&[], SseEnd::Hang), "timeout", "timeout"),
    ])
    .await;
}

#[tokio::test]
async fn a_lost_reply_is_asked_for_again_and_leaves_a_call_unknown() {
    check(vec![
        row("a closed connection", Reply::Reset, "transient", "unknown"),
        row("half a reply", Reply::CloseEarly, "transient", "unknown"),
        row(
            "an event stream cut before the event",
            sse(&[": hello\n\n"], SseEnd::Cut),
            "transient",
            "unknown",
        ),
        row(
            "an event stream cut within the event",
            sse(&["data: {\"jsonrpc\":\"2.0\","], SseEnd::Cut),
            "transient",
            "unknown",
        ),
        row("an event stream that ends without an event", sse(&[], SseEnd::Close), "transient", "unknown"),
    ])
    .await;
}

#[tokio::test]
async fn what_is_not_json_rpc_is_malformed() {
    let html = Reply::RawBody { content_type: "text/html".to_owned(), body: b"<h1>Hello</h1>".to_vec() };
    check(vec![
        row("a page", html, "malformed", "malformed"),
        row("a page that calls itself JSON", Reply::json_text("<h1>"), "malformed", "malformed"),
        row("half a JSON", Reply::json_text(r#"{"jsonrpc":"2.0","id":$ID,"res"#), "malformed", "malformed"),
        row("nothing that calls itself JSON", Reply::json_text(""), "malformed", "malformed"),
        row("a JSON that is no JSON-RPC", Reply::json_text(r#"{"ok":true}"#), "malformed", "malformed"),
        row("a result with id null", Reply::NullId, "malformed", "malformed"),
        row(
            "a result and an error",
            Reply::json_text(r#"{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":"no"}}"#),
            "malformed",
            "malformed",
        ),
        row("a number as its result", Reply::Result(json!(7)), "malformed", "malformed"),
        row("null as its result", Reply::Result(json!(null)), "malformed", "malformed"),
        row("a list as its result", Reply::Result(json!([1])), "malformed", "malformed"),
    ])
    .await;
}

#[tokio::test]
async fn an_event_stream_delivers_as_json_does() {
    let event = concat!(
        r#"data: {"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","taskId":"raw-task-1","#,
        r#""status":"working","ttlMs":null,"createdAt":"2026-07-28T00:00:00Z","#,
        r#""lastUpdatedAt":"2026-07-28T00:00:00Z"}}"#,
        "\n\n"
    );
    check(vec![
        row("an event", sse(&[event], SseEnd::Close), "working", "result"),
        row("an event, then silence", sse(&[event], SseEnd::Hang), "working", "result"),
        row("an event, then a cut", sse(&[event], SseEnd::Cut), "working", "result"),
    ])
    .await;
}
