//! Tool parameters that travel as headers, too: the SDK knows them only once it has seen the tool list.

use david_testkit::{RawServer, Reply};
use serde_json::{Value, json};

use crate::support::{Caller, SOON, request, word_of_call};

async fn call(caller: &Caller) -> String {
    let mut request = request("work");
    request.arguments.insert("region".to_owned(), Value::from("eu"));
    let deadline = tokio::time::Instant::now() + SOON;
    word_of_call(&caller.clients.call_tool(&caller.target, request, deadline).await)
}

fn listed() -> Reply {
    let schema = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
    });
    Reply::Result(json!({
        "resultType": "complete", "tools": [{ "name": "work", "inputSchema": schema }],
        "ttlMs": 0, "cacheScope": "private",
    }))
}

#[tokio::test]
async fn a_header_mismatch_is_answered_by_reading_the_tool_list_and_calling_once_more() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    server.on("tools/list", listed());
    server.on(
        "tools/call",
        Reply::with(|request| match request.header("mcp-param-region") {
            Some("eu") => Reply::Default,
            _ => Reply::error(-32020, "header mismatch"),
        }),
    );
    assert_eq!(call(&caller).await, "task");
    assert_eq!(server.requests_of("tools/call").len(), 2);
    // It is known from now on.
    assert_eq!(call(&caller).await, "task");
    assert_eq!((server.requests_of("tools/call").len(), server.requests_of("tools/list").len()), (3, 1));
}

#[tokio::test]
async fn a_header_mismatch_that_stays_was_not_executed_and_is_not_called_a_third_time() {
    let server = RawServer::start().await.unwrap();
    server.on("tools/list", listed()).on("tools/call", Reply::error(-32020, "header mismatch"));
    assert_eq!(call(&Caller::of(&server)).await, "Unsupported");
    assert_eq!(server.requests_of("tools/call").len(), 2);
}

#[tokio::test]
async fn a_tool_list_that_cannot_be_had_leaves_the_refusal_as_it_was() {
    let server = RawServer::start().await.unwrap();
    server.on("tools/list", Reply::status(500)).on("tools/call", Reply::error(-32020, "header mismatch"));
    assert_eq!(call(&Caller::of(&server)).await, "Unsupported");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_tool_list_without_an_end_is_not_read_for_ever() {
    let server = RawServer::start().await.unwrap();
    let page = json!({ "resultType": "complete", "tools": [], "nextCursor": "on", "ttlMs": 0, "cacheScope": "private" });
    server.on("tools/list", Reply::Result(page)).on("tools/call", Reply::error(-32020, "header mismatch"));
    assert_eq!(call(&Caller::of(&server)).await, "Unsupported");
}
