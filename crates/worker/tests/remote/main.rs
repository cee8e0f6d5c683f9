//! The adapter against servers that do everything wrong, one concern per file: whatever a server
//! does, a request returns by its deadline, and says no more than what was seen.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

mod bearer;
mod clients;
mod errors;
mod handles;
mod headers;
mod ids;
mod legacy;
mod limits;
mod names;
mod polls;
mod replies;
mod sample;
mod secrets;
mod statuses;
mod support;
