//! Actions as Core submits them.

use serde_json::{Value, json};

/// What to submit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The server's tool.
    pub tool: &'static str,
    /// Its arguments, the ledger's `key` not among them.
    pub arguments: Value,
    /// Core's word that a second call does no harm.
    pub idempotent: bool,
    /// A remote task to adopt.
    pub remote_task_id: Option<String>,
    /// Which registration.
    pub registration: &'static str,
}

/// What was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its id, which is also the ledger's key.
    pub id: String,
    /// Its Run, which has no other Action.
    pub run: String,
}

impl Submission {
    /// A call of `tool`.
    pub fn of(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments, idempotent: false, remote_task_id: None, registration: crate::REGISTRATION }
    }

    /// A call at the raw server.
    pub fn raw() -> Self {
        Self { registration: crate::RAW, ..Self::of("work", json!({})) }
    }

    /// `work` for so long.
    pub fn work(seconds: f64) -> Self {
        Self::of("work", json!({ "seconds": seconds }))
    }
}
