//! The rows the document is about, and words for what becomes of them.

use david_reconciler::{Authority, InputState, Outcome, Phase, Repeat, RunState};

use crate::scene::{Scene, answer};

/// Each label, explained.
pub(super) const TRANSITIONS: [(&str, &str); 14] = [
    (
        "begin_call",
        "Commit `calling`, then send `tools/call`. Committed first, so that a replica that dies leaves a trace.",
    ),
    ("requeue", "The call was provably not executed, or may be repeated: back to `queued`, for later."),
    ("track", "A task id came. It is kept before anything else happens."),
    ("continue", "The task works: poll again later."),
    ("retry", "Nothing usable came. The phase stays, the failure is counted, and it is tried again later."),
    ("wait", "A call waits for its answers. An answer wakes the row."),
    (
        "await_input",
        "Record the questions that are new and wait for answers; a task is still polled, slowly.",
    ),
    ("send_answers", "Mark the answers as being sent, commit, then send `tasks/update`."),
    ("answers_sent", "The server acknowledged, which proves nothing: the next poll tells."),
    ("finish", "The Action ends: its status, its output and the outcome are written, once."),
    (
        "finish_owing_cancel",
        "The same, but the remote task may still run: a best-effort `tasks/cancel` is owed.",
    ),
    ("settle_cancel", "The cancel was acknowledged, is pointless, or was given up. The outcome stays."),
    (
        "repair_cancel",
        "The Run was cancelled but the row was not moved: do it now, with the function the trigger uses.",
    ),
    ("impossible", "A pair that cannot occur. Nothing changes; it is logged."),
];

/// A row of each kind, in the order of its life.
pub(super) fn phases() -> Vec<(&'static str, Scene)> {
    vec![
        ("queued", Scene::queued()),
        ("calling", Scene::calling()),
        ("working", Scene::working()),
        ("input_required, of a task", Scene::asking(&[("name", InputState::Pending)])),
        ("input_required, of a call", Scene::call_asking(&[("name", InputState::Pending)])),
        ("cancelling", Scene::cancelling()),
        ("finalised", Scene::of(Phase::Finalised { outcome: Outcome::Succeeded })),
    ]
}

type Circumstance = (&'static str, fn(&mut Scene));

/// What may be different when a row is leased.
pub(super) const CIRCUMSTANCES: [Circumstance; 5] = [
    ("ordinarily", |_| {}),
    ("Run cancelled", |scene| scene.run.state = RunState::Cancelled),
    ("five lapses", |scene| scene.task.lapses = scene.policy.quarantine_lapses),
    ("registration disabled", |scene| scene.authority = Authority::Disabled),
    ("deadline passed", |scene| scene.now = scene.task.execution_deadline),
];

/// Leased rows in which something is special.
pub(super) fn special_plans() -> Vec<(&'static str, Scene)> {
    let answered = || InputState::Answered(answer());
    let sending = || InputState::Sending(answer());
    let late = |scene: Scene| {
        scene.with(|scene| {
            scene.now = scene.now.saturating_add(scene.policy.input_timeout);
            scene.task.execution_deadline = david_reconciler::Timestamp(i64::MAX);
        })
    };
    let idempotent = || Scene::calling().with(|scene| scene.call.repeat = Repeat::Idempotent);
    let asking = || Scene::asking(&[("name", InputState::Pending)]);
    let call_asking = || Scene::call_asking(&[("name", InputState::Pending)]);
    vec![
        ("calling: the call is idempotent", idempotent()),
        (
            "calling: the call is idempotent and was lost five times",
            idempotent().with(|scene| scene.task.attempt = 5),
        ),
        ("input_required, of a task: answered", Scene::asking(&[("name", answered())])),
        ("input_required, of a task: an answer may be lost", Scene::asking(&[("name", sending())])),
        ("input_required, of a task: nobody answered for a day", late(asking())),
        ("input_required, of a call: answered", Scene::call_asking(&[("name", answered())])),
        ("input_required, of a call: nobody answered for a day", late(call_asking())),
        ("input_required: the 17th round", asking().with(|scene| scene.task.input_round = 17)),
        ("cancelling: refused eight times", Scene::cancelling().with(|scene| scene.task.attempt = 8)),
    ]
}

/// The row in which an observation is made: answers are marked before they are sent.
pub(super) fn special_decisions() -> Vec<(&'static str, Scene)> {
    let expired = Scene::working().with(|scene| {
        if let Some(remote) = scene.remote_mut() {
            remote.expires_at = Some(crate::scene::NOW);
        }
    });
    vec![
        ("calling, idempotent", Scene::calling().with(|scene| scene.call.repeat = Repeat::Idempotent)),
        ("working, past the remote TTL", expired),
        (
            "input_required, of a task, an answer being sent",
            Scene::asking(&[("name", InputState::Sending(answer()))]),
        ),
    ]
}
