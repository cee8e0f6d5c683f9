//! What to do next with one Action's remote work. Pure: no clock, no randomness, no SQL, no network.
//!
//! The worker leases a row, asks [`plan`] what to observe, observes it, hands the observation to
//! [`decide`] and commits the [`Transition`] that comes back:
//!
//! ```text
//! lease ─→ plan ─→ observe ─→ decide ─→ commit
//! SQL      pure    MCP call   pure      SQL, fenced
//! ```
//!
//! Both functions are total: every pair of phase and observation has an arm, pairs that cannot
//! occur are named ([`Transition::Impossible`]) and no arm is a wildcard. That is what makes the
//! recovery path the happy path: a row found after a crash is just another row.
//!
//! The boundary is enforced by Cargo: this crate depends on nothing that does IO.

mod authority;
mod backoff;
mod decide;
mod envelope;
mod finish;
mod ids;
mod input;
mod observation;
mod outcome;
mod plan;
mod policy;
mod remote_facts;
mod sentence;
mod snapshot;
mod status;
mod task;
mod time;
mod transition;

pub use authority::{Authority, Registration, RegistrationState, authorise};
pub use backoff::Jitter;
pub use decide::decide;
pub use envelope::{Envelope, ToolResult, Verdict};
pub use finish::{protocol_error, quarantine};
pub use ids::{
    ActionId, CredentialId, Fence, InputKey, InvalidRemoteTaskId, RegistrationId, RemoteTaskId, RequestState,
    RunId, TaskId, ToolCallId, ToolName, UserId,
};
pub use input::{Answer, InputRequest, InputState};
pub use observation::{
    Ack, CallReply, NotExecuted, Observation, PollReply, Refusal, RemoteError, RemoteState, RetryAfter,
    Trouble,
};
pub use outcome::{ActionStatus, ErrorSource, Outcome};
pub use plan::{Step, plan};
pub use policy::{InputPolicy, Policy};
pub use sentence::{fit, sentence};
pub use snapshot::{Call, Repeat, Run, RunState, Snapshot};
pub use status::RemoteStatus;
pub use task::{InputSubject, Phase, PhaseName, RemoteTask, Task};
pub use time::Timestamp;
pub use transition::{CancelDebt, EventName, Finish, Transition};
