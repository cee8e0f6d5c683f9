//! One row of `david.mcp_action_tasks`, with its phase's columns inside the phase.

use std::time::Duration;

use crate::{
    ActionId, Fence, Outcome, RegistrationId, RemoteStatus, RemoteTaskId, RequestState, TaskId, Timestamp,
};

/// A leased row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Row id.
    pub id: TaskId,
    /// The Action it belongs to.
    pub action_id: ActionId,
    /// The registration it was submitted for. The registration may be gone by now.
    pub registration_id: RegistrationId,
    /// Where it stands.
    pub phase: Phase,
    /// The fence of the lease that is held now.
    pub fence: Fence,
    /// Leases that ended without a commit, the present one not counted.
    pub lapses: u32,
    /// Consecutive failed observations.
    pub attempt: u32,
    /// Good polls of the task so far.
    pub polls: u32,
    /// Rounds of questions the server has asked so far.
    pub input_round: u32,
    /// Local limit for the whole Action.
    pub execution_deadline: Timestamp,
}

/// Where a row stands. Each variant carries just what a row in that phase must have; the CHECKs
/// of migration 0001 mirror it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Core asked for a call; nothing was sent.
    Queued,
    /// A `tools/call` may be on the wire.
    Calling {
        /// The fence under which this phase was committed (DESIGN rule 2).
        call_fence: Fence,
    },
    /// The remote id is known and polled.
    Working {
        /// The remote task.
        remote: RemoteTask,
    },
    /// The server asks for input.
    InputRequired {
        /// Who asks.
        subject: InputSubject,
        /// When the server's present round of questions reached us.
        since: Timestamp,
    },
    /// The local outcome is written; a best-effort `tasks/cancel` is owed.
    Cancelling {
        /// The remote task.
        remote: RemoteTask,
        /// The outcome that is already written.
        outcome: Outcome,
    },
    /// The local end, irrevocable.
    Finalised {
        /// How it ended.
        outcome: Outcome,
    },
}

/// Who asks for input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSubject {
    /// A remote task, which is answered with `tasks/update`.
    Task(RemoteTask),
    /// `tools/call` itself, which is answered by calling again (PROTOCOL 16).
    Call {
        /// To be echoed byte for byte; none when none came.
        request_state: Option<RequestState>,
    },
}

/// What the server last said of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTask {
    /// The server's id.
    pub id: RemoteTaskId,
    /// Its last status; none for an adopted task that was never polled.
    pub status: Option<RemoteStatus>,
    /// When its time to live passes, by our clock; none when unlimited or unknown.
    pub expires_at: Option<Timestamp>,
    /// The time to live the server last named, from which `expires_at` was computed.
    pub ttl: Option<Duration>,
    /// The interval the server last asked for.
    pub poll_interval: Option<Duration>,
}

/// The phase without its contents: what `phase` holds in SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PhaseName {
    /// See [`Phase::Queued`].
    Queued,
    /// See [`Phase::Calling`].
    Calling,
    /// See [`Phase::Working`].
    Working,
    /// See [`Phase::InputRequired`].
    InputRequired,
    /// See [`Phase::Cancelling`].
    Cancelling,
    /// See [`Phase::Finalised`].
    Finalised,
}

impl PhaseName {
    /// Every phase in the order a row may go through them.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Calling, Self::Working, Self::InputRequired, Self::Cancelling, Self::Finalised];

    /// The word in `mcp_action_tasks.phase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Calling => "calling",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Cancelling => "cancelling",
            Self::Finalised => "finalised",
        }
    }

    /// Reads a stored word back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }
}

impl Phase {
    /// The phase's name.
    pub fn name(&self) -> PhaseName {
        match self {
            Self::Queued => PhaseName::Queued,
            Self::Calling { .. } => PhaseName::Calling,
            Self::Working { .. } => PhaseName::Working,
            Self::InputRequired { .. } => PhaseName::InputRequired,
            Self::Cancelling { .. } => PhaseName::Cancelling,
            Self::Finalised { .. } => PhaseName::Finalised,
        }
    }

    /// The remote task, in phases that have one.
    pub fn remote(&self) -> Option<&RemoteTask> {
        match self {
            Self::Working { remote }
            | Self::Cancelling { remote, .. }
            | Self::InputRequired { subject: InputSubject::Task(remote), .. } => Some(remote),
            Self::Queued
            | Self::Calling { .. }
            | Self::InputRequired { subject: InputSubject::Call { .. }, .. }
            | Self::Finalised { .. } => None,
        }
    }
}
