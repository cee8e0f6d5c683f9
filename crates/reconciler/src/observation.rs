//! What came of one remote call. Closed: whatever a server does is one of these.

use std::time::Duration;

use serde_json::Value;

use crate::{InputKey, RemoteStatus, RemoteTaskId, RequestState, ToolResult};

/// What was seen, by the request that was made.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// Of `tools/call`.
    Call(CallReply),
    /// Of `tasks/get`.
    Poll(PollReply),
    /// Of `tasks/update`.
    Update(Ack),
    /// Of `tasks/cancel`.
    Cancel(Ack),
}

/// What a server says of its task besides its status. Whatever `u64` it sends is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteState {
    /// The id. The adapter has checked that a poll's reply names the task that was asked for.
    pub id: RemoteTaskId,
    /// `ttlMs`; none means unlimited (a missing one reads the same).
    pub ttl: Option<Duration>,
    /// `pollIntervalMs`.
    pub poll_interval: Option<Duration>,
    /// `statusMessage`, for people; never stored.
    pub message: Option<String>,
    /// How long its request took: the task may be that much older than the news of it.
    pub took: Duration,
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteError {
    /// Its code; zero when the server sent none.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Its data, when sent.
    pub data: Option<Value>,
}

/// How long the server asked us to wait (`Retry-After`, seconds or a date already turned into a
/// delay).
pub type RetryAfter = Option<Duration>;

/// What came of a `tools/call`.
#[derive(Debug, Clone, PartialEq)]
pub enum CallReply {
    /// An ordinary result.
    Result(ToolResult),
    /// A task handle, of a task in any status.
    Task {
        /// The task.
        state: RemoteState,
        /// Its status.
        status: RemoteStatus,
    },
    /// The server asks before it calls the tool (PROTOCOL 16).
    InputRequired {
        /// Questions by key.
        requests: Vec<(InputKey, Value)>,
        /// To be echoed.
        request_state: Option<RequestState>,
    },
    /// A JSON-RPC error: the server understood and refused.
    Rejected(RemoteError),
    /// It provably was not executed.
    NotExecuted {
        /// The proof.
        proof: NotExecuted,
        /// What happened, for people.
        detail: String,
        /// When to try again at the earliest.
        retry_after: RetryAfter,
    },
    /// It may have been executed: reset, timeout, 5xx, a cut reply.
    Unknown {
        /// What happened, for people.
        detail: String,
    },
    /// A whole reply that cannot be read and holds no usable id.
    Malformed {
        /// What is wrong with it.
        detail: String,
    },
    /// The result is over the size cap.
    TooLarge {
        /// What is over which cap.
        detail: String,
    },
}

/// Why a call cannot have been executed (DESIGN §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotExecuted {
    /// Connection refused, DNS, TLS: it never left; or our own preparation failed before sending.
    NeverSent,
    /// 401 or 403.
    Unauthorised,
    /// 429.
    RateLimited,
    /// `-32020`, `-32021`, `-32022`: refused before dispatch.
    Unsupported,
    /// The server's name leads to an address that may not be talked to (DESIGN rule 11).
    EndpointForbidden,
}

/// What came of a `tasks/get`.
#[derive(Debug, Clone, PartialEq)]
pub enum PollReply {
    /// Still working.
    Working(RemoteState),
    /// Asks for input.
    InputRequired {
        /// The task.
        state: RemoteState,
        /// Questions by key.
        requests: Vec<(InputKey, Value)>,
    },
    /// Ended with a result.
    Completed {
        /// The task.
        state: RemoteState,
        /// The result.
        result: ToolResult,
    },
    /// Ended with an error.
    Failed {
        /// The task.
        state: RemoteState,
        /// The error.
        error: RemoteError,
    },
    /// Ended by cancellation.
    Cancelled(RemoteState),
    /// No usable news.
    Refused(Refusal),
    /// The result is over the size cap.
    TooLarge {
        /// What is over which cap.
        detail: String,
    },
}

/// What came of a `tasks/update` or `tasks/cancel`, whose replies are empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Ack {
    /// Acknowledged, which proves nothing.
    Acknowledged,
    /// Not.
    Refused(Refusal),
}

/// Why a request about a task gave no usable news.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// `-32602`: unknown, expired, or not ours (DESIGN rule 12).
    Gone {
        /// The server's message.
        message: String,
    },
    /// 401 or 403, after one refresh of the credential.
    Unauthorised {
        /// What the server said.
        detail: String,
    },
    /// The server's name leads to an address that may not be talked to (DESIGN rule 11).
    EndpointForbidden {
        /// The policy's reason, one sentence.
        detail: String,
    },
    /// May pass: try again.
    Transient(Trouble),
    /// A reply that breaks the protocol, the wrong task's among them.
    Malformed {
        /// What is wrong with it.
        detail: String,
    },
}

/// A failure that may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What happened, for people: refused, reset, timeout, 5xx, 429.
    pub detail: String,
    /// When to try again at the earliest.
    pub retry_after: RetryAfter,
}
