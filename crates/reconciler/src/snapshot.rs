//! Everything a decision may depend on, read in one lease.

use crate::{
    Authority, InputPolicy, InputRequest, Jitter, Policy, RunId, Task, Timestamp, ToolCallId, ToolName,
    UserId,
};

/// A leased row and what surrounds it, at one instant.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    /// The row.
    pub task: &'a Task,
    /// Its Action, as far as it matters here.
    pub call: &'a Call,
    /// Its Run.
    pub run: &'a Run,
    /// May we talk to the server?
    pub authority: &'a Authority,
    /// The present round of questions, in phase `input_required`. Elsewhere they are of a round that is
    /// over, or none.
    pub inputs: &'a [InputRequest],
    /// Limits.
    pub policy: &'a Policy,
    /// The database's clock.
    pub now: Timestamp,
    /// Spreads delays so that rows do not march in step.
    pub jitter: Jitter,
}

impl Snapshot<'_> {
    /// What happens to questions: surfaced when neither the worker nor the registration says no.
    pub fn input_policy(&self) -> InputPolicy {
        match (self.policy.input, self.call.input) {
            (InputPolicy::Surface, InputPolicy::Surface) => InputPolicy::Surface,
            (InputPolicy::Fail, _) | (_, InputPolicy::Fail) => InputPolicy::Fail,
        }
    }
}

/// What the Action asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The model's id of the call, for the envelope.
    pub tool_call_id: ToolCallId,
    /// The provider-facing name, for the envelope.
    pub tool_name: ToolName,
    /// Whether Core says a second call does no harm.
    pub repeat: Repeat,
    /// How long one `tools/call` may take; from the registration, or its default when that is gone.
    pub request_timeout: std::time::Duration,
    /// What the registration says of its server's questions.
    pub input: InputPolicy,
}

/// May a call be made again when nobody knows whether it was executed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// No: the outcome is `outcome_unknown` (DESIGN rule 1).
    Never,
    /// Yes: Core marked it idempotent.
    Idempotent,
}

/// The Run, as the lease or the finalising transaction read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Whose it is.
    pub user_id: UserId,
    /// Whether it is cancelled: `cancelled_at is not null or status = 'cancelled'` (rule 8).
    pub state: RunState,
}

/// A Run's state, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Goes on. A status of `completed` may be transient and is no reason to stop.
    Live,
    /// Cancelled, for good.
    Cancelled,
}
