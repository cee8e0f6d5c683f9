//! What a server can cost, and where it can send us.

use std::time::Duration;

use david_tasks::remote::Limits;
use david_testkit::raw_server::SseEnd;
use david_testkit::{RawServer, Reply, eventually};
use serde_json::json;

use crate::support::{Caller, SOON, word_of_call, word_of_poll};

fn capped(server: &RawServer) -> Caller {
    Caller::new(&server.url(), Limits { response_bytes: 4096, ..Limits::default() })
}

#[tokio::test]
async fn a_result_over_the_cap_is_too_large_and_the_next_one_is_read() {
    let server = RawServer::start().await.unwrap();
    let caller = capped(&server);
    let large = json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] });
    server.push("tools/call", Reply::Result(large.clone())).push("tasks/get", Reply::Result(large));
    assert_eq!(word_of_call(&caller.call().await), "too large");
    assert_eq!(word_of_poll(&caller.poll().await), "too large");
    assert_eq!(word_of_call(&caller.call().await), "task");
    assert_eq!(word_of_poll(&caller.poll().await), "working");
}

/// Most servers answer with an event stream, and the SDK says of such an event no more than that the
/// reply is lost.
#[tokio::test]
async fn an_event_over_the_cap_is_too_large_as_well_whatever_came_before_it() {
    let server = RawServer::start().await.unwrap();
    let caller = capped(&server);
    let event =
        format!("data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"x\":\"{}\"}}}}\n\n", "x".repeat(5000));
    for before in ["", ": hello\n\n", "id: 1\nretry: 0\ndata:\n\n"] {
        let reply = Reply::Sse { chunks: vec![before.to_owned(), event.clone()], end: SseEnd::Hang };
        server.push("tools/call", reply.clone()).push("tasks/get", reply);
        assert_eq!(word_of_call(&caller.call().await), "too large", "{before:?}");
        assert_eq!(word_of_poll(&caller.poll().await), "too large", "{before:?}");
        assert_eq!(word_of_poll(&caller.poll().await), "working", "{before:?}");
    }
    assert_eq!(server.requests_of("server/discover").len(), 1, "one client is enough");
}

/// What is over the cap is one reply, and no other's that is in flight at the time.
#[tokio::test]
async fn an_event_over_the_cap_says_nothing_about_other_requests() {
    let server = RawServer::start().await.unwrap();
    let caller = capped(&server);
    let event = format!("data: {}\n\n", "x".repeat(5000));
    server.push("tools/call", Reply::Sse { chunks: vec![event], end: SseEnd::Close });
    server.push("tasks/get", Reply::Delay(Duration::from_millis(300), Box::new(Reply::Reset)));
    let (called, polled) = tokio::join!(caller.call(), caller.poll());
    assert_eq!((word_of_call(&called).as_str(), word_of_poll(&polled).as_str()), ("too large", "transient"));
}

/// A redirect could lead to a place that no endpoint policy was asked about.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = RawServer::start().await.unwrap();
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    for status in [301, 302, 303, 307, 308] {
        let reply = Reply::Status(status, vec![("location".to_owned(), elsewhere.url())], String::new());
        server.push("tools/call", reply.clone()).push("tasks/get", reply);
        assert_eq!(word_of_call(&caller.call().await), "malformed", "{status}");
        assert_eq!(word_of_poll(&caller.poll().await), "malformed", "{status}");
    }
    assert!(elsewhere.requests().is_empty(), "{:?}", elsewhere.requests());
}

#[tokio::test]
async fn a_redirected_handshake_is_not_followed_either() {
    let elsewhere = RawServer::start().await.unwrap();
    let server = RawServer::start().await.unwrap();
    server.on(
        "server/discover",
        Reply::Status(307, vec![("location".to_owned(), elsewhere.url())], String::new()),
    );
    assert_eq!(word_of_call(&Caller::of(&server).call().await), "NeverSent");
    assert!(elsewhere.requests().is_empty());
    assert!(server.requests_of("tools/call").is_empty());
}

/// SDK-AUDIT 4: the SDK would reconnect some 850 times a second.
#[tokio::test]
async fn an_event_stream_that_wants_to_be_resumed_is_not() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    let bait = Reply::Sse { chunks: vec!["id: 1\nretry: 0\ndata:\n\n".to_owned()], end: SseEnd::Close };
    server.push("tasks/get", bait.clone()).push("tools/call", bait);
    assert_eq!(word_of_poll(&caller.poll().await), "transient");
    assert_eq!(word_of_call(&caller.call().await), "unknown");
    assert_eq!(word_of_poll(&caller.poll().await), "working");
    assert!(server.requests_of("GET").is_empty());
}

/// SDK-AUDIT 1 and 5: what was given up does not stay behind.
#[tokio::test]
async fn a_request_that_was_given_up_leaves_nothing_in_flight() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    server.push("tools/call", Reply::Hang).push("tasks/get", Reply::Hang);
    assert_eq!(word_of_call(&caller.call_briefly().await), "timeout");
    assert_eq!(word_of_poll(&caller.poll_briefly().await), "timeout");
    eventually(SOON, "nothing is in flight", async || {
        match (server.in_flight("tools/call"), server.in_flight("tasks/get")) {
            (0, 0) => Ok(()),
            some => Err(format!("{some:?}")),
        }
    })
    .await
    .unwrap();
    // A task is only ever cancelled by tasks/cancel (PROTOCOL 12).
    assert!(server.requests_of("notifications/cancelled").is_empty());
}

/// SDK-AUDIT 3: sixteen hung polls block a client that is left as the SDK makes it.
#[tokio::test]
async fn a_hundred_hung_polls_do_not_block_the_next() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    for _ in 0..100 {
        server.push("tasks/get", Reply::Hang);
    }
    let hung = futures::future::join_all((0..100).map(|_| caller.poll()));
    let other = async {
        server.wait_for("tasks/get", 100, SOON).await.unwrap();
        caller.poll().await
    };
    tokio::select! {
        _ = hung => panic!("a hung poll is answered"),
        reply = other => assert_eq!(word_of_poll(&reply), "working"),
    }
}
