//! Servers of the older protocol: they have no tasks, but their tools may answer at once.

use david_testkit::{RawServer, Reply};
use serde_json::json;

use crate::support::{Caller, word_of_call};

fn result() -> Reply {
    Reply::Result(json!({ "content": [{ "type": "text", "text": "done" }] }))
}

fn json_status(status: u16, code: i64) -> Reply {
    let body = format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":{code},"message":"no"}}}}"#);
    Reply::Status(status, vec![("content-type".to_owned(), "application/json".to_owned())], body)
}

#[tokio::test]
async fn only_a_clear_no_to_discovery_leads_to_the_older_handshake() {
    for (reply, falls_back) in [
        (Reply::error(-32601, "Method not found"), "yes"),
        (json_status(404, -32601), "yes"),
        (Reply::status(404), "yes"),
        (Reply::status(405), "yes"),
        (Reply::status(400), "no"),
        (Reply::status(500), "no"),
        (Reply::status(401), "no"),
        (Reply::error(-32603, "no"), "no"),
        (Reply::error(-32021, "no"), "no"),
        (Reply::json_text("<h1>"), "no"),
    ] {
        let server = RawServer::start().await.unwrap();
        server.on("server/discover", reply.clone()).on("tools/call", result());
        let called = Caller::of(&server).call().await;
        let initialised = server.requests_of("initialize").len();
        match falls_back {
            "yes" => assert_eq!((word_of_call(&called).as_str(), initialised), ("result", 1), "{reply:?}"),
            _ => assert_eq!(
                (server.requests_of("tools/call").len(), initialised),
                (0, 0),
                "{reply:?}: {called:?}"
            ),
        }
    }
}

/// Opens sessions `s-1`, `s-2`, … and knows only the last one.
async fn forgetful() -> RawServer {
    let server = RawServer::start().await.unwrap();
    server.on("server/discover", Reply::status(404));
    open_session(&server, "s-1");
    server
}

fn open_session(server: &RawServer, session: &'static str) {
    let initialised = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
        "serverInfo": { "name": "old", "version": "1" },
    });
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("mcp-session-id".to_owned(), session.to_owned()),
    ];
    let body = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{initialised}}}"#);
    server.on("initialize", Reply::Status(200, headers, body)).on(
        "tools/call",
        Reply::with(move |request| match request.header("mcp-session-id") {
            Some(known) if known == session => result(),
            _ => Reply::status(404),
        }),
    );
}

/// SDK-AUDIT 12: left alone, the SDK makes the call again by itself.
#[tokio::test]
async fn a_call_that_meets_the_end_of_its_session_is_not_made_again_and_the_next_one_has_its_own() {
    let server = forgetful().await;
    let caller = Caller::of(&server);
    assert_eq!(word_of_call(&caller.call().await), "result");
    open_session(&server, "s-2");
    assert_eq!(word_of_call(&caller.call().await), "malformed");
    assert_eq!(server.requests_of("tools/call").len(), 2);
    assert_eq!(word_of_call(&caller.call().await), "result");
    assert_eq!(server.requests_of("initialize").len(), 2);
}
