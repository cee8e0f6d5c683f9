//! Task ids: which are taken, and how they travel.

use david_reconciler::{CallReply, RemoteTaskId};
use david_testkit::{RawServer, Reply};
use serde_json::json;

use crate::support::{Caller, word_of_call, word_of_poll};

async fn called(id: serde_json::Value) -> CallReply {
    let server = RawServer::start().await.unwrap();
    server
        .on("tools/call", Reply::Result(json!({ "resultType": "task", "taskId": id, "status": "working" })));
    Caller::of(&server).call().await
}

#[tokio::test]
async fn an_id_that_cannot_be_kept_is_malformed() {
    for id in
        [json!(""), json!("a\u{0}b"), json!("x".repeat(4097)), json!("é".repeat(2049)), json!(null), json!(7)]
    {
        assert_eq!(word_of_call(&called(id.clone()).await), "malformed", "{id}");
    }
}

/// Any of these is polled under exactly itself, with the headers the transport wants (PROTOCOL 14).
#[tokio::test]
async fn any_other_id_is_polled_as_it_came() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    let longest = "x".repeat(RemoteTaskId::MAX_BYTES);
    let ids = [
        "1",
        "a b",
        " lead",
        "trail ",
        "ünïcode-✓",
        "a\r\nX-Evil: 1",
        "a\tb",
        "=?base64?eA==?=",
        "\"q\"",
        &longest,
    ];
    for id in ids {
        assert!(matches!(called(json!(id)).await, CallReply::Task { state, .. } if state.id.expose() == id));
        let reply = caller.poll_id(id).await;
        assert_eq!(word_of_poll(&reply), "working", "{id:?}: {reply:?}");
        let requests = server.requests_of("tasks/get");
        let sent = requests.last().unwrap();
        assert_eq!(sent.params["taskId"], id);
        assert_eq!(sent.header("mcp-method"), Some("tasks/get"));
        assert_eq!(sent.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(sent.header("x-evil"), None);
        let name = sent.header("mcp-name").unwrap();
        let plain = id.chars().all(|c| c.is_ascii_graphic() || c == ' ')
            && id.trim() == id
            && !id.starts_with("=?base64?");
        assert_eq!(name == id, plain, "{id:?} as {name:?}");
        assert!(plain || name.starts_with("=?base64?"), "{id:?} as {name:?}");
    }
}

#[tokio::test]
async fn the_extension_is_declared_with_every_request() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    caller.call().await;
    caller.poll().await;
    caller.cancel().await;
    for request in server.requests() {
        let capabilities = &request.params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        let declared = &capabilities["extensions"]["io.modelcontextprotocol/tasks"];
        assert!(declared.is_object(), "{}: {}", request.method, request.params);
    }
}
