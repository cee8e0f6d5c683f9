//! The adapter with a well-behaved server of the SDK's own making.

use std::time::Duration;

use david_reconciler::{Ack, Answer, CallReply, PollReply, RemoteStatus, RemoteTaskId, Verdict};
use david_sample::{Options, Server};
use david_tasks::remote::{Limits, ToolRequest};
use david_testkit::eventually;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Caller, SOON, request, word_of_call, word_of_poll};

struct Sample {
    server: Server,
    caller: Caller,
}

impl Sample {
    async fn start() -> Self {
        let server = Server::start(Options::default()).await.unwrap();
        let caller = Caller::new(&server.url(), Limits::default());
        Self { server, caller }
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallReply {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.send(ToolRequest { arguments, ..request(tool) }).await
    }

    async fn send(&self, request: ToolRequest) -> CallReply {
        self.caller.clients.call_tool(&self.caller.target, request, Instant::now() + SOON).await
    }

    async fn create(&self, tool: &str, arguments: Value) -> RemoteTaskId {
        match self.call(tool, arguments).await {
            CallReply::Task { state, .. } => state.id,
            other => panic!("{tool} makes no task: {other:?}"),
        }
    }

    async fn until(&self, id: &RemoteTaskId, word: &str) -> PollReply {
        eventually(SOON, &format!("the task is {word}"), async || {
            let reply = self.caller.poll_id(id.expose()).await;
            if word_of_poll(&reply) == word { Ok(reply) } else { Err(format!("{reply:?}")) }
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn a_task_is_made_polled_and_brings_its_result() {
    let sample = Sample::start().await;
    let id = sample.create("work", json!({ "seconds": 0.1, "text": "21 °C" })).await;
    let PollReply::Completed { result, .. } = sample.until(&id, "completed").await else { unreachable!() };
    assert_eq!(result.structured_content, Some(json!({ "text": "21 °C" })));
    sample.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn each_end_of_a_task_is_told_apart() {
    let sample = Sample::start().await;
    for (tool, word) in [
        ("tool_error", "completed with isError"),
        ("fail", "failed"),
        ("cancelled", "cancelled"),
        ("vanish", "gone"),
    ] {
        let id = sample.create(tool, json!({ "seconds": 0.05 })).await;
        sample.until(&id, word).await;
    }
}

#[tokio::test]
async fn a_task_may_be_over_before_it_is_known() {
    let sample = Sample::start().await;
    let reply = sample.call("born_done", json!({})).await;
    assert_eq!(word_of_call(&reply), format!("task {}", RemoteStatus::Completed.as_str()));
}

#[tokio::test]
async fn a_result_without_a_task_is_one() {
    let sample = Sample::start().await;
    let CallReply::Result(result) = sample.call("sync", json!({ "text": "now" })).await else { panic!() };
    assert_eq!((result.verdict, result.content.len()), (Verdict::Success, 1));
    assert_eq!(word_of_call(&sample.call("sync_error", json!({})).await), "result with isError");
    assert_eq!(word_of_call(&sample.call("reject", json!({})).await), "rejected -32050");
    assert_eq!(word_of_call(&sample.call("no_such_tool", json!({})).await), "rejected -32602");
}

#[tokio::test]
async fn a_task_that_asks_goes_on_with_the_answer() {
    let sample = Sample::start().await;
    let id = sample.create("ask", json!({ "question": "Where?" })).await;
    let PollReply::InputRequired { requests, .. } = sample.until(&id, "input_required").await else {
        unreachable!()
    };
    let response = json!({ "action": "accept", "content": { "answer": "here" } });
    let answer = Answer { key: requests[0].0.clone(), response };
    let caller = &sample.caller;
    let ack = caller.clients.update_task(&caller.target, &id, &[answer], Instant::now() + SOON).await;
    assert_eq!(ack, Ack::Acknowledged);
    let PollReply::Completed { result, .. } = sample.until(&id, "completed").await else { unreachable!() };
    assert_eq!(result.content[0]["text"], "here");
}

#[tokio::test]
async fn a_call_that_asks_is_made_again_with_its_state() {
    let sample = Sample::start().await;
    let CallReply::InputRequired { requests, request_state } = sample.call("ask_first", json!({})).await
    else {
        panic!("no question")
    };
    let response = json!({ "action": "accept", "content": { "answer": "because" } });
    let input_responses = vec![Answer { key: requests[0].0.clone(), response }];
    let again = ToolRequest { request_state, input_responses, ..request("ask_first") };
    let CallReply::Result(result) = sample.send(again).await else { panic!("no result") };
    assert_eq!(result.content[0]["text"], "because");
}

#[tokio::test]
async fn a_cancel_is_acknowledged_as_often_as_it_is_sent() {
    let sample = Sample::start().await;
    let id = sample.create("work", json!({ "seconds": 600 })).await;
    let caller = &sample.caller;
    for _ in 0..2 {
        let ack = caller.clients.cancel_task(&caller.target, &id, Instant::now() + SOON).await;
        assert_eq!(ack, Ack::Acknowledged);
    }
    sample.until(&id, "cancelled").await;
    let ack = caller.clients.cancel_task(&caller.target, &id, Instant::now() + SOON).await;
    assert_eq!(ack, Ack::Acknowledged, "of a task that has ended");
}

#[tokio::test]
async fn a_slow_tool_is_given_up_at_the_deadline_and_called_once() {
    let sample = Sample::start().await;
    let slow = json!({ "seconds": 600, "key": "slow" });
    let Value::Object(arguments) = slow else { unreachable!() };
    let request = ToolRequest { arguments, ..request("sync") };
    let deadline = Instant::now() + Duration::from_millis(300);
    let reply = sample.caller.clients.call_tool(&sample.caller.target, request, deadline).await;
    assert_eq!(word_of_call(&reply), "timeout");
}
