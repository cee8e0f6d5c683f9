//! What a `tools/call` can bring. A handle is worth a task that may be running, so its id is rescued
//! whatever else is wrong.

use std::time::Duration;

use david_reconciler::{CallReply, InputKey, PollReply, RemoteState, RequestState};
use david_testkit::{RawServer, Reply};
use serde_json::{Value, json};

use crate::support::{Caller, word_of_call};

async fn called(result: Value) -> CallReply {
    let server = RawServer::start().await.unwrap();
    server.on("tools/call", Reply::Result(result));
    let reply = Caller::of(&server).call().await;
    assert_eq!(server.requests_of("tools/call").len(), 1);
    reply
}

/// A handle as it should be, but for `changes`; null takes a field away.
fn handle(changes: Value) -> Value {
    let mut handle = json!({
        "resultType": "task", "taskId": "t-1", "status": "working", "ttlMs": 60_000, "pollIntervalMs": 500,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(handle.as_object_mut().unwrap().remove(name)),
            value => handle[name] = value.clone(),
        }
    }
    handle
}

async fn state(changes: Value) -> RemoteState {
    match called(handle(changes.clone())).await {
        CallReply::Task { state, .. } if state.id.expose() == "t-1" => state,
        other => panic!("with {changes} the id is lost: {other:?}"),
    }
}

#[tokio::test]
async fn the_id_is_rescued_whatever_else_is_wrong_with_the_handle() {
    for changes in [
        json!({}),
        json!({ "pollIntervalMs": 500.0 }),
        json!({ "pollIntervalMs": "often" }),
        json!({ "createdAt": null, "lastUpdatedAt": null }),
        json!({ "createdAt": 7, "lastUpdatedAt": "yesterday" }),
        json!({ "status": "submitted" }),
        json!({ "status": null }),
        json!({ "status": 3 }),
        json!({ "ttlMs": "long" }),
        json!({ "statusMessage": { "text": "hello" } }),
        json!({ "surplus": { "nested": [1, 2, 3] } }),
    ] {
        state(changes).await;
    }
}

#[tokio::test]
async fn the_poll_interval_is_kept_also_as_a_float() {
    let interval = async |value: Value| state(json!({ "pollIntervalMs": value })).await.poll_interval;
    assert_eq!(interval(json!(500)).await, Some(Duration::from_millis(500)));
    assert_eq!(interval(json!(500.0)).await, Some(Duration::from_millis(500)));
    assert_eq!(interval(json!(u64::MAX)).await, Some(Duration::from_millis(u64::MAX)));
    assert_eq!(interval(json!(-5)).await, None);
    assert_eq!(interval(json!("often")).await, None);
}

