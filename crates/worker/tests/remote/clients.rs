//! One client per registration and endpoint: made once, kept while it is good, made again when not.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use david_reconciler::RegistrationId;
use david_tasks::remote::{Limits, Target};
use david_testkit::{RawServer, Reply};
use futures::future::join_all;

use crate::support::{Caller, SOON, word_of_call, word_of_poll};

fn handshakes(server: &RawServer) -> usize {
    server.requests_of("server/discover").len()
}

#[tokio::test]
async fn a_hundred_polls_at_once_share_one_handshake() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    for reply in join_all((0..100).map(|_| caller.poll())).await {
        assert_eq!(word_of_poll(&reply), "working");
    }
    assert_eq!(handshakes(&server), 1);
}

#[tokio::test]
async fn registrations_do_not_share_a_client() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    caller.poll().await;
    let other = Target { registration_id: RegistrationId::new("mcp_2"), ..caller.target.clone() };
    let deadline = tokio::time::Instant::now() + SOON;
    caller.clients.call_tool(&other, crate::support::request("work"), deadline).await;
    assert_eq!(handshakes(&server), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_was_never_called() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    for url in [format!("http://{closed}/mcp"), "http://no-such-host.invalid/mcp".to_owned()] {
        let caller = Caller::new(&url, Limits::default());
        assert_eq!(word_of_call(&caller.call().await), "NeverSent", "{url}");
        assert_eq!(word_of_poll(&caller.poll().await), "transient", "{url}");
    }
}

/// Whatever goes wrong with a handshake, the call behind it was not sent.
#[tokio::test]
async fn a_call_behind_a_failed_handshake_was_never_sent() {
    for (reply, expected) in [
        (Reply::status(500), "NeverSent"),
        (Reply::status(400), "NeverSent"),
        (Reply::status(401), "Unauthorised"),
        (Reply::status(403), "Unauthorised"),
        (
            Reply::Status(429, vec![("retry-after".to_owned(), "3".to_owned())], String::new()),
            "RateLimited after 3s",
        ),
        (Reply::Reset, "NeverSent"),
        (Reply::CloseEarly, "NeverSent"),
        (Reply::json_text("<h1>"), "NeverSent"),
        (Reply::error(-32603, "no"), "NeverSent"),
        (Reply::error(-32021, "no"), "Unsupported"),
    ] {
        let server = RawServer::start().await.unwrap();
        let caller = Caller::of(&server);
        server.push("server/discover", reply.clone());
        assert_eq!(word_of_call(&caller.call().await), expected, "{reply:?}");
        assert!(server.requests_of("tools/call").is_empty(), "{reply:?}");
        // The failure was not kept.
        assert_eq!(word_of_call(&caller.call().await), "task", "after {reply:?}");
        assert_eq!(handshakes(&server), 2, "{reply:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_hangs_is_given_up_at_the_deadline_and_made_again() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    server.push("server/discover", Reply::Hang);
    assert_eq!(word_of_call(&caller.call_briefly().await), "NeverSent");
    assert!(server.requests_of("tools/call").is_empty());
    assert_eq!(word_of_call(&caller.call().await), "task");
}

/// The SDK would keep the POST of a handshake that nobody waits for any more.
#[tokio::test]
async fn a_handshake_that_hangs_holds_up_nobody_for_longer_than_a_handshake_may_take() {
    let server = RawServer::start().await.unwrap();
    let limits = Limits { handshake_timeout: Duration::from_millis(300), ..Limits::default() };
    let caller = Caller::new(&server.url(), limits);
    server.push("server/discover", Reply::Hang);
    // Its own deadline is far away.
    assert_eq!(word_of_call(&caller.call().await), "NeverSent");
    david_testkit::eventually(SOON, "the handshake is over", async || {
        match server.in_flight("server/discover") {
            0 => Ok(()),
            some => Err(format!("{some} in flight")),
        }
    })
    .await
    .unwrap();
    assert_eq!(word_of_poll(&caller.poll().await), "working");
}

/// A server in trouble is not asked by each of a hundred in turn.
#[tokio::test]
async fn a_handshake_that_fails_fails_for_all_that_waited_for_it() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    server.on("server/discover", Reply::Delay(Duration::from_millis(300), Box::new(Reply::status(503))));
    for reply in join_all((0..100).map(|_| caller.poll())).await {
        assert_eq!(word_of_poll(&reply), "transient");
    }
    assert_eq!(handshakes(&server), 1);
    // Whoever comes later tries again.
    server.on("server/discover", Reply::Default);
    assert_eq!(word_of_poll(&caller.poll().await), "working");
}

#[tokio::test]
async fn what_comes_after_its_deadline_is_never_sent() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    for sent in [0, 1] {
        let past = tokio::time::Instant::now();
        let reply = caller.clients.call_tool(&caller.target, crate::support::request("work"), past).await;
        assert_eq!(word_of_call(&reply), "NeverSent");
        assert_eq!(server.requests_of("tools/call").len(), sent, "with a client or without");
        // From now on there is a client.
        assert_eq!(word_of_call(&caller.call().await), "task");
    }
}

/// The one that makes the client may give up earlier than those that wait for it.
#[tokio::test]
async fn who_waits_for_a_handshake_takes_over_when_its_maker_gives_up() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    server.push("server/discover", Reply::Hang);
    let waiting = async {
        server.wait_for("server/discover", 1, SOON).await.unwrap();
        caller.poll().await
    };
    let (given_up, waited) = tokio::join!(caller.poll_briefly(), waiting);
    assert_eq!(word_of_poll(&given_up), "transient");
    assert_eq!(word_of_poll(&waited), "working");
}

#[tokio::test]
async fn a_restart_of_the_server_is_survived_by_the_same_client() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    assert_eq!(word_of_poll(&caller.poll().await), "working");
    let address = server.address();
    drop(server);
    // It is down: the listener is gone, and so are its connections.
    david_testkit::eventually(SOON, "the server is down", async || match caller.call().await {
        reply if word_of_call(&reply) == "NeverSent" => Ok(()),
        reply => Err(format!("{reply:?}")),
    })
    .await
    .unwrap();
    assert_eq!(word_of_poll(&caller.poll().await), "transient");
    let server = RawServer::start_on(address).await.unwrap();
    assert_eq!(word_of_poll(&caller.poll().await), "working");
    assert_eq!(handshakes(&server), 0, "the client is the old one");
}

/// The SDK closes a client that is dropped; a call on it would be lost, and never made again.
#[tokio::test]
async fn a_client_that_is_replaced_stays_open_for_the_calls_on_it() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    // The call is answered only after the client has been replaced.
    server.on("tools/call", Reply::Delay(Duration::from_millis(500), Box::new(Reply::Default)));
    server.push("tasks/get", Reply::error(-32022, "no"));
    let replacing = async {
        server.wait_for("tools/call", 1, SOON).await.unwrap();
        assert_eq!(word_of_poll(&caller.poll().await), "malformed");
        assert_eq!(word_of_poll(&caller.poll().await), "working");
        assert_eq!(handshakes(&server), 2);
    };
    let (called, ()) = tokio::join!(caller.call(), replacing);
    assert_eq!(word_of_call(&called), "task");
}
