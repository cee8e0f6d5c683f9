//! The decision table: its rows, its invariants, its envelope, its document.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod decision_table;
mod envelopes;
mod properties;
mod scene;
mod state_machine;
