//! Reading results that the SDK returned, the one place where a raw value is looked into
//! (docs/adr/0001).
//!
//! The SDK's union of results drops a whole reply over one field that is not as its types want it:
//! a float where an integer belongs, a missing timestamp, an unknown kind of question. What it
//! cannot type it still hands back as a value, and a typed result turns into one; so everything is
//! read here in the same way: what matters is required, what does not is optional, and what makes
//! no sense is malformed.

use std::time::Duration;

use david_reconciler::{
    CallReply, InputKey, PollReply, Refusal, RemoteError, RemoteState, RemoteStatus, RemoteTaskId,
    RequestState, ToolName, ToolResult, Verdict,
};
use rmcp::model::ServerResult;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// What a `tools/call` brought.
pub(super) fn call_reply(result: ServerResult) -> CallReply {
    let malformed = |detail: &str| CallReply::Malformed { detail: detail.to_owned() };
    let Some(reply) = object_of(result) else {
        return malformed("the result is not an object.");
    };
    match reply.get("resultType").filter(|word| !word.is_null()).map(Value::as_str) {
        // Absent means complete (PROTOCOL 3). A reply without any content is an empty success: the
        // server said that it is complete.
        None | Some(Some("complete")) => match tool_result(&reply) {
            Ok(result) => CallReply::Result(result),
            Err(detail) => malformed(detail),
        },
        Some(Some("task")) => task_handle(&reply),
        Some(Some("input_required")) => match (input_requests(&reply), request_state(&reply)) {
            // State alone asks nothing, but to be called again with it (SEP-2322).
            (None, None) => malformed("it asks for input without saying what."),
            (requests, request_state) => {
                CallReply::InputRequired { requests: requests.unwrap_or_default(), request_state }
            }
        },
        Some(Some(_) | None) => malformed("its resultType is unknown."),
    }
}

/// One page of `tools/list`.
pub(super) struct ToolPage {
    pub(super) tools: Vec<ToolName>,
    pub(super) next_cursor: Option<String>,
}

/// What a `tools/list` brought; none if it is no list.
pub(super) fn tool_page(result: ServerResult) -> Option<ToolPage> {
    let page = object_of(result)?;
    let tools = page.get("tools")?.as_array()?;
    let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
    let next_cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    Some(ToolPage { tools: names.map(ToolName::new).collect(), next_cursor })
}

/// What a `tasks/get` for `asked` brought.
pub(super) fn poll_reply(asked: &RemoteTaskId, result: ServerResult) -> PollReply {
    read_poll(asked, result)
        .unwrap_or_else(|detail| PollReply::Refused(Refusal::Malformed { detail: detail.to_owned() }))
}

fn read_poll(asked: &RemoteTaskId, result: ServerResult) -> Result<PollReply, &'static str> {
    // The SDK takes a reply marked as a task handle for one, and forgets its result and error.
    let lossy = matches!(result, ServerResult::CreateTaskResult(_));
    let reply = object_of(result).ok_or("The result is not an object.")?;
    // The SDK does not compare, and the wrong task's result would be worse than none.
    if reply.get("taskId").and_then(Value::as_str) != Some(asked.expose()) {
        return Err("The reply is about another task than was asked for.");
    }
    let status = reply.get("status").and_then(Value::as_str).and_then(RemoteStatus::parse);
    let state = remote_state(asked.clone(), &reply);
    Ok(match status.ok_or("The task's status is missing or unknown.")? {
        RemoteStatus::Working => PollReply::Working(state),
        RemoteStatus::Cancelled => PollReply::Cancelled(state),
        RemoteStatus::InputRequired | RemoteStatus::Completed | RemoteStatus::Failed if lossy => {
            return Err("The reply is marked as a new task, and what it brings is lost.");
        }
        RemoteStatus::InputRequired => {
            let requests = input_requests(&reply).ok_or("The task asks for input without saying what.")?;
            PollReply::InputRequired { state, requests }
        }
        RemoteStatus::Completed => {
            let result = reply.get("result").and_then(Value::as_object);
            PollReply::Completed {
                state,
                result: tool_result(result.ok_or("The task is completed without a result.")?)?,
            }
        }
        RemoteStatus::Failed => {
            let error = reply.get("error").and_then(Value::as_object);
            PollReply::Failed {
                state,
                error: remote_error(error.ok_or("The task failed without an error.")?),
            }
        }
    })
}

/// A handle is worth a task that may be running: its id is rescued whatever else is wrong. A status
/// we do not know is one to ask about.
fn task_handle(reply: &Object) -> CallReply {
    let id = reply.get("taskId").and_then(Value::as_str).unwrap_or_default();
    match RemoteTaskId::parse(id) {
        Ok(id) => CallReply::Task {
            status: reply
                .get("status")
                .and_then(Value::as_str)
                .and_then(RemoteStatus::parse)
                .unwrap_or(RemoteStatus::Working),
            state: remote_state(id, reply),
        },
        Err(error) => CallReply::Malformed { detail: format!("{error}.") },
    }
}

