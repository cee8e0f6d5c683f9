//! Tools that make tasks.

use david_sample::{Options, REJECTED, Server};
use rmcp::model::{CancelTaskParams, TaskPayload, TaskStatus, UpdateTaskParams};
use serde_json::json;

use crate::client::{Tasks, connect, create, finish, forgotten, get, poll};

async fn run(tool: &'static str, arguments: serde_json::Value) -> TaskPayload {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let created = create(&client, tool, arguments).await;
    finish(&client, &created.task.task_id).await
}

#[tokio::test]
async fn work_completes_with_its_text_as_content_and_as_structure() {
    let TaskPayload::Completed { result } = run("work", json!({ "seconds": 0.01, "text": "hi" })).await
    else {
        panic!("not completed")
    };
    assert_eq!(result["content"][0]["text"], "hi");
    assert_eq!(result["structuredContent"], json!({ "text": "hi" }));
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn fail_ends_failed_with_a_json_rpc_error() {
    let TaskPayload::Failed { error } = run("fail", json!({ "seconds": 0 })).await else {
        panic!("not failed")
    };
    assert_eq!(error["code"], REJECTED);
}

#[tokio::test]
async fn tool_error_completes_and_says_is_error() {
    let TaskPayload::Completed { result } = run("tool_error", json!({ "seconds": 0 })).await else {
        panic!("not completed")
    };
    assert_eq!(result["isError"], true);
}

#[tokio::test]
async fn cancelled_ends_cancelled_without_being_asked() {
    assert_eq!(run("cancelled", json!({ "seconds": 0 })).await, TaskPayload::Cancelled);
}

#[tokio::test]
async fn a_task_tells_its_poll_interval_and_ttl() {
    let server = Server::start(Options {
        poll_interval: std::time::Duration::from_millis(70),
        default_ttl: None,
        ..Options::default()
    })
    .await
    .unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let created = create(&client, "work", json!({})).await;
    assert_eq!((created.task.poll_interval_ms, created.task.ttl_ms), (Some(70), None));
}

#[tokio::test]
async fn ask_waits_for_every_answer_and_echoes_them() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let id = create(&client, "ask", json!({ "question": "Who?", "questions": 2 })).await.task.task_id;
    for (key, outstanding) in [("question-1", 2), ("question-2", 1)] {
        let asking = poll(&client, &id, |task| task.status() == TaskStatus::InputRequired).await;
        let TaskPayload::InputRequired { input_requests } = asking.payload else { panic!("no requests") };
        assert_eq!(input_requests.len(), outstanding);
        assert!(input_requests.contains_key(key));
        let answer = json!({ "action": "accept", "content": { "answer": format!("me, {key}") } });
        client
            .peer()
            .update_task(UpdateTaskParams::new(&*id, [(key.to_owned(), answer)].into()))
            .await
            .unwrap();
    }
    let TaskPayload::Completed { result } = finish(&client, &id).await else { panic!("not completed") };
    assert_eq!(result["content"][1]["text"], "me, question-2");
    assert_eq!(result["structuredContent"]["answers"]["question-1"]["action"], "accept");
    assert_eq!(server.ledger().updates(&id), 2);
}

#[tokio::test]
async fn a_cancel_stops_everything_but_stubborn() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    for tool in ["work", "fail", "tool_error", "ask", "cancelled", "vanish", "short_ttl", "progress"] {
        let arguments = match tool {
            "ask" => json!({}),
            _ => json!({ "seconds": 600, "ttl_ms": 600_000 }),
        };
        let id = create(&client, tool, arguments).await.task.task_id;
        client.peer().cancel_task(CancelTaskParams::new(&*id)).await.unwrap();
        assert_eq!(finish(&client, &id).await, TaskPayload::Cancelled, "{tool}");
        assert_eq!(server.ledger().cancels(&id), 1);
    }
    let id = create(&client, "stubborn", json!({ "seconds": 0.1 })).await.task.task_id;
    client.peer().cancel_task(CancelTaskParams::new(&*id)).await.unwrap();
    assert!(matches!(finish(&client, &id).await, TaskPayload::Completed { .. }));
}

#[tokio::test]
async fn vanish_is_forgotten_before_its_ttl_by_get_update_and_cancel() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let created = create(&client, "vanish", json!({ "seconds": 0.1 })).await;
    assert_eq!(created.task.ttl_ms, Some(300_000));
    let id = created.task.task_id;
    assert_eq!(forgotten(&client, &id).await, -32602);
    let refused = client.peer().cancel_task(CancelTaskParams::new(&*id)).await.unwrap_err();
    assert_eq!(crate::client::code(&refused), -32602);
    let refused =
        client.peer().update_task(UpdateTaskParams::new(&*id, Default::default())).await.unwrap_err();
    assert_eq!(crate::client::code(&refused), -32602);
}

#[tokio::test]
async fn short_ttl_is_forgotten_once_its_ttl_has_passed() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let created = create(&client, "short_ttl", json!({ "ttl_ms": 100 })).await;
    assert_eq!(created.task.ttl_ms, Some(100));
    assert_eq!(forgotten(&client, &created.task.task_id).await, -32602);
}

#[tokio::test]
async fn progress_shows_a_message_per_step() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let id = create(&client, "progress", json!({ "steps": 2, "seconds": 0.4 })).await.task.task_id;
    for step in ["step 1 of 2", "step 2 of 2"] {
        poll(&client, &id, |task| task.task.status_message.as_deref() == Some(step)).await;
    }
    assert!(matches!(finish(&client, &id).await, TaskPayload::Completed { .. }));
}

#[tokio::test]
async fn born_done_is_completed_in_the_answer_to_the_call() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = connect(&server.url(), Tasks::Declared).await;
    let created = create(&client, "born_done", json!({ "text": "at once" })).await;
    assert_eq!(created.task.status, TaskStatus::Completed);
    let TaskPayload::Completed { result } = get(&client, &created.task.task_id).await.unwrap().payload else {
        panic!("not completed")
    };
    assert_eq!(result["content"][0]["text"], "at once");
}
