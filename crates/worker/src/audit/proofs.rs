//! One proof per gate.

use std::time::Duration;

use david_reconciler::{Ack, CallReply, PollReply, RemoteStatus, RemoteTaskId, ToolResult, Verdict};
use serde_json::json;
use tokio::time::Instant;

use super::gate::{Doubt, Proof};
use super::probe::{ANSWER, Probe, answers, request};
use super::seen;
use crate::remote::{TasksExtension, ToolRequest};

fn disproved<T>(text: impl Into<String>) -> Result<T, Doubt> {
    Err(Doubt::Disproved(text.into()))
}

/// Create, get, update and cancel all go through the SDK's own requests.
pub(super) async fn extension(probe: &Probe) -> Proof {
    let version = &probe.facts.protocol_version;
    if probe.facts.tasks == TasksExtension::NotDeclared {
        return disproved(format!("The server (protocol {version}) does not declare the Tasks extension."));
    }
    let created = probe.create("work", json!({ "seconds": 600 })).await?;
    let polled = probe.poll(&created.id).await;
    if seen::status(&polled) != Some(RemoteStatus::Working) {
        return disproved(format!("tasks/get of a task just created: {}", seen::poll(&polled)));
    }
    let cancelled = probe.cancel(&created.id).await;
    let asking = probe.create("ask", json!({ "question": "Audited?" })).await?;
    let updated = answer(probe, &asking.id).await?;
    match (&cancelled, &updated) {
        (Ack::Acknowledged, Ack::Acknowledged) => Ok(format!(
            "tools/call made tasks; tasks/get, tasks/update and tasks/cancel were answered (protocol {version})."
        )),
        _ => disproved(format!(
            "tasks/cancel: {} tasks/update: {}",
            seen::ack(&cancelled),
            seen::ack(&updated)
        )),
    }
}

/// An id is the task's own, and outlives the connection it came by.
pub(super) async fn task_ids(probe: &Probe) -> Proof {
    let first = probe.create("work", json!({ "seconds": 0.2 })).await?;
    let second = probe.create("work", json!({ "seconds": 0.2 })).await?;
    if first.id == second.id {
        return disproved("Two tasks have the same id.");
    }
    match probe.stranger()?.until_terminal(&first.id).await? {
        PollReply::Completed { .. } => Ok(
            "Two tasks had two ids; one created over one connection was read over another. The reply named the id that was asked for."
                .to_owned(),
        ),
        other => disproved(format!("Over another connection {}", seen::poll(&other))),
    }
}

/// Each of the five.
pub(super) async fn statuses(probe: &Probe) -> Proof {
    let mut words = Vec::new();
    for (tool, arguments, wanted) in [
        ("work", json!({ "seconds": 600 }), RemoteStatus::Working),
        ("ask", json!({ "question": "Audited?" }), RemoteStatus::InputRequired),
        ("work", json!({ "seconds": 0.1 }), RemoteStatus::Completed),
        ("fail", json!({ "seconds": 0.1 }), RemoteStatus::Failed),
        ("cancelled", json!({ "seconds": 0.1 }), RemoteStatus::Cancelled),
    ] {
        let created = probe.create(tool, arguments).await?;
        let reply = match wanted {
            RemoteStatus::Working => probe.poll(&created.id).await,
            RemoteStatus::InputRequired
            | RemoteStatus::Completed
            | RemoteStatus::Failed
            | RemoteStatus::Cancelled => probe.until_news(&created.id).await?,
        };
        if seen::status(&reply) != Some(wanted) {
            return disproved(format!("{tool} should be {}, but {}", wanted.as_str(), seen::poll(&reply)));
        }
        words.push(wanted.as_str());
        // What still runs is not left behind.
        probe.cancel(&created.id).await;
    }
    Ok(format!("Seen: {}.", words.join(", ")))
}

