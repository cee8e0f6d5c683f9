//! The ledger against a real Postgres: one concern per module.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ambiguous;
mod batches;
mod calling;
mod cancelling;
mod checks;
mod contention;
mod fairness;
mod fencing;
mod handover;
mod health;
mod intake;
mod leasing;
mod lowering;
mod migrating;
mod questions;
mod racing;
mod starts;
mod support;
