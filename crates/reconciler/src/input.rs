//! Questions a server asks in mid-call, and their answers.

use serde_json::Value;

use crate::InputKey;

/// One question: one row of `david.mcp_input_requests`.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRequest {
    /// The server's key, unique for the life of its task.
    pub key: InputKey,
    /// The request as the server sent it: data, never acted upon here.
    pub request: Value,
    /// How far its answer got.
    pub state: InputState,
}

/// How far an answer got.
#[derive(Debug, Clone, PartialEq)]
pub enum InputState {
    /// Nobody answered yet.
    Pending,
    /// Answered, not sent.
    Answered(Value),
    /// Committed before it is sent: after a crash nobody knows whether the server has it, so it
    /// is sent again only while the server still asks for the key (DESIGN §6).
    Sending(Value),
    /// Acknowledged by the server, which proves nothing (PROTOCOL 11).
    Sent,
}

/// One answer on its way to the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The question's key.
    pub key: InputKey,
    /// What was answered, sent as it is.
    pub response: Value,
}

/// Questions of one round at most: somebody has to answer them all.
const MOST_QUESTIONS: usize = 64;

/// Longest key, in bytes.
const LONGEST_KEY: usize = 256;

/// Why these questions are too much to be recorded beside `known` others of the round, if they are.
pub(crate) fn excess(known: usize, questions: &[(InputKey, Value)]) -> Option<String> {
    if known.saturating_add(questions.len()) > MOST_QUESTIONS {
        return Some(format!("The server asks more than {MOST_QUESTIONS} questions at a time."));
    }
    let long = questions.iter().any(|(key, _)| key.as_str().len() > LONGEST_KEY);
    long.then(|| format!("A question's key is longer than {LONGEST_KEY} bytes."))
}
