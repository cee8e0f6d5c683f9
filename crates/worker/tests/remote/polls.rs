//! What a `tasks/get` can bring. Nothing that might have been a result may pass for "working".

use david_reconciler::{InputKey, PollReply};
use david_testkit::{RawServer, Reply};
use serde_json::{Value, json};

use crate::support::{Caller, word_of_poll};

async fn polled(result: Value) -> PollReply {
    let server = RawServer::start().await.unwrap();
    server.on("tasks/get", Reply::Result(result));
    Caller::of(&server).poll().await
}

/// The task as it should be, with `changes`; null takes a field away.
fn task(changes: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": RawServer::TASK_ID, "status": "working", "ttlMs": 60_000,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(task.as_object_mut().unwrap().remove(name)),
            value => task[name] = value.clone(),
        }
    }
    task
}

async fn check(rows: &[(Value, &str)]) {
    for (changes, expected) in rows {
        let reply = polled(task(changes.clone())).await;
        assert_eq!(word_of_poll(&reply), *expected, "{changes}: {reply:?}");
    }
}

#[tokio::test]
async fn each_status_brings_what_belongs_to_it() {
    let error = json!({ "code": -32603, "message": "no" });
    let question = json!({ "q": { "method": "elicitation/create", "params": { "message": "Why?" } } });
    check(&[
        (json!({ "status": "working" }), "working"),
        (json!({ "status": "input_required", "inputRequests": question }), "input_required"),
        (json!({ "status": "completed", "result": { "content": [] } }), "completed"),
        (
            json!({ "status": "completed", "result": { "content": [], "isError": true } }),
            "completed with isError",
        ),
        (json!({ "status": "failed", "error": error }), "failed"),
        (json!({ "status": "cancelled" }), "cancelled"),
    ])
    .await;
}

#[tokio::test]
async fn a_status_without_what_belongs_to_it_or_an_unknown_one_is_malformed() {
    check(&[
        (json!({ "status": "completed" }), "malformed"),
        (json!({ "status": "completed", "result": "text" }), "malformed"),
        (json!({ "status": "failed" }), "malformed"),
        (json!({ "status": "failed", "error": "text" }), "malformed"),
        (json!({ "status": "input_required" }), "malformed"),
        (json!({ "status": "input_required", "inputRequests": [] }), "malformed"),
        (json!({ "status": "paused" }), "malformed"),
        (json!({ "status": null }), "malformed"),
        (json!({ "status": 1 }), "malformed"),
        (json!({ "status": "Completed", "result": {} }), "malformed"),
    ])
    .await;
}

#[tokio::test]
async fn another_tasks_news_is_malformed() {
    let result = json!({ "content": [] });
    check(&[
        (json!({ "taskId": "another", "status": "completed", "result": result }), "malformed"),
        (json!({ "taskId": "RAW-TASK-1" }), "malformed"),
        (json!({ "taskId": null }), "malformed"),
        (json!({ "taskId": 1 }), "malformed"),
    ])
    .await;
}

/// SDK-AUDIT 6: the extension's own examples mark polls so, and the SDK then drops what they bring.
#[tokio::test]
async fn a_poll_that_is_marked_as_a_new_task_never_hides_a_result() {
    let marked = |mut changes: Value| {
        changes["resultType"] = json!("task");
        changes
    };
    check(&[
        (marked(json!({})), "working"),
        (marked(json!({ "status": "cancelled" })), "cancelled"),
        (marked(json!({ "status": "completed", "result": { "content": [] } })), "malformed"),
        (marked(json!({ "status": "failed", "error": { "code": 1, "message": "no" } })), "malformed"),
        (marked(json!({ "status": "input_required", "inputRequests": {} })), "malformed"),
    ])
    .await;
}

#[tokio::test]
async fn what_does_not_matter_may_be_wrong() {
    let result = json!({ "content": [{ "type": "text", "text": "done" }] });
    for changes in [
        json!({ "createdAt": null, "lastUpdatedAt": null }),
        json!({ "createdAt": 7 }),
        json!({ "ttlMs": null }),
        json!({ "ttlMs": -1 }),
        json!({ "ttlMs": 1.5 }),
        json!({ "pollIntervalMs": 500.0 }),
        json!({ "pollIntervalMs": {} }),
        json!({ "statusMessage": 3 }),
        json!({ "resultType": null }),
    ] {
        let mut completed = changes.clone();
        completed["status"] = json!("completed");
        completed["result"] = result.clone();
        let PollReply::Completed { result: brought, .. } = polled(task(completed)).await else {
            panic!("{changes} loses the result")
        };
        assert_eq!(json!(brought.content), result["content"]);
    }
}

/// SDK-AUDIT 7: one of them makes the whole poll untyped, every time.
#[tokio::test]
async fn an_unknown_kind_of_question_is_passed_on_as_data() {
    let nested = json!({ "method": "elicitation/create", "params": {
        "mode": "form", "message": "Where?",
        "requestedSchema": { "type": "object", "properties": { "at": { "type": "object", "properties": {} } } },
    } });
    let unknown = json!({ "method": "telepathy/create", "params": [1, 2] });
    let asking = json!({ "status": "input_required", "inputRequests": { "a": nested, "b": unknown } });
    let PollReply::InputRequired { requests, .. } = polled(task(asking)).await else { panic!("no question") };
    assert_eq!(requests, [(InputKey::new("a"), nested), (InputKey::new("b"), unknown)]);
}

#[tokio::test]
async fn a_status_message_and_an_error_are_passed_on() {
    let PollReply::Working(state) = polled(task(json!({ "statusMessage": "step 1\u{0} of 2" }))).await else {
        panic!("not working")
    };
    assert_eq!(state.message.as_deref(), Some("step 1\u{0} of 2"));
    let error = json!({ "code": -32050, "message": "no", "data": [1] });
    let failed = task(json!({ "status": "failed", "error": error }));
    let PollReply::Failed { error, .. } = polled(failed).await else { panic!("not failed") };
    assert_eq!((error.code, error.message.as_str(), error.data), (-32050, "no", Some(json!([1]))));
}