#[tokio::test]
async fn a_ttl_is_any_number_of_milliseconds_and_none_means_unlimited() {
    let ttl = async |value: Value| {
        let mut handle = handle(json!({}));
        handle["ttlMs"] = value;
        match called(handle).await {
            CallReply::Task { state, .. } => state.ttl,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ttl(json!(0)).await, Some(Duration::ZERO));
    assert_eq!(ttl(json!(60_000)).await, Some(Duration::from_secs(60)));
    assert_eq!(ttl(json!(60_000.5)).await, Some(Duration::from_secs_f64(60.000_5)));
    assert_eq!(ttl(json!(u64::MAX)).await, Some(Duration::from_millis(u64::MAX)));
    assert_eq!(ttl(Value::Null).await, None);
    assert_eq!(state(json!({ "ttlMs": null })).await.ttl, None, "a missing one reads as null");
}

/// A server's nonsense must not make its task look expired.
#[tokio::test]
async fn a_ttl_that_makes_no_sense_says_nothing_and_one_beyond_counting_is_the_longest() {
    for value in [json!(-1), json!(-0.5), json!(i64::MIN), json!("long"), json!([60])] {
        let ttl = state(json!({ "ttlMs": value.clone() })).await.ttl;
        assert_eq!(ttl, None, "ttlMs {value}");
    }
    assert_eq!(state(json!({ "ttlMs": 1e300 })).await.ttl, Some(Duration::MAX));
}

#[tokio::test]
async fn a_task_may_start_in_any_status() {
    for status in ["working", "input_required", "completed", "failed", "cancelled"] {
        let reply = called(handle(json!({ "status": status }))).await;
        let expected = if status == "working" { "task".to_owned() } else { format!("task {status}") };
        assert_eq!(word_of_call(&reply), expected);
    }
}

#[tokio::test]
async fn a_result_type_that_is_absent_means_complete_and_an_unknown_one_is_malformed() {
    for (result, expected) in [
        (json!({ "content": [] }), "result"),
        (json!({ "resultType": "complete", "content": [] }), "result"),
        // SDK-AUDIT 13: the server said that it is complete.
        (json!({ "resultType": "complete" }), "result"),
        (json!({ "content": [], "isError": true }), "result with isError"),
        (json!({ "resultType": "surprise", "content": [] }), "malformed"),
        (json!({ "content": "no list" }), "malformed"),
        (json!({ "content": { "type": "text" } }), "malformed"),
        (json!({ "resultType": 1, "content": [] }), "malformed"),
        // The SDK's types cannot tell it from an absent one.
        (json!({ "resultType": null, "content": [] }), "result"),
    ] {
        let reply = called(result.clone()).await;
        assert_eq!(word_of_call(&reply), expected, "{result}: {reply:?}");
    }
}

#[tokio::test]
async fn a_result_is_passed_on_as_it_came() {
    let content = json!([{ "type": "text", "text": "21 °C" }, { "type": "hologram", "beam": [1, 2] }]);
    let structured = json!({ "celsius": 21.0, "none": null });
    let result = json!({ "content": content, "structuredContent": structured });
    let CallReply::Result(result) = called(result).await else { panic!("not a result") };
    assert_eq!(Value::from(result.content), content);
    assert_eq!(result.structured_content, Some(structured));
}

/// The SDK's own types drop what they do not know, before we see it; rule 15 is about what it returns.
/// A task's result it hands on as it came.
#[tokio::test]
async fn a_surplus_field_of_a_known_block_is_kept_in_a_tasks_result_only() {
    let content = json!([{ "type": "text", "text": "21 °C", "surplus": 1 }]);
    let CallReply::Result(at_once) = called(json!({ "content": content })).await else { panic!("no result") };
    assert_eq!(Value::from(at_once.content), json!([{ "type": "text", "text": "21 °C" }]));

    let server = RawServer::start().await.unwrap();
    let mut task = handle(json!({ "resultType": "complete", "status": "completed" }));
    task["taskId"] = json!(RawServer::TASK_ID);
    task["result"] = json!({ "content": content });
    server.on("tasks/get", Reply::Result(task));
    let PollReply::Completed { result, .. } = Caller::of(&server).poll().await else { panic!("no result") };
    assert_eq!(Value::from(result.content), content);
}

#[tokio::test]
async fn a_question_before_the_call_brings_its_state_byte_for_byte() {
    let state = "eyJ\u{e9}\"\\ \u{2713}\n==";
    let question = json!({ "method": "elicitation/create", "params": { "message": "Where?", "extra": 1 } });
    let unknown = json!({ "method": "telepathy/create", "params": {} });
    let asked = json!({
        "resultType": "input_required", "requestState": state,
        "inputRequests": { "city": question, "mind": unknown },
    });
    let CallReply::InputRequired { requests, request_state } = called(asked).await else {
        panic!("no question")
    };
    assert_eq!(requests, [(InputKey::new("city"), question), (InputKey::new("mind"), unknown)]);
    assert_eq!(request_state, Some(RequestState::new(state)));
}

#[tokio::test]
async fn a_question_needs_requests_or_state() {
    let state_only = called(json!({ "resultType": "input_required", "requestState": "s" })).await;
    assert_eq!(word_of_call(&state_only), "input_required");
    assert_eq!(word_of_call(&called(json!({ "resultType": "input_required" })).await), "malformed");
}
