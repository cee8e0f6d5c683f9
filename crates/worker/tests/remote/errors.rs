//! JSON-RPC errors, by code and by the HTTP status they travel with.

use david_reconciler::{CallReply, PollReply, Refusal, RemoteError};
use david_testkit::{RawServer, Reply};
use serde_json::json;

use crate::support::{Caller, check, row, word_of_call, word_of_poll};

fn error(code: i64) -> Reply {
    Reply::error(code, "no")
}

fn with_status(status: u16, code: i64) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": "MARK", "error": { "code": code, "message": "no" } });
    Reply::Status(
        status,
        vec![("content-type".to_owned(), "application/json".to_owned())],
        body.to_string().replace("\"MARK\"", "$ID"),
    )
}

#[tokio::test]
async fn an_unknown_task_is_gone_whatever_the_http_status() {
    check(vec![
        row("-32602", error(-32602), "gone", "rejected -32602"),
        row("-32602 with 400", with_status(400, -32602), "gone", "rejected -32602"),
        row("-32602 with 404", with_status(404, -32602), "gone", "rejected -32602"),
    ])
    .await;
}

#[tokio::test]
async fn a_server_that_does_not_speak_the_extension_is_malformed_after_a_few_tries() {
    check(vec![
        row("-32601", error(-32601), "malformed", "rejected -32601"),
        row("-32601 with 404", with_status(404, -32601), "malformed", "rejected -32601"),
    ])
    .await;
}

/// Whoever upgrades a server under a client makes it say so; the next request shakes hands anew.
#[tokio::test]
async fn a_server_that_no_longer_understands_the_handshake_gets_another() {
    for reply in [error(-32021), with_status(400, -32021), error(-32022), with_status(400, -32022)] {
        let server = RawServer::start().await.unwrap();
        let caller = Caller::of(&server);
        server.push("tools/call", reply.clone()).push("tasks/get", reply.clone());
        assert_eq!(word_of_call(&caller.call().await), "Unsupported", "{reply:?}");
        assert_eq!(word_of_poll(&caller.poll().await), "malformed", "{reply:?}");
        assert_eq!(word_of_call(&caller.call().await), "task", "after {reply:?}");
        assert_eq!(server.requests_of("server/discover").len(), 3);
    }
}

/// The HTTP status is lost on the way, so an error inside a 500 cannot be told from one inside a 200.
#[tokio::test]
async fn an_error_without_a_meaning_of_its_own_may_pass_for_a_task_and_ends_a_call() {
    check(vec![
        row("-32603", error(-32603), "transient", "rejected -32603"),
        row("-32603 with 500", with_status(500, -32603), "transient", "rejected -32603"),
        row("-32603 with 503", with_status(503, -32603), "transient", "rejected -32603"),
        row("-32000", error(-32000), "transient", "rejected -32000"),
        row("a code of its own", error(7), "transient", "rejected 7"),
    ])
    .await;
}

#[tokio::test]
async fn what_the_server_said_is_passed_on() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    let data = json!({ "field": "city" });
    server.on(
        "tools/call",
        Reply::Error { code: -32602, message: "no city".to_owned(), data: Some(data.clone()) },
    );
    let expected = RemoteError { code: -32602, message: "no city".to_owned(), data: Some(data) };
    assert_eq!(caller.call().await, CallReply::Rejected(expected));
    server.on("tasks/get", Reply::error(-32602, "Failed to retrieve task: Task not found"));
    let message = "Failed to retrieve task: Task not found".to_owned();
    assert_eq!(caller.poll().await, PollReply::Refused(Refusal::Gone { message }));
}

#[tokio::test]
async fn an_acknowledgement_is_refused_as_a_poll_is() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    let word = |ack| match ack {
        david_reconciler::Ack::Acknowledged => "acknowledged".to_owned(),
        david_reconciler::Ack::Refused(refusal) => crate::support::word_of_refusal(&refusal),
    };
    for (reply, expected) in [
        (Reply::Default, "acknowledged"),
        // Whatever it brings: acknowledgements prove nothing anyway.
        (Reply::Result(json!({ "resultType": "complete", "surplus": [1] })), "acknowledged"),
        (error(-32602), "gone"),
        (error(-32601), "malformed"),
        (error(-32603), "transient"),
        (Reply::status(401), "unauthorised"),
        (Reply::status(503), "transient"),
        (Reply::Reset, "transient"),
    ] {
        server.push("tasks/cancel", reply.clone());
        assert_eq!(word(caller.cancel().await), expected, "{reply:?}");
    }
}
