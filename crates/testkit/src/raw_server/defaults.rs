//! What a correct server answers; the starting point from which tests deviate.

use serde_json::{Value, json};

use super::RawServer;
use super::reply::Reply;
use super::traffic::Recorded;

pub(super) fn reply(request: &Recorded) -> Reply {
    match request.method.as_str() {
        // Streams that outlive a request, and sessions, are not offered.
        "GET" | "DELETE" => Reply::status(405),
        method if method.starts_with("notifications/") => Reply::Accepted202,
        _ => match result(request) {
            Value::Null => Reply::error(-32601, "Method not found"),
            result => Reply::Result(result),
        },
    }
}

/// The result of a method, null for unknown ones.
pub(super) fn result(request: &Recorded) -> Value {
    let capabilities = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let server_info = json!({ "name": "raw", "version": "1" });
    match request.method.as_str() {
        "server/discover" => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "_meta": { "io.modelcontextprotocol/serverInfo": server_info },
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "initialize" => json!({
            "protocolVersion": request.params["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": server_info,
        }),
        "tools/list" => json!({
            "resultType": "complete",
            "tools": [{ "name": "work", "inputSchema": { "type": "object" } }],
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "tools/call" => task(RawServer::TASK_ID, "task"),
        "tasks/get" => task(request.params["taskId"].as_str().unwrap_or_default(), "complete"),
        "tasks/update" | "tasks/cancel" => json!({ "resultType": "complete" }),
        _ => Value::Null,
    }
}

fn task(id: &str, result_type: &str) -> Value {
    json!({
        "resultType": result_type,
        "taskId": id,
        "status": "working",
        "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z",
        "ttlMs": 300_000,
        "pollIntervalMs": 20,
    })
}
