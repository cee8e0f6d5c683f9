//! Below the SDK.

use std::time::Duration;

use david_testkit::raw_server::SseEnd;
use david_testkit::{RawServer, Reply, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

fn http() -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn post(server: &RawServer, method: &str) -> Result<(u16, String), reqwest::Error> {
    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": { "taskId": "t" } }).to_string();
    let response = http().post(server.url()).body(body).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

async fn post_json(server: &RawServer, method: &str) -> Value {
    serde_json::from_str(&post(server, method).await.unwrap().1).unwrap()
}

#[tokio::test]
async fn pushed_replies_come_first_in_order_and_then_the_standing_one() {
    let server = RawServer::start().await.unwrap();
    server.on("tasks/get", Reply::error(-32602, "gone"));
    server.push("tasks/get", Reply::Default).push("tasks/get", Reply::status(503));
    assert_eq!(post_json(&server, "tasks/get").await["result"]["taskId"], "t");
    assert_eq!(post(&server, "tasks/get").await.unwrap().0, 503);
    for _ in 0..2 {
        assert_eq!(
            post_json(&server, "tasks/get").await["error"],
            json!({ "code": -32602, "message": "gone" })
        );
    }
}

#[tokio::test]
async fn a_reply_can_depend_on_the_request_and_come_late() {
    let server = RawServer::start().await.unwrap();
    let echo = Reply::with(|request| Reply::Result(request.params.clone()));
    server.on("tasks/get", Reply::Delay(Duration::from_millis(30), Box::new(echo)));
    let began = std::time::Instant::now();
    assert_eq!(
        post_json(&server, "tasks/get").await,
        json!({ "jsonrpc": "2.0", "id": 7, "result": { "taskId": "t" } })
    );
    assert!(began.elapsed() >= Duration::from_millis(30));
}

#[tokio::test]
async fn ids_can_be_wrong_or_missing_and_bodies_anything() {
    let server = RawServer::start().await.unwrap();
    server
        .push("tasks/get", Reply::WrongId)
        .push("tasks/get", Reply::NullId)
        .push("tasks/get", Reply::Accepted202);
    server.push(
        "tasks/get",
        Reply::RawBody { content_type: "text/html".to_owned(), body: b"\xff<h1>$ID</h1>".to_vec() },
    );
    server
        .push("tasks/get", Reply::Drip { body: "{\"id\":$ID}".to_owned(), pause: Duration::from_millis(1) });
    assert_eq!(post_json(&server, "tasks/get").await["id"], 4_294_967_295_u32);
    assert_eq!(post_json(&server, "tasks/get").await["id"], Value::Null);
    assert_eq!(post(&server, "tasks/get").await.unwrap(), (202, String::new()));
    assert_eq!(post(&server, "tasks/get").await.unwrap().1, "\u{fffd}<h1>7</h1>");
    assert_eq!(post_json(&server, "tasks/get").await["id"], 7);
}

#[tokio::test]
async fn connections_can_be_cut_before_and_in_the_middle_of_an_answer() {
    let server = RawServer::start().await.unwrap();
    let half_a_stream = Reply::Sse { chunks: vec!["data: {".to_owned()], end: SseEnd::Cut };
    server.push("a", Reply::Reset).push("b", Reply::CloseEarly).push("c", half_a_stream);
    assert!(post(&server, "a").await.unwrap_err().is_request());
    assert!(post(&server, "b").await.unwrap_err().is_decode());
    assert!(post(&server, "c").await.unwrap_err().is_decode());
}

#[tokio::test]
async fn a_hanging_request_is_in_flight_until_the_client_gives_up() {
    let server = RawServer::start().await.unwrap();
    server.on("tasks/get", Reply::Hang);
    let (one, other) = (post(&server, "tasks/get"), post(&server, "tasks/get"));
    tokio::select! {
        _ = one => panic!("answered"),
        _ = other => panic!("answered"),
        arrived = server.wait_for("tasks/get", 2, SOON) => assert_eq!(arrived.unwrap().len(), 2),
    }
    eventually(SOON, "nothing is in flight", async || match server.in_flight("tasks/get") {
        0 => Ok(()),
        some => Err(format!("{some} in flight")),
    })
    .await
    .unwrap();
    assert_eq!(server.peak("tasks/get"), 2);
}

#[tokio::test]
async fn waiting_for_requests_that_do_not_come_says_what_came() {
    let server = RawServer::start().await.unwrap();
    post(&server, "tools/list").await.unwrap();
    let error = server.wait_for("tasks/get", 1, Duration::from_millis(20)).await.unwrap_err().to_string();
    assert!(error.contains("tools/list"), "{error}");
}

#[tokio::test]
async fn a_dropped_server_refuses_connections_and_can_come_back_at_its_address() {
    let server = RawServer::start().await.unwrap();
    post(&server, "tools/list").await.unwrap();
    let (address, url) = (server.address(), server.url());
    drop(server);
    eventually(SOON, "connections are refused", async || match http().get(&url).send().await {
        Err(error) if error.is_connect() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    let server = RawServer::start_on(address).await.unwrap();
    post(&server, "tools/list").await.unwrap();
}
