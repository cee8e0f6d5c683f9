//! What is to be committed. Delays, not instants: the database adds its own `now()`.

use std::time::Duration;

use serde_json::Value;

use crate::{ActionStatus, Answer, Envelope, InputKey, InputSubject, Outcome, PhaseName, RemoteTask};

/// One decision about one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// `queued` (or an answered `tools/call`) → `calling`, committed before the call is sent.
    BeginCall {
        /// The row is due again after this: the call's timeout and the grace.
        lease: Duration,
    },
    /// `calling` → `queued`: the call was provably not executed, or may be repeated.
    Requeue {
        /// Until it may be leased again.
        delay: Duration,
        /// The new count of consecutive failures.
        attempt: u32,
        /// Why, for `last_error`.
        reason: String,
    },
    /// `calling` → `working`: a task id came.
    Track {
        /// The task.
        remote: RemoteTask,
        /// Until its first poll.
        delay: Duration,
    },
    /// A good poll of a task that goes on: `working` or `input_required` → `working`.
    Continue {
        /// The task as it is known now.
        remote: RemoteTask,
        /// Until the next poll.
        delay: Duration,
    },
    /// A failed observation; the phase stays and it is tried again.
    Retry {
        /// Until the next try.
        delay: Duration,
        /// The new count of consecutive failures.
        attempt: u32,
        /// Why, for `last_error`.
        reason: String,
    },
    /// There is nothing to see and nothing to write but when to look again: a `tools/call` waits
    /// for its answers.
    Wait {
        /// Until its time is out.
        delay: Duration,
    },
    /// `calling`, `working` or `input_required` → `input_required`, with the round's questions.
    AwaitInput {
        /// Who asks.
        subject: InputSubject,
        /// This round, from 1.
        round: u32,
        /// Questions of this round not recorded yet.
        requests: Vec<(InputKey, Value)>,
        /// Until the next poll (of a task) or the time-out (of a call).
        delay: Duration,
    },
    /// Marks answers as `sending`; `tasks/update` follows once this is committed.
    SendAnswers {
        /// The answers.
        answers: Vec<Answer>,
    },
    /// The answers were acknowledged, which proves nothing: the phase stays until a poll says that
    /// the task goes on, since a stale `input_required` after an ack is legal (PROTOCOL 11).
    AnswersSent {
        /// The keys.
        keys: Vec<InputKey>,
        /// Until the next poll.
        delay: Duration,
    },
    /// The Action ends here.
    Finish(Finish),
    /// `cancelling` → `finalised`: the debt is paid, or given up. The outcome stays.
    SettleCancel {
        /// How it went, for the event.
        reason: String,
    },
    /// The Run was cancelled but this row was not moved (a canceller in repeatable read): repair
    /// it with the function the trigger uses (DESIGN rule 6).
    RepairCancel,
    /// A pair of phase and observation that cannot occur. Nothing is written but a release.
    Impossible {
        /// Which pair.
        pair: &'static str,
    },
}

/// How an Action ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The outcome.
    pub outcome: Outcome,
    /// What Core reads.
    pub envelope: Envelope,
    /// What the remote side is still owed.
    pub debt: CancelDebt,
    /// One sentence for `last_error` and the event; none on success.
    pub reason: Option<String>,
}

/// Whether a best-effort `tasks/cancel` is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelDebt {
    /// Nothing runs remotely that we know of: → `finalised`.
    None,
    /// The remote task may still run: → `cancelling`.
    Owed,
}

/// Event names of DESIGN §9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventName {
    /// A remote task exists and its id is kept.
    Created,
    /// It works (again).
    Working,
    /// It asks for input.
    InputRequired,
    /// The Action completed.
    Completed,
    /// The Action failed.
    Failed,
    /// A remote cancel is owed.
    CancelRequested,
    /// The Action was cancelled, or its remote cancel settled.
    Cancelled,
    /// The remote task expired.
    Expired,
    /// A row was taken over from a lease that lapsed.
    Recovered,
}

