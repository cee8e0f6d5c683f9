//! Tools that answer at once.

use david_sample::{Options, REJECTED, Server};
use rmcp::model::CallToolResponse;
use serde_json::json;

use crate::client::{Tasks, call, code, connect, request};

#[tokio::test]
async fn every_tool_is_listed() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let names: Vec<_> = client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names.len(), 14);
    assert!(names.contains(&"work".into()));
}

#[tokio::test]
async fn sync_is_an_ordinary_result_even_for_a_client_with_tasks() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let CallToolResponse::Complete(result) = call(&client, "sync", json!({ "text": "now" })).await.unwrap()
    else {
        panic!("not an ordinary result")
    };
    assert_eq!(result.structured_content, Some(json!({ "text": "now" })));
    let CallToolResponse::Complete(result) = call(&client, "sync_error", json!({})).await.unwrap() else {
        panic!("not an ordinary result")
    };
    assert_eq!(result.is_error, Some(true));
}

#[tokio::test]
async fn reject_and_bad_arguments_and_unknown_tools_are_json_rpc_errors() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    assert_eq!(code(&call(&client, "reject", json!({})).await.unwrap_err()), REJECTED);
    for (tool, arguments) in
        [("work", json!({ "seconds": "many" })), ("work", json!({ "seconds": -1 })), ("nope", json!({}))]
    {
        assert_eq!(code(&call(&client, tool, arguments).await.unwrap_err()), -32602, "{tool}");
    }
}

#[tokio::test]
async fn ask_first_asks_on_the_call_itself_and_wants_its_state_back() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let CallToolResponse::InputRequired(asked) = call(&client, "ask_first", json!({})).await.unwrap() else {
        panic!("does not ask")
    };
    assert!(asked.input_requests.unwrap().contains_key("question-1"));
    let mut second = request("ask_first", json!({}));
    let answer = json!({ "action": "accept", "content": { "answer": "because" } });
    second.input_responses = Some([("question-1".to_owned(), answer)].into());
    second.request_state = asked.request_state.map(|state| state + " ");
    assert_eq!(code(&client.peer().call_tool_once(second.clone()).await.unwrap_err()), -32602);
    second.request_state = second.request_state.map(|state| state.trim_end().to_owned());
    let CallToolResponse::Complete(result) = client.peer().call_tool_once(second).await.unwrap() else {
        panic!("does not answer")
    };
    assert_eq!(result.structured_content.unwrap()["answers"]["question-1"]["content"]["answer"], "because");
}

#[tokio::test]
async fn a_client_without_tasks_is_told_what_it_lacks_and_nothing_is_executed() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Undeclared).await;
    assert_eq!(code(&call(&client, "work", json!({})).await.unwrap_err()), -32021);
    assert_eq!(server.ledger().calls("work"), 0);
}
