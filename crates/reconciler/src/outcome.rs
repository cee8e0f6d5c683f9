//! How an Action's remote work can end.

use std::fmt;

/// The closed list of ends (DESIGN §6). Stored as its [`Outcome::as_str`] word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The tool gave a result.
    Succeeded,
    /// The tool gave a result that says it is an error (`isError: true`).
    ToolError,
    /// The remote task ended with a JSON-RPC error.
    RemoteFailed,
    /// The server refused the call with a JSON-RPC error.
    CallRejected,
    /// The server says the task was cancelled though the Run is live.
    RemoteCancelled,
    /// The Run was cancelled here.
    RunCancelled,
    /// The server no longer knows the task, and its TTL had passed.
    TaskExpired,
    /// The server no longer knows the task, though its TTL had not passed.
    TaskMissing,
    /// `execution_deadline` passed.
    DeadlineExceeded,
    /// A call may or may not have been executed, and nobody can find out.
    OutcomeUnknown,
    /// The registration was deleted.
    RegistrationMissing,
    /// The registration is disabled.
    RegistrationDisabled,
    /// The registration is not the Run's user's.
    RegistrationForbidden,
    /// The registration's URL is not one we may talk to.
    EndpointForbidden,
    /// The server does not accept our credential.
    Unauthorised,
    /// The server asked for input, and the registration's policy is not to surface that.
    InputUnsupported,
    /// Nobody answered the server's question in time.
    InputTimedOut,
    /// The server broke the protocol.
    ProtocolError,
    /// The row ended too many leases without a commit.
    Quarantined,
    /// The result was over the size cap.
    ResultTooLarge,
    /// The server could not be reached for too long.
    RemoteUnreachable,
}

/// What the Action becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionStatus {
    /// The tool's result is there.
    Completed,
    /// It failed; the envelope says how.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl ActionStatus {
    /// The word in `actions.status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// On whose side an error arose (`error.source` of the envelope).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorSource {
    /// Here.
    Local,
    /// At the MCP server.
    Remote,
}

impl ErrorSource {
    /// The word in the envelope.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

impl Outcome {
    /// Every outcome, in the order of the documentation.
    pub const ALL: [Self; 21] = [
        Self::Succeeded,
        Self::ToolError,
        Self::RemoteFailed,
        Self::CallRejected,
        Self::RemoteCancelled,
        Self::RunCancelled,
        Self::TaskExpired,
        Self::TaskMissing,
        Self::DeadlineExceeded,
        Self::OutcomeUnknown,
        Self::RegistrationMissing,
        Self::RegistrationDisabled,
        Self::RegistrationForbidden,
        Self::EndpointForbidden,
        Self::Unauthorised,
        Self::InputUnsupported,
        Self::InputTimedOut,
        Self::ProtocolError,
        Self::Quarantined,
        Self::ResultTooLarge,
        Self::RemoteUnreachable,
    ];

    /// The word in `mcp_action_tasks.outcome` and in the envelope.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::ToolError => "tool_error",
            Self::RemoteFailed => "remote_failed",
            Self::CallRejected => "call_rejected",
            Self::RemoteCancelled => "remote_cancelled",
            Self::RunCancelled => "run_cancelled",
            Self::TaskExpired => "task_expired",
            Self::TaskMissing => "task_missing",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::RegistrationMissing => "registration_missing",
            Self::RegistrationDisabled => "registration_disabled",
            Self::RegistrationForbidden => "registration_forbidden",
            Self::EndpointForbidden => "endpoint_forbidden",
            Self::Unauthorised => "unauthorised",
            Self::InputUnsupported => "input_unsupported",
            Self::InputTimedOut => "input_timed_out",
            Self::ProtocolError => "protocol_error",
            Self::Quarantined => "quarantined",
            Self::ResultTooLarge => "result_too_large",
            Self::RemoteUnreachable => "remote_unreachable",
        }
    }

    /// Reads a stored word back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }

    /// What the Action becomes (DESIGN §6, second column).
    pub fn action_status(self) -> ActionStatus {
        match self {
            Self::Succeeded => ActionStatus::Completed,
            Self::RemoteCancelled | Self::RunCancelled => ActionStatus::Cancelled,
            Self::ToolError
            | Self::RemoteFailed
            | Self::CallRejected
            | Self::TaskExpired
            | Self::TaskMissing
            | Self::DeadlineExceeded
            | Self::OutcomeUnknown
            | Self::RegistrationMissing
            | Self::RegistrationDisabled
            | Self::RegistrationForbidden
            | Self::EndpointForbidden
            | Self::Unauthorised
            | Self::InputUnsupported
            | Self::InputTimedOut
            | Self::ProtocolError
            | Self::Quarantined
            | Self::ResultTooLarge
            | Self::RemoteUnreachable => ActionStatus::Failed,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
