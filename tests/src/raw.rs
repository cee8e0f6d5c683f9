//! Replies of a raw server, a little more readable than JSON.

use david_testkit::{RawServer, Reply};
use serde_json::{Value, json};

/// An ordinary tool result.
pub fn result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": false })
}

/// A task handle for a task that works.
pub fn handle(id: &str) -> Value {
    let mut task = task(id, "working");
    task["resultType"] = json!("task");
    task
}

/// `tasks/get` of [`RawServer::TASK_ID`]: it works.
pub fn working() -> Reply {
    Reply::Result(task(RawServer::TASK_ID, "working"))
}

/// `tasks/get` of [`RawServer::TASK_ID`]: it is completed with this result.
pub fn completed(result: &Value) -> Reply {
    let mut task = task(RawServer::TASK_ID, "completed");
    task["result"] = result.clone();
    Reply::Result(task)
}

/// `tasks/get` of [`RawServer::TASK_ID`]: it asks one question by this key.
pub fn asks(key: &str, question: &str) -> Reply {
    let mut task = task(RawServer::TASK_ID, "input_required");
    task["inputRequests"] = json!({ key: form(question) });
    Reply::Result(task)
}

/// A question with one field, `answer`.
pub fn form(question: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": question,
            "requestedSchema": {
                "type": "object",
                "properties": { "answer": { "type": "string" } },
                "required": ["answer"],
            },
        },
    })
}

/// A task in this status, as `tasks/get` shows it.
pub fn task(id: &str, status: &str) -> Value {
    json!({
        "resultType": "complete",
        "taskId": id,
        "status": status,
        "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z",
        "ttlMs": 300_000,
        "pollIntervalMs": 20,
    })
}
