//! The way to MCP servers: the only module that names the SDK's types.
//!
//! Four requests ([`Clients::call_tool`], [`Clients::get_task`], [`Clients::update_task`],
//! [`Clients::cancel_task`]), each of which returns an observation and never an error, and none of
//! which outlives its deadline: the SDK has no time-out of its own anywhere. For the audit, a server
//! can be asked what it says of itself ([`Clients::facts`]).
//!
//! ```text
//! request.rs, facts.rs ─→ clients.rs ─→ connect.rs ─→ transport.rs (oversized, resolver) ─→ rmcp ─→ server
//!     │  ↖ tolerant.rs (results)   ↖ failure.rs (errors), words.rs
//! ```

mod clients;
mod connect;
mod facts;
mod failure;
mod oversized;
mod pool;
mod progress;
mod request;
mod resolver;
mod tolerant;
mod transport;
mod words;

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{Answer, CredentialId, RegistrationId, RequestState, ToolName};
use david_schema::TraceContext;
use serde_json::{Map, Value};

use crate::credentials::Source;
use crate::endpoint_policy::EndpointPolicy;
use crate::health::Health;

pub use clients::Clients;
pub use facts::{ServerFacts, TasksExtension};
pub use progress::{Listener, Report};

/// Which server, on whose behalf.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// One client is shared by all calls of one registration.
    pub registration_id: RegistrationId,
    /// The endpoint. The endpoint policy has been asked about it.
    pub url: String,
    /// The bearer credential the server wants, if it wants one.
    pub credential: Option<CredentialId>,
}

/// What servers may be reached, and with which credentials.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Where names may lead; anywhere when none, for a server that the operator named himself.
    pub endpoints: Option<EndpointPolicy>,
    /// Where bearer tokens come from.
    pub credentials: Option<Arc<Source>>,
    /// Who is told how each request ended.
    pub health: Option<Health>,
}

/// One `tools/call`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The server's name of the tool.
    pub tool: ToolName,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Echoed when the server asked for input before; none when none came.
    pub request_state: Option<RequestState>,
    /// Answers to what it asked.
    pub input_responses: Vec<Answer>,
    /// The trace that it is part of, sent along as `_meta` (SEP-414).
    pub trace: Option<TraceContext>,
}

/// Bounds on what a server can cost us.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest reply that is read, in bytes.
    pub response_bytes: usize,
    /// Longest a TCP and TLS connection may take to be made.
    pub connect_timeout: Duration,
    /// Longest a handshake may take, whatever the deadline of the request that needs it: all requests
    /// of a registration wait for the same one.
    pub handshake_timeout: Duration,
    /// Longest silence of a server in the middle of a reply. Longer than any call may take, since a
    /// tool may think that long before its first byte; what an abandoned request keeps, it keeps
    /// until then.
    pub read_timeout: Duration,
    /// Requests of one client in flight. The SDK's default of 16 lets 16 hung polls block a
    /// registration; the caller has bounds of its own.
    pub max_concurrent_requests: usize,
    /// A client that was not used for this long is closed.
    pub idle: Duration,
    /// Clients of one registration at most, all but the first only where it is busy.
    pub clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 8 * 1024 * 1024,
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(305),
            max_concurrent_requests: 512,
            idle: Duration::from_secs(300),
            clients: 4,
        }
    }
}
