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

/// A server that ends each connection after these bytes; it reads what it is sent.
async fn answers_with(head: &'static str, body: &'static [u8], repeat: usize) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                if stream.read(&mut asked).await.is_err() || stream.write_all(head.as_bytes()).await.is_err()
                {
                    return;
                }
                for _ in 0..repeat {
                    if stream.write_all(body).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// A discovery that is answered so fails, and the call behind it is not sent.
#[tokio::test]
async fn a_length_that_lies_and_a_body_without_end_cost_neither_memory_nor_time() {
    const CHUNK: &[u8] = &[b'['; 64 * 1024];
    for (what, head, body, repeat) in [
        (
            "a terabyte that does not come",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000000000\r\n\r\n",
            b"{}".as_slice(),
            1,
        ),
        (
            "less than comes",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n",
            CHUNK,
            10,
        ),
        (
            "a gigabyte of brackets",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
            CHUNK,
            16_384,
        ),
        (
            "a gigabyte of an event",
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
            CHUNK,
            16_384,
        ),
        (
            "a negative length",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: -1\r\n\r\n",
            b"{}",
            1,
        ),
        ("two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n", b"{}", 1),
    ] {
        let url = answers_with(head, body, repeat).await;
        let before = resident();
        let called = tokio::time::timeout(SOON, Caller::new(&url, Limits::default()).call()).await.unwrap();
        assert!(word_of_call(&called).starts_with("NeverSent"), "{what}: {called:?}");
        let grown = resident().saturating_sub(before);
        assert!(grown < 100 * 1024, "{what}: {grown} KiB more");
    }
}

/// Memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}