impl EventName {
    /// The word in logs and in `mcp_task_events.event`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "MCP_TASK_CREATED",
            Self::Working => "MCP_TASK_WORKING",
            Self::InputRequired => "MCP_TASK_INPUT_REQUIRED",
            Self::Completed => "MCP_TASK_COMPLETED",
            Self::Failed => "MCP_TASK_FAILED",
            Self::CancelRequested => "MCP_TASK_CANCEL_REQUESTED",
            Self::Cancelled => "MCP_TASK_CANCELLED",
            Self::Expired => "MCP_TASK_EXPIRED",
            Self::Recovered => "MCP_TASK_RECOVERED",
        }
    }
}

impl Transition {
    /// Every [`Transition::label`].
    pub const LABELS: [&str; 14] = [
        "begin_call",
        "requeue",
        "track",
        "continue",
        "retry",
        "wait",
        "await_input",
        "send_answers",
        "answers_sent",
        "finish",
        "finish_owing_cancel",
        "settle_cancel",
        "repair_cancel",
        "impossible",
    ];

    /// A stable name for logs, events and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::BeginCall { .. } => "begin_call",
            Self::Requeue { .. } => "requeue",
            Self::Track { .. } => "track",
            Self::Continue { .. } => "continue",
            Self::Retry { .. } => "retry",
            Self::Wait { .. } => "wait",
            Self::AwaitInput { .. } => "await_input",
            Self::SendAnswers { .. } => "send_answers",
            Self::AnswersSent { .. } => "answers_sent",
            Self::Finish(finish) => match finish.debt {
                CancelDebt::None => "finish",
                CancelDebt::Owed => "finish_owing_cancel",
            },
            Self::SettleCancel { .. } => "settle_cancel",
            Self::RepairCancel => "repair_cancel",
            Self::Impossible { .. } => "impossible",
        }
    }

    /// The phase the row is in once this is committed; none when the phase stays.
    pub fn next_phase(&self) -> Option<PhaseName> {
        match self {
            Self::BeginCall { .. } => Some(PhaseName::Calling),
            Self::Requeue { .. } => Some(PhaseName::Queued),
            Self::Track { .. } | Self::Continue { .. } => Some(PhaseName::Working),
            Self::AwaitInput { .. } => Some(PhaseName::InputRequired),
            Self::Finish(finish) => Some(match finish.debt {
                CancelDebt::None => PhaseName::Finalised,
                CancelDebt::Owed => PhaseName::Cancelling,
            }),
            Self::SettleCancel { .. } => Some(PhaseName::Finalised),
            Self::Retry { .. }
            | Self::Wait { .. }
            | Self::SendAnswers { .. }
            | Self::AnswersSent { .. }
            | Self::RepairCancel
            | Self::Impossible { .. } => None,
        }
    }
}

impl Transition {
    /// What history tells of it: nothing of polls, retries and waits.
    pub fn events(&self) -> &'static [EventName] {
        match self {
            Self::Track { .. } => &[EventName::Created],
            // Without a new question it is but a poll.
            Self::AwaitInput { requests, .. } if requests.is_empty() => &[],
            Self::AwaitInput { .. } => &[EventName::InputRequired],
            Self::AnswersSent { .. } => &[EventName::Working],
            Self::Finish(finish) => match (finish.debt, finish.outcome) {
                (CancelDebt::None, outcome) => ended(outcome),
                (CancelDebt::Owed, Outcome::RunCancelled | Outcome::RemoteCancelled) => {
                    &[EventName::CancelRequested]
                }
                (CancelDebt::Owed, _) => &[EventName::Failed, EventName::CancelRequested],
            },
            Self::SettleCancel { .. } => &[EventName::Cancelled],
            Self::BeginCall { .. }
            | Self::Requeue { .. }
            | Self::Continue { .. }
            | Self::Retry { .. }
            | Self::Wait { .. }
            | Self::SendAnswers { .. }
            | Self::RepairCancel
            | Self::Impossible { .. } => &[],
        }
    }
}

fn ended(outcome: Outcome) -> &'static [EventName] {
    match outcome {
        Outcome::TaskExpired => &[EventName::Expired],
        other => match other.action_status() {
            ActionStatus::Completed => &[EventName::Completed],
            ActionStatus::Failed => &[EventName::Failed],
            ActionStatus::Cancelled => &[EventName::Cancelled],
        },
    }
}
