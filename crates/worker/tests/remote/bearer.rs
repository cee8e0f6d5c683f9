//! Bearer tokens, from files and from a broker: shown to the server with every request, replaced when
//! it refuses them, and to be seen nowhere else.

use std::path::Path;
use std::time::Duration;

use david_tasks::credentials::{Broker, Source};
use david_testkit::{RawServer, Reply};
use serde_json::json;

use crate::support::{Caller, word_of_call, word_of_poll};

/// A server that lets nobody in who does not show this token.
async fn server_for(token: &'static str) -> RawServer {
    let server = RawServer::start().await.unwrap();
    for method in ["server/discover", "tools/call", "tasks/get"] {
        admit(&server, method, token);
    }
    server
}

fn admit(server: &RawServer, method: &str, token: &'static str) {
    let header = format!("Bearer {token}");
    server.on(
        method,
        Reply::with(move |request| match request.header("authorization") {
            Some(shown) if shown == header => Reply::Default,
            _ => {
                Reply::Status(401, vec![("www-authenticate".to_owned(), "Bearer".to_owned())], String::new())
            }
        }),
    );
}

fn shown(server: &RawServer, method: &str) -> Vec<String> {
    let requests = server.requests_of(method);
    requests.iter().map(|request| request.header("authorization").unwrap_or("none").to_owned()).collect()
}

fn write(directory: &Path, token: &str) {
    std::fs::write(directory.join("cred_1"), token).unwrap();
}

fn files(directory: &Path) -> Source {
    Source::directory(directory.to_owned())
}

/// A broker whose tokens are `first` until it is told that the server refuses that, then `second`.
async fn broker(first: &'static str, second: &'static str, expires_in: f64) -> (RawServer, Source) {
    let broker = RawServer::start().await.unwrap();
    broker.on(
        "POST",
        Reply::with(move |request| {
            let token = if request.params["refused"] == json!(true) { second } else { first };
            let reply = json!({ "access_token": token, "token_type": "Bearer", "expires_in": expires_in });
            Reply::json_text(&reply.to_string())
        }),
    );
    let source = Source::Broker(Broker::new(&broker.url(), None).unwrap());
    (broker, source)
}

fn asked(broker: &RawServer) -> Vec<serde_json::Value> {
    broker.requests_of("POST").into_iter().map(|request| request.params).collect()
}