fn remote_state(id: RemoteTaskId, reply: &Object) -> RemoteState {
    RemoteState {
        id,
        ttl: reply.get("ttlMs").and_then(milliseconds),
        poll_interval: reply.get("pollIntervalMs").and_then(milliseconds),
        message: reply.get("statusMessage").and_then(Value::as_str).map(str::to_owned),
        took: Duration::ZERO,
    }
}

/// Any number that can be one of milliseconds; one real server sends `500.0`. A negative one says
/// nothing, and one beyond counting is the longest there is.
fn milliseconds(value: &Value) -> Option<Duration> {
    match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => Some(Duration::from_millis(whole)),
        (None, Some(float)) if float >= 0.0 => {
            Some(Duration::try_from_secs_f64(float / 1000.0).unwrap_or(Duration::MAX))
        }
        (None, _) => None,
    }
}

/// Content that is no list is not content; none at all is an empty success.
fn tool_result(result: &Object) -> Result<ToolResult, &'static str> {
    let content = match result.get("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(_) => return Err("the result's content is not a list."),
    };
    Ok(ToolResult {
        content,
        structured_content: result.get("structuredContent").cloned(),
        verdict: match result.get("isError") {
            Some(Value::Bool(true)) => Verdict::Error,
            Some(_) | None => Verdict::Success,
        },
    })
}

fn remote_error(error: &Object) -> RemoteError {
    RemoteError {
        code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
        message: error.get("message").and_then(Value::as_str).unwrap_or("no message").to_owned(),
        data: error.get("data").cloned(),
    }
}

fn input_requests(reply: &Object) -> Option<Vec<(InputKey, Value)>> {
    let requests = reply.get("inputRequests")?.as_object()?;
    Some(requests.iter().map(|(key, request)| (InputKey::new(key), request.clone())).collect())
}

fn request_state(reply: &Object) -> Option<RequestState> {
    reply.get("requestState").and_then(Value::as_str).map(RequestState::new)
}

/// Typed or not, a result is a value again.
fn object_of(result: ServerResult) -> Option<Object> {
    let value = match result {
        ServerResult::CustomResult(custom) => custom.0,
        typed => serde_json::to_value(typed).ok()?,
    };
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::CustomResult;
    use serde_json::json;

    /// As the SDK hands back what its types cannot read.
    fn untyped(value: Value) -> ServerResult {
        ServerResult::CustomResult(CustomResult(value))
    }

    /// As it hands back what they can.
    fn typed(value: Value) -> ServerResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn milliseconds_are_any_number_that_can_be_counted() {
        for (value, expected) in [
            (json!(0), Some(Duration::ZERO)),
            (json!(u64::MAX), Some(Duration::from_millis(u64::MAX))),
            (json!(500.0), Some(Duration::from_millis(500))),
            (json!(0.5), Some(Duration::from_micros(500))),
            (json!(1e300), Some(Duration::MAX)),
            (json!(-1), None),
            (json!(-0.1), None),
            (json!(i64::MIN), None),
            (json!("500"), None),
            (json!(null), None),
        ] {
            assert_eq!(milliseconds(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_result_reads_the_same_typed_and_untyped() {
        let result = json!({
            "resultType": "complete", "content": [{ "type": "text", "text": "\u{0}" }],
            "structuredContent": { "n": 9_007_199_254_740_993_u64 }, "isError": true,
        });
        let read = call_reply(untyped(result.clone()));
        assert_eq!(read, call_reply(typed(result)));
        let CallReply::Result(result) = read else { panic!("{read:?}") };
        assert_eq!(result.structured_content, Some(json!({ "n": 9_007_199_254_740_993_u64 })));
        assert_eq!(result.verdict, Verdict::Error);
    }

    #[test]
    fn only_true_makes_a_result_an_error() {
        for is_error in [json!(false), json!(null), json!("true"), json!(1)] {
            let object = json!({ "isError": is_error });
            assert_eq!(
                tool_result(object.as_object().unwrap()).unwrap().verdict,
                Verdict::Success,
                "{object}"
            );
        }
    }

    #[test]
    fn an_error_of_a_task_is_kept_whatever_it_lacks() {
        let error = |value: Value| remote_error(value.as_object().unwrap());
        assert_eq!(error(json!({})), RemoteError { code: 0, message: "no message".to_owned(), data: None });
        assert_eq!(error(json!({ "code": "x", "message": 7, "data": null })).data, Some(Value::Null));
    }

    #[test]
    fn a_tool_list_is_read_as_far_as_it_has_names() {
        let page =
            tool_page(untyped(json!({ "tools": [{ "name": "a" }, {}, 7], "nextCursor": "on" }))).unwrap();
        assert_eq!((page.tools, page.next_cursor), (vec![ToolName::new("a")], Some("on".to_owned())));
        assert!(tool_page(untyped(json!({ "tools": {} }))).is_none());
        assert!(tool_page(untyped(json!([]))).is_none());
    }
}
