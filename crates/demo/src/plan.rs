//! What is submitted, and how each of it must end.

use std::collections::HashSet;

use david_reconciler::Outcome;
use serde_json::{Value, json};

/// One Action and what must become of it.
pub(crate) struct Planned {
    pub(crate) action: String,
    pub(crate) run: String,
    pub(crate) server: usize,
    pub(crate) kind: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    pub(crate) expected: Outcome,
    pub(crate) origin: Origin,
    pub(crate) cancel: Cancel,
    /// Its call was out when a replica was killed: it may also be `outcome_unknown`, as promised.
    pub(crate) may_be_lost: bool,
}

/// Who makes the call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The worker.
    Submitted,
    /// Somebody else did; the worker adopts the task.
    Adopted,
}

/// When the Run is cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    Never,
    BeforeCall,
    WhileWorking,
}

/// All of it.
pub(crate) struct Plan {
    pub(crate) user: String,
    pub(crate) registrations: Vec<(String, String)>,
    pub(crate) runs: usize,
    pub(crate) actions: Vec<Planned>,
}

struct Kind {
    name: &'static str,
    count: usize,
    tool: &'static str,
    arguments: fn(usize) -> Value,
    expected: Outcome,
    origin: Origin,
    cancel: Cancel,
}

const KINDS: [Kind; 9] = [
    kind("quick", 80, "work", |i| json!({ "seconds": 0.1 + 0.01 * (i % 20) as f64 }), Outcome::Succeeded),
    kind("slow", 50, "work", |i| json!({ "seconds": 4 + i % 8 }), Outcome::Succeeded),
    kind("tool error", 30, "tool_error", |_| json!({ "seconds": 0.5 }), Outcome::ToolError),
    kind("remote failure", 30, "fail", |_| json!({ "seconds": 0.5 }), Outcome::RemoteFailed),
    kind("ordinary result", 40, "sync", |i| json!({ "text": format!("result {i}") }), Outcome::Succeeded),
    kind("short TTL", 15, "short_ttl", |_| json!({ "ttl_ms": 3000, "seconds": 600 }), Outcome::TaskExpired),
    Kind {
        origin: Origin::Adopted,
        ..kind("adopted task", 15, "work", |_| json!({ "seconds": 2 }), Outcome::Succeeded)
    },
    Kind {
        cancel: Cancel::BeforeCall,
        ..kind("Run cancelled, before", 15, "work", |_| json!({ "seconds": 600 }), Outcome::RunCancelled)
    },
    Kind {
        cancel: Cancel::WhileWorking,
        ..kind("Run cancelled, during", 25, "stubborn", |_| json!({ "seconds": 600 }), Outcome::RunCancelled)
    },
];

const fn kind(
    name: &'static str,
    count: usize,
    tool: &'static str,
    arguments: fn(usize) -> Value,
    expected: Outcome,
) -> Kind {
    Kind { name, count, tool, arguments, expected, origin: Origin::Submitted, cancel: Cancel::Never }
}

/// Actions of one kind that share a Run.
const PER_RUN: usize = 5;

impl Plan {
    /// 300 Actions in Runs of five, spread over the servers.
    pub(crate) fn new(urls: &[String]) -> Self {
        let user = id("user");
        let registrations = urls.iter().map(|url| (id("reg"), url.clone())).collect();
        let mut actions = Vec::new();
        let mut runs = 0;
        for kind in &KINDS {
            let mut run = String::new();
            for i in 0..kind.count {
                if i % PER_RUN == 0 {
                    run = id("run");
                    runs += 1;
                }
                let action = id("act");
                let mut arguments = (kind.arguments)(i);
                // What the servers count their calls by.
                if let Some(object) = arguments.as_object_mut() {
                    object.insert("key".to_owned(), json!(action));
                }
                actions.push(Planned {
                    action,
                    run: run.clone(),
                    server: actions.len() % urls.len(),
                    kind: kind.name,
                    tool: kind.tool,
                    arguments,
                    expected: kind.expected,
                    origin: kind.origin,
                    cancel: kind.cancel,
                    may_be_lost: false,
                });
            }
        }
        Self { user, registrations, runs, actions }
    }

    /// These were in mid-call when a replica died.
    pub(crate) fn may_be_lost(&mut self, in_call: &[String]) {
        let lost: HashSet<&String> = in_call.iter().collect();
        for action in &mut self.actions {
            action.may_be_lost = lost.contains(&action.action);
        }
    }

    /// Names of the kinds, in order.
    pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|kind| kind.name)
    }
}

/// An id as Core makes them: a prefix and 22 letters and digits.
fn id(prefix: &str) -> String {
    let suffix: String = std::iter::repeat_with(fastrand::alphanumeric).take(22).collect();
    format!("{prefix}_{suffix}")
}
