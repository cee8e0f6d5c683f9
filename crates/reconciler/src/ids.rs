//! Identifiers. Each is its own type so that an Action's id can never stand where a Run's is meant.

use std::fmt;

use sha2::{Digest, Sha256};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Takes the id as it is stored.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as it is stored.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// `act_…`: one tool call inside a Run.
    ActionId
);
text_id!(
    /// `run_…`: one agent turn.
    RunId
);
text_id!(
    /// An MCP server registration of one user.
    RegistrationId
);
text_id!(
    /// Names a bearer credential, which is kept outside Postgres (DESIGN rule 14).
    CredentialId
);
text_id!(
    /// `user_…`: who owns Runs and registrations.
    UserId
);
text_id!(
    /// The model's own id of the tool call; not unique across Runs.
    ToolCallId
);
text_id!(
    /// A tool's name, either the provider-facing one or the remote one.
    ToolName
);
text_id!(
    /// The key of one input request, unique for the life of a remote task.
    InputKey
);
text_id!(
    /// Opaque state of a multi-round `tools/call`, echoed byte for byte (PROTOCOL 16).
    RequestState
);

/// Row id of `david.mcp_action_tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub i64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the leases of a row and the changes made to it from outside. A write that carries an
/// older fence than the row's changes nothing (DESIGN rule 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub i64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The server's task id. It may be a bearer secret, so `Debug` and `Display` show a fingerprint
/// (DESIGN rule 14).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RemoteTaskId(String);

/// Why a server's task id cannot be kept (DESIGN §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRemoteTaskId {
    /// The empty string names nothing.
    #[error("the task id is empty")]
    Empty,
    /// Postgres text cannot hold NUL.
    #[error("the task id contains a NUL character")]
    Nul,
    /// Longer than [`RemoteTaskId::MAX_BYTES`].
    #[error("the task id is longer than {} bytes", RemoteTaskId::MAX_BYTES)]
    TooLong,
}

impl RemoteTaskId {
    /// Longest id that is kept, in bytes (DESIGN §3).
    pub const MAX_BYTES: usize = 4096;

    /// Checks an id that came from a server.
    pub fn parse(id: impl Into<String>) -> Result<Self, InvalidRemoteTaskId> {
        let id = id.into();
        if id.is_empty() {
            Err(InvalidRemoteTaskId::Empty)
        } else if id.contains('\0') {
            Err(InvalidRemoteTaskId::Nul)
        } else if id.len() > Self::MAX_BYTES {
            Err(InvalidRemoteTaskId::TooLong)
        } else {
            Ok(Self(id))
        }
    }

    /// The id itself, for the wire and for the row; never for a log.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `sha256:` and the first twelve hex digits of the id's hash: enough to tell two ids apart.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    }
}

impl fmt::Debug for RemoteTaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

impl fmt::Display for RemoteTaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}
