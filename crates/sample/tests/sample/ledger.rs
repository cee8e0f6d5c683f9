//! What the server remembers of its clients, and for how long.

use david_sample::{Options, Server};
use serde_json::{Value, json};

use crate::client::{Tasks, call, code, connect, create, get};

#[tokio::test]
async fn a_key_called_twice_shows() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    for key in ["action_1", "action_2", "action_1"] {
        call(&client, "sync", json!({ "key": key })).await.unwrap();
    }
    let counts = server.ledger().counts();
    assert_eq!(counts.called_twice(), ["action_1"]);
    assert_eq!((server.ledger().calls("sync"), server.ledger().calls_with_key("action_2")), (3, 1));
}

#[tokio::test]
async fn the_ledger_is_served_as_json_to_other_processes() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let id = create(&client, "work", json!({ "key": "action_1" })).await.task.task_id;
    get(&client, &id).await.unwrap();
    let body =
        reqwest::get(format!("http://{}/ledger", server.address())).await.unwrap().bytes().await.unwrap();
    let ledger: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(ledger["keys"]["action_1"], 1);
    assert_eq!((&ledger["tasks"][&id], &ledger["gets"][&id]), (&json!("work"), &json!(1)));
}

#[tokio::test]
async fn tasks_are_found_from_another_connection_but_not_after_a_restart() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let id = create(&client, "work", json!({ "seconds": 600 })).await.task.task_id;
    let other = connect(&server.url(), Tasks::Declared).await;
    get(&other, &id).await.unwrap();
    let listen = server.address();
    server.shutdown().await.unwrap();
    let server = Server::start(Options { listen, ..Options::default() }).await.unwrap();
    // The old client survives the restart of its server; the task does not.
    assert_eq!(code(&get(&client, &id).await.unwrap_err()), -32602);
    assert_eq!(server.ledger().gets(&id), 1);
}