/// The result is inside `tasks/get`, and an error result is `completed`.
pub(super) async fn results(probe: &Probe) -> Proof {
    let good = probe.create("work", json!({ "seconds": 0.1, "text": ANSWER })).await?;
    let first = probe.until_terminal(&good.id).await?;
    match &first {
        PollReply::Completed { result, .. } if result.verdict == Verdict::Success && says_answer(result) => {}
        other => return disproved(format!("The text of a good result is not there; {}", seen::poll(other))),
    }
    if probe.poll(&good.id).await != first {
        return disproved("A result is not the same when it is read again.");
    }
    let bad = probe.create("tool_error", json!({ "seconds": 0.1 })).await?;
    match probe.until_terminal(&bad.id).await? {
        PollReply::Completed { result, .. } if result.verdict == Verdict::Error => {
            Ok("Results came inside tasks/get, twice the same; isError: true came as completed.".to_owned())
        }
        other => {
            disproved(format!("A tool's error is not a completed task with isError; {}", seen::poll(&other)))
        }
    }
}

/// An acknowledgement, repeatable, and the end later.
pub(super) async fn cancel(probe: &Probe) -> Proof {
    let created = probe.create("work", json!({ "seconds": 600 })).await?;
    for attempt in ["The first", "A repeated"] {
        let ack = probe.cancel(&created.id).await;
        if ack != Ack::Acknowledged {
            return disproved(format!("{attempt} tasks/cancel: {}", seen::ack(&ack)));
        }
    }
    match probe.until_terminal(&created.id).await? {
        PollReply::Cancelled(_) => {
            let late = probe.cancel(&created.id).await;
            Ok(format!(
                "A cancel was acknowledged, again when repeated, and the task ended as cancelled. A cancel after that: {}",
                seen::ack(&late)
            ))
        }
        other => disproved(format!("After a cancel {}", seen::poll(&other))),
    }
}

/// After its time to live a task may be forgotten, which is `-32602`; before, it may not.
pub(super) async fn ttl(probe: &Probe) -> Proof {
    let called = Instant::now();
    let created = probe.create("short_ttl", json!({ "ttl_ms": 1000 })).await?;
    let Some(ttl) = created.ttl else {
        return disproved("The server names no time to live.");
    };
    // The server may fail the task for one more time to live before it forgets it.
    let patience = ttl.saturating_mul(3).min(Duration::from_secs(10)) + Duration::from_secs(1);
    probe.until_gone(&created.id, called + patience).await?;
    let lived = called.elapsed();
    if lived < ttl {
        return disproved(format!("A task of {ttl:?} to live was forgotten after {lived:?}."));
    }
    Ok(format!(
        "A task of {ttl:?} to live was known until then and unknown (-32602) {lived:?} after its call."
    ))
}

/// `tasks/update` for a task, calling again with the state for a call.
pub(super) async fn input(probe: &Probe) -> Proof {
    let created = probe.create("ask", json!({ "question": "Audited?" })).await?;
    let ack = answer(probe, &created.id).await?;
    if ack != Ack::Acknowledged {
        return disproved(format!("tasks/update: {}", seen::ack(&ack)));
    }
    // A stale input_required is legal after the answer (PROTOCOL 10).
    match probe.until_terminal(&created.id).await? {
        PollReply::Completed { result, .. } if says_answer(&result) => {}
        other => return disproved(format!("The answer is not in the result; {}", seen::poll(&other))),
    }
    let first = request("ask_first", json!({ "question": "Audited?" }));
    let (requests, request_state) = match probe.call(first.clone()).await? {
        CallReply::InputRequired { requests, request_state } => (requests, request_state),
        other => return disproved(format!("ask_first should ask first, but {}", seen::call(&other))),
    };
    let again = ToolRequest { request_state, input_responses: answers(&requests), ..first };
    match probe.call(again).await? {
        CallReply::Result(result) if says_answer(&result) => Ok(
            "A task went on after tasks/update and brought the answer; so did a call that was made again with its requestState."
                .to_owned(),
        ),
        other => disproved(format!("A call made again with its answers: {}", seen::call(&other))),
    }
}

/// Answers what the task asks.
async fn answer(probe: &Probe, id: &RemoteTaskId) -> Result<Ack, Doubt> {
    match probe.until_news(id).await? {
        PollReply::InputRequired { requests, .. } if !requests.is_empty() => {
            Ok(probe.answer(id, &answers(&requests)).await)
        }
        other => {
            disproved(format!("A task that asks does not become input_required; {}", seen::poll(&other)))
        }
    }
}

fn says_answer(result: &ToolResult) -> bool {
    result.content.iter().any(|block| block["text"] == ANSWER)
}
