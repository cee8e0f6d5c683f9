//! One proof per gate.

use david_reconciler::{Ack, CallReply, PollReply, Refusal, RemoteStatus, Verdict};
use serde_json::json;

use super::gate::{Doubt, Proof};
use super::probe::{Probe, answers, request, status_of};

fn disproved<T>(text: impl Into<String>) -> Result<T, Doubt> {
    Err(Doubt::Disproved(text.into()))
}

/// Create, get, update and cancel all go through the SDK's own requests.
pub(super) async fn extension(probe: &Probe) -> Proof {
    let created = probe.create("work", json!({ "seconds": 600 })).await?;
    if status_of(&probe.poll(&created.id).await) != Some(RemoteStatus::Working) {
        return disproved("tasks/get does not find the task that was just created.");
    }
    let cancelled = probe.cancel(&created.id).await;
    let asking = probe.create("ask", json!({ "question": "Audited?" })).await?;
    let PollReply::InputRequired { requests, .. } = probe.until_news(&asking.id).await? else {
        return disproved("A task that asks does not become input_required.");
    };
    let keys: Vec<_> = requests.into_iter().map(|(key, _)| key).collect();
    match (cancelled, probe.answer(&asking.id, &keys).await) {
        (Ack::Acknowledged, Ack::Acknowledged) => {
            Ok("tools/call made tasks; tasks/get, tasks/update and tasks/cancel were answered.".to_owned())
        }
        (cancelled, updated) => disproved(format!("tasks/cancel: {cancelled:?}; tasks/update: {updated:?}")),
    }
}

/// An id outlives the connection it came by.
pub(super) async fn task_ids(probe: &Probe) -> Proof {
    let created = probe.create("work", json!({ "seconds": 0.2 })).await?;
    let stranger = probe.stranger()?;
    match stranger.until_terminal(&created.id).await? {
        PollReply::Completed { .. } => {
            Ok("A task created over one connection was read over another; ids are compared here.".to_owned())
        }
        other => disproved(format!("Another connection sees {other:?}")),
    }
}

/// Each of the five.
pub(super) async fn statuses(probe: &Probe) -> Proof {
    let mut seen = Vec::new();
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
        if status_of(&reply) != Some(wanted) {
            return disproved(format!("{tool} should be {}, not {reply:?}", wanted.as_str()));
        }
        seen.push(wanted.as_str());
        probe.cancel(&created.id).await;
    }
    Ok(format!("Seen: {}.", seen.join(", ")))
}

/// The result is inside `tasks/get`, and an error result is `completed`.
pub(super) async fn results(probe: &Probe) -> Proof {
    let good = probe.create("work", json!({ "seconds": 0.1, "text": "audited" })).await?;
    match probe.until_terminal(&good.id).await? {
        PollReply::Completed { result, .. }
            if result.verdict == Verdict::Success && !result.content.is_empty() => {}
        other => return disproved(format!("A completed task brings {other:?}")),
    }
    let bad = probe.create("tool_error", json!({ "seconds": 0.1 })).await?;
    match probe.until_terminal(&bad.id).await? {
        PollReply::Completed { result, .. } if result.verdict == Verdict::Error => {
            Ok("Results came inside tasks/get; isError: true came as completed.".to_owned())
        }
        other => disproved(format!("A tool error comes as {other:?}")),
    }
}

/// An acknowledgement, repeatable, and the end later.
pub(super) async fn cancel(probe: &Probe) -> Proof {
    let created = probe.create("work", json!({ "seconds": 600 })).await?;
    for _ in 0..2 {
        match probe.cancel(&created.id).await {
            Ack::Acknowledged => {}
            Ack::Refused(refusal) => return disproved(format!("tasks/cancel was refused: {refusal:?}")),
        }
    }
    match probe.until_terminal(&created.id).await? {
        PollReply::Cancelled(_) => {
            Ok("A cancel was acknowledged, again when repeated, and the task ended as cancelled.".to_owned())
        }
        other => disproved(format!("A cancelled task ended as {other:?}")),
    }
}

/// After its time to live a task may be forgotten, which is `-32602`.
pub(super) async fn ttl(probe: &Probe) -> Proof {
    let created = probe.create("short_ttl", json!({ "ttl_ms": 500 })).await?;
    let Some(ttl) = created.ttl else {
        return disproved("The server names no time to live.");
    };
    match probe.until_terminal(&created.id).await? {
        PollReply::Refused(Refusal::Gone { .. }) => Ok(format!(
            "A task of {ttl:?} to live was unknown (-32602) after that; it counts from when it was heard."
        )),
        other => disproved(format!("After its time to live the task is {other:?}")),
    }
}

/// `tasks/update` for a task, calling again with the state for a call.
pub(super) async fn input(probe: &Probe) -> Proof {
    let created = probe.create("ask", json!({ "question": "Audited?" })).await?;
    let PollReply::InputRequired { requests, .. } = probe.until_news(&created.id).await? else {
        return disproved("A task that asks does not become input_required.");
    };
    let keys: Vec<_> = requests.into_iter().map(|(key, _)| key).collect();
    probe.answer(&created.id, &keys).await;
    match probe.until_terminal(&created.id).await? {
        PollReply::Completed { .. } => {}
        other => return disproved(format!("An answered task ended as {other:?}")),
    }
    let first = request("ask_first", json!({ "question": "Audited?" }));
    let CallReply::InputRequired { requests, request_state } = probe.send(first.clone()).await else {
        return Err(Doubt::Untried(
            "The server has no tool ask_first that asks before it answers.".to_owned(),
        ));
    };
    let keys: Vec<_> = requests.into_iter().map(|(key, _)| key).collect();
    let again = crate::remote::ToolRequest { request_state, input_responses: answers(&keys), ..first };
    match probe.send(again).await {
        CallReply::Result(_) => {
            Ok("A task went on after tasks/update; a call after it was made again with its state.".to_owned())
        }
        other => disproved(format!("A call made again with its state brought {other:?}")),
    }
}
