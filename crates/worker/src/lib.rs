//! The worker: the only crate with IO beyond SQL.
//!
//! ```text
//! leaser ─→ drive: plan → observe → decide ─→ committer ─→ (released)
//!   SQL            pure    remote    pure        SQL, fenced
//! ```
//!
//! The `leaser` takes due rows, a `drive` takes one row through the path, the `committer`
//! gathers decisions into batches. [`remote`] is the only module that names the MCP SDK's types.
//! There is no start-up recovery: a row found after a crash is leased like any other.

pub mod audit;
mod authority;
mod bell;
mod cli;
mod clock;
mod committer;
pub mod config;
mod context;
pub mod crash;
pub mod credentials;
mod drive;
mod endpoint;
pub mod endpoint_policy;
mod full;
mod health;
mod holder;
mod lanes;
mod leaser;
mod metrics;
mod operate;
mod orphan;
mod outgoing;
mod progress;
mod pulse;
mod queue;
mod registrar;
pub mod remote;
pub mod retention;
mod signals;
mod story;
mod telemetry;
mod traces;
mod watermark;
pub mod worker;

pub use cli::main;
