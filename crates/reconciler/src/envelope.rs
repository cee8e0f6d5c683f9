//! The finalised result as Core reads it: `tool_outputs.envelope`, version 1 (DESIGN §6).

use serde::Serialize;
use serde_json::Value;

use crate::{ActionId, Call, ErrorSource, Outcome};

/// A tool's result, as the value rmcp returned: nothing in it is looked at or changed (rule 15).
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Content blocks, verbatim.
    pub content: Vec<Value>,
    /// `structuredContent`, when the server sent it.
    pub structured_content: Option<Value>,
    /// `isError`.
    pub verdict: Verdict,
}

/// What a result says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// `isError` absent or false.
    Success,
    /// `isError: true`.
    Error,
}

/// The envelope's serialised form, ready for `json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope(String);

#[derive(Serialize)]
struct Version1<'a> {
    version: u32,
    action_id: &'a str,
    tool_call_id: &'a str,
    tool_name: &'a str,
    is_error: bool,
    outcome: &'a str,
    content: &'a [Value],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Value>,
    error: Option<Version1Error<'a>>,
}

#[derive(Serialize)]
struct Version1Error<'a> {
    kind: &'a str,
    message: &'a str,
    source: &'a str,
}

impl Envelope {
    /// The envelope of a result, good or bad.
    pub fn of_result(action: &ActionId, call: &Call, result: &ToolResult) -> Self {
        let (outcome, is_error) = match result.verdict {
            Verdict::Success => (Outcome::Succeeded, false),
            Verdict::Error => (Outcome::ToolError, true),
        };
        let error = is_error.then_some(Version1Error {
            kind: outcome.as_str(),
            message: "The tool reported an error; see its content.",
            source: ErrorSource::Remote.as_str(),
        });
        Self::serialise(&Version1 {
            version: 1,
            action_id: action.as_str(),
            tool_call_id: call.tool_call_id.as_str(),
            tool_name: call.tool_name.as_str(),
            is_error,
            outcome: outcome.as_str(),
            content: &result.content,
            structured_content: result.structured_content.as_ref(),
            error,
        })
    }

    /// The envelope of an end without a result.
    pub fn of_error(
        action: &ActionId,
        call: &Call,
        outcome: Outcome,
        message: &str,
        source: ErrorSource,
    ) -> Self {
        Self::serialise(&Version1 {
            version: 1,
            action_id: action.as_str(),
            tool_call_id: call.tool_call_id.as_str(),
            tool_name: call.tool_name.as_str(),
            is_error: true,
            outcome: outcome.as_str(),
            content: &[],
            structured_content: None,
            error: Some(Version1Error { kind: outcome.as_str(), message, source: source.as_str() }),
        })
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn serialise(form: &Version1<'_>) -> Self {
        // Strings, numbers already parsed, and string-keyed maps: nothing that can fail to
        // serialise. Should it ever, an empty envelope is refused by a CHECK and seen at once.
        Self(serde_json::to_string(form).unwrap_or_default())
    }
}
