//! The status words of the Tasks extension.

/// What a server says of its task. Unknown words never get this far: they are malformed replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemoteStatus {
    /// Being worked on.
    Working,
    /// Waits for input.
    InputRequired,
    /// Ended with a result, which may itself be an error (DESIGN rule 10).
    Completed,
    /// Ended with a JSON-RPC error.
    Failed,
    /// Ended by cancellation.
    Cancelled,
}

impl RemoteStatus {
    /// The word on the wire and in `remote_status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads a stored word back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}
