//! The limits a decision respects. All have defaults; the worker's flags set them.

use std::time::Duration;

/// Limits, durations and counts. See `david-tasks worker --help` for the flag of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// First step of the polling ladder 1, 2, 3, 5, 5 … (default 1 s).
    pub poll_base: Duration,
    /// Highest step of the ladder (default 5 s). A server's own interval may exceed it.
    pub poll_cap: Duration,
    /// The longest interval a server may ask for (default 5 min).
    pub poll_interval_ceiling: Duration,
    /// How long before the remote TTL passes a last poll is made (default 2 s).
    pub expiry_margin: Duration,
    /// First retry after a failure; doubles (default 1 s).
    pub retry_base: Duration,
    /// Longest retry delay (default 1 min).
    pub retry_cap: Duration,
    /// The longest `Retry-After` that is honoured (default 1 h).
    pub retry_after_ceiling: Duration,
    /// Consecutive failures of the network after which a task is given up (default 1,000).
    pub give_up_attempts: u32,
    /// Consecutive malformed replies after which a task is given up (default 5).
    pub malformed_attempts: u32,
    /// Consecutive 401/403 after which an Action is given up (default 5).
    pub unauthorised_attempts: u32,
    /// Attempts at a best-effort `tasks/cancel` (default 8).
    pub cancel_attempts: u32,
    /// Leases without a commit after which a row is quarantined (default 5).
    pub quarantine_lapses: u32,
    /// How long a question may wait for its answer (default 24 h).
    pub input_timeout: Duration,
    /// Rounds of questions one Action may ask (default 16).
    pub input_rounds: u32,
    /// How often a task that waits for input is polled (default 15 s).
    pub input_poll: Duration,
    /// What happens when a server asks.
    pub input: InputPolicy,
    /// How long after a call's own timeout a silent `calling` row is taken for lost (default 30 s).
    pub call_grace: Duration,
}

/// What happens when a server asks for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputPolicy {
    /// Record the question and wait for an answer.
    Surface,
    /// Fail the Action with `input_unsupported`.
    Fail,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            poll_base: Duration::from_secs(1),
            poll_cap: Duration::from_secs(5),
            poll_interval_ceiling: Duration::from_secs(300),
            expiry_margin: Duration::from_secs(2),
            retry_base: Duration::from_secs(1),
            retry_cap: Duration::from_secs(60),
            retry_after_ceiling: Duration::from_secs(3600),
            give_up_attempts: 1_000,
            malformed_attempts: 5,
            unauthorised_attempts: 5,
            cancel_attempts: 8,
            quarantine_lapses: 5,
            input_timeout: Duration::from_secs(24 * 3600),
            input_rounds: 16,
            input_poll: Duration::from_secs(15),
            input: InputPolicy::Surface,
            call_grace: Duration::from_secs(30),
        }
    }
}
