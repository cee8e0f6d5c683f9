//! The sample server as the SDK's own client sees it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic as tests may")]

mod client;
mod immediate;
mod ledger;
mod task_tools;