#[tokio::test]
async fn a_token_of_a_file_is_shown_with_every_request() {
    let (server, directory) = (server_for("sesame").await, tempfile::tempdir().unwrap());
    write(directory.path(), "sesame\n");
    let caller = Caller::with_credential(&server, files(directory.path()));
    assert_eq!(word_of_call(&caller.call().await), "task");
    assert_eq!(word_of_poll(&caller.poll().await), "working");
    for method in ["server/discover", "tools/call", "tasks/get"] {
        assert_eq!(shown(&server, method), ["Bearer sesame"], "{method}");
    }
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_when_the_server_refuses_the_old_token() {
    let (server, directory) = (server_for("old").await, tempfile::tempdir().unwrap());
    write(directory.path(), "old");
    let caller = Caller::with_credential(&server, files(directory.path()));
    assert_eq!(word_of_poll(&caller.poll().await), "working");

    write(directory.path(), "new");
    admit(&server, "tools/call", "new");
    assert_eq!(word_of_call(&caller.call().await), "task");
    assert_eq!(shown(&server, "tools/call"), ["Bearer old", "Bearer new"]);
    assert_eq!(server.requests_of("server/discover").len(), 1, "the client stays as it is");
}

#[tokio::test]
async fn a_refused_token_is_replaced_by_the_broker_once() {
    let (server, (broker, source)) = (server_for("second").await, broker("first", "second", 300.0).await);
    let caller = Caller::with_credential(&server, source);
    assert_eq!(word_of_call(&caller.call().await), "task");
    assert_eq!(shown(&server, "server/discover"), ["Bearer first", "Bearer second"]);
    assert_eq!(shown(&server, "tools/call"), ["Bearer second"]);
    let request = |refused| json!({ "credential_id": "cred_1", "refused": refused });
    assert_eq!(asked(&broker), [request(false), request(true)]);
}

#[tokio::test]
async fn a_token_that_no_refresh_mends_is_unauthorised_and_nothing_is_sent_a_third_time() {
    let (server, (broker, source)) = (server_for("second").await, broker("first", "second", 300.0).await);
    let caller = Caller::with_credential(&server, source);
    assert_eq!(word_of_poll(&caller.poll().await), "working");
    admit(&server, "tools/call", "neither");
    for _ in 0..3 {
        assert_eq!(word_of_call(&caller.call().await), "Unauthorised");
    }
    // The broker has no other token, which is not asked for again at once.
    assert_eq!(shown(&server, "tools/call"), ["Bearer second"; 3]);
    assert_eq!(asked(&broker).len(), 3);
}

#[tokio::test]
async fn a_broker_is_asked_once_for_all_requests_while_its_token_lasts() {
    let (server, (broker, source)) = (server_for("first").await, broker("first", "none", 300.0).await);
    let caller = Caller::with_credential(&server, source);
    let polls = futures::future::join_all((0..50).map(|_| caller.poll())).await;
    assert!(polls.iter().all(|reply| word_of_poll(reply) == "working"), "{polls:?}");
    assert_eq!(asked(&broker).len(), 1);
}

#[tokio::test]
async fn a_token_is_not_used_past_its_time() {
    let (server, (broker, source)) = (server_for("first").await, broker("first", "none", 0.0).await);
    let caller = Caller::with_credential(&server, source);
    for _ in 0..3 {
        assert_eq!(word_of_poll(&caller.poll().await), "working");
    }
    assert!(asked(&broker).len() >= 4, "the handshake and each poll need a token of their own");
}

#[tokio::test]
async fn a_broker_in_trouble_is_trouble_that_may_pass_and_nothing_is_sent() {
    let server = server_for("first").await;
    let (broker, source) = broker("first", "none", 0.0).await;
    let caller = Caller::with_credential(&server, source);
    for reply in [
        Reply::status(500),
        Reply::status(401),
        Reply::Reset,
        Reply::json_text("<h1>"),
        Reply::json_text("{}"),
        Reply::json_text(r#"{"access_token": ""}"#),
        Reply::json_text(r#"{"access_token": "two words"}"#),
        Reply::json_text(r#"{"access_token": "line\r\nX-Evil: 1"}"#),
        Reply::json_text(&format!(r#"{{"access_token": "{}"}}"#, "x".repeat(200_000))),
        Reply::Status(302, vec![("location".to_owned(), server.url())], String::new()),
    ] {
        broker.push("POST", reply.clone());
        let called = caller.call().await;
        assert_eq!(word_of_call(&called), "NeverSent", "{reply:?}: {called:?}");
    }
    assert_eq!(server.requests().len(), 0);
    assert_eq!(word_of_call(&caller.call().await), "task");
}

#[tokio::test]
async fn a_credential_that_does_not_exist_is_unauthorised_and_nothing_is_sent() {
    let (server, directory) = (server_for("first").await, tempfile::tempdir().unwrap());
    let (broker, unknowing) = broker("first", "none", 0.0).await;
    broker.on("POST", Reply::status(404));
    for (what, source) in [("no such file", files(directory.path())), ("404 of the broker", unknowing)] {
        let caller = Caller::with_credential(&server, source);
        let called = caller.call().await;
        assert_eq!(word_of_call(&called), "Unauthorised", "{what}: {called:?}");
    }
    for token in ["", " \n", "two words", "sésame", "line\r\nX-Evil: 1"] {
        write(directory.path(), token);
        let caller = Caller::with_credential(&server, files(directory.path()));
        let called = caller.call().await;
        assert_eq!(word_of_call(&called), "Unauthorised", "{token:?}: {called:?}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn the_worker_shows_the_broker_a_token_of_its_own() {
    let (server, directory) = (server_for("first").await, tempfile::tempdir().unwrap());
    let (broker, _) = broker("first", "none", 300.0).await;
    let own = directory.path().join("own");
    std::fs::write(&own, "worker-token\n").unwrap();
    let source = Source::Broker(Broker::new(&broker.url(), Some(own)).unwrap());
    assert_eq!(word_of_poll(&Caller::with_credential(&server, source).poll().await), "working");
    assert_eq!(shown(&broker, "POST"), ["Bearer worker-token"]);
}

#[tokio::test]
async fn a_server_that_wants_no_credential_is_shown_none() {
    let server = RawServer::start().await.unwrap();
    assert_eq!(word_of_poll(&Caller::of(&server).poll().await), "working");
    assert_eq!(shown(&server, "tasks/get"), ["none"]);
}

#[tokio::test]
async fn no_token_is_shown_by_debug_or_by_an_error() {
    const SECRET: &str = "hunter2-is-secret";
    let (server, directory) = (server_for("other").await, tempfile::tempdir().unwrap());
    write(directory.path(), SECRET);
    let caller = Caller::with_credential(&server, files(directory.path()));
    let called = caller.call().await;
    assert_eq!(word_of_call(&called), "Unauthorised");
    assert!(!format!("{called:?} {:?} {:?}", caller.clients, caller.target).contains(SECRET));
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), caller.poll()).await.map(|_| ()), Ok(()));
}

#[tokio::test]
async fn an_id_that_would_lead_out_of_the_directory_is_unauthorised_and_nothing_is_read_or_sent() {
    let (server, directory) = (server_for("secret").await, tempfile::tempdir().unwrap());
    let inner = directory.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(directory.path().join("outside"), "secret").unwrap();
    std::fs::write(inner.join(".hidden"), "secret").unwrap();
    for id in ["../outside", "./../outside", directory.path().join("outside").to_str().unwrap(), ".hidden"] {
        let mut caller = Caller::with_credential(&server, files(&inner));
        caller.target.credential = Some(david_reconciler::CredentialId::new(id));
        assert_eq!(word_of_call(&caller.call().await), "Unauthorised", "{id}");
    }
    assert_eq!(server.requests().len(), 0);
}
