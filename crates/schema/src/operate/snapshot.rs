//! What the views show, read as JSON: the fields are the views' columns, and so are the keys that
//! `--json` prints (docs/cli.md, docs/views.md).
#![expect(missing_docs, reason = "each field is the column of its name, which docs/views.md explains")]

use serde::{Deserialize, Serialize};

use super::Time;

/// Everything at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The database's clock.
    pub at: Time,
    pub backlog: Vec<Lane>,
    /// The row without a registration is the total.
    pub due_lag: Vec<Lag>,
    pub replicas: Vec<Replica>,
    /// Servers with an open breaker, or paused.
    pub servers: Vec<ServerHealth>,
    pub stuck: Vec<Stuck>,
    pub cancelling: Vec<OwedCancel>,
    pub input_required: Vec<Question>,
    pub outcomes: Vec<Ended>,
}

/// A line of `v_backlog`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    pub registration_id: String,
    pub registration_name: Option<String>,
    pub phase: String,
    pub tasks: i64,
    pub due: i64,
    pub oldest_due_at: Option<Time>,
    pub estimated: bool,
}

/// A line of `v_due_lag`, its intervals in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    pub registration_id: Option<String>,
    pub registration_name: Option<String>,
    pub due: i64,
    pub p50_seconds: Option<f64>,
    pub p99_seconds: Option<f64>,
    pub oldest_seconds: Option<f64>,
    pub estimated: bool,
}

/// A line of `v_leases`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    pub replica: String,
    pub leases: i64,
    pub calls: i64,
    pub lapsed: i64,
    pub last_leased_at: Option<Time>,
    pub next_lapse_at: Option<Time>,
    pub estimated: bool,
}

/// Of a line of `v_registration_health`, what is asked when something is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerHealth {
    pub registration_id: String,
    pub registration_name: Option<String>,
    pub enabled: Option<bool>,
    pub breaker: String,
    pub open_until: Option<Time>,
    pub trips: i32,
    pub paused_at: Option<Time>,
    pub paused_by: Option<String>,
    pub paused_reason: Option<String>,
    pub last_success_at: Option<Time>,
    pub last_failure_at: Option<Time>,
    pub last_error: Option<String>,
}

/// A line of `v_stuck`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stuck {
    pub action_id: String,
    pub run_id: String,
    pub registration_id: String,
    pub registration_name: Option<String>,
    pub phase: String,
    pub reason: String,
    pub explanation: String,
    pub what_to_do: String,
    pub since: Option<Time>,
    pub due_at: Time,
    pub attempt: i32,
    pub lapses: i32,
    pub execution_deadline: Option<Time>,
    pub last_error: Option<String>,
}

/// A line of `v_cancelling`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwedCancel {
    pub action_id: String,
    pub run_id: String,
    pub registration_id: String,
    pub registration_name: Option<String>,
    pub outcome: Option<String>,
    pub remote_task: Option<String>,
    pub since: Option<Time>,
    pub due_at: Time,
    pub attempt: i32,
    pub replica: Option<String>,
    pub last_error: Option<String>,
}

/// A line of `v_input_required`, without the question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub action_id: String,
    pub run_id: String,
    pub registration_id: String,
    pub registration_name: Option<String>,
    pub tool_name: String,
    pub asked_by: String,
    pub round: i32,
    pub state: String,
    pub asked_at: Time,
    pub execution_deadline: Option<Time>,
}

/// A line of `v_outcomes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub outcome: String,
    pub last_hour: i64,
    pub last_day: i64,
    pub estimated: bool,
}

/// One Action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The database's clock.
    pub at: Time,
    /// None when its row is not there.
    pub action: Option<ActionRow>,
    pub stuck: Option<Stuck>,
    pub server: Option<ServerHealth>,
    pub questions: Vec<Question>,
    pub timeline: Vec<Event>,
}

/// A line of `v_action`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRow {
    pub action_id: String,
    pub run_id: String,
    pub registration_id: String,
    pub registration_name: Option<String>,
    pub tool_name: String,
    pub status: String,
    pub phase: String,
    pub outcome: Option<String>,
    pub due_at: Time,
    pub leased_by: Option<String>,
    pub fence: i64,
    pub attempt: i32,
    pub lapses: i32,
    pub polls: i32,
    pub last_polled_at: Option<Time>,
    pub remote_task: Option<String>,
    pub remote_status: Option<String>,
    pub remote_expires_at: Option<Time>,
    pub execution_deadline: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
    pub finalised_at: Option<Time>,
    pub last_error: Option<String>,
}

/// A line of `v_timeline`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    pub event: String,
    pub transition: String,
    pub phase: Option<String>,
    pub outcome: Option<String>,
    pub fence: Option<i64>,
    pub replica: Option<String>,
    pub run_id: Option<String>,
    pub registration_id: Option<String>,
    pub tool_name: Option<String>,
    pub position: i64,
    pub detail: Option<String>,
}
