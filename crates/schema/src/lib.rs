//! The only crate that speaks SQL. Statements live in `sql/`, one per file, checked at compile time.
//!
//! [`Ledger`] is the door: [`Ledger::lease`] takes due rows, [`Ledger::commit_batch`] writes decisions,
//! [`Ledger::release`] gives rows back untouched. Nothing here decides anything about an Action:
//! that is the reconciler's job, whose types it speaks.
//!
//! No transaction and no pooled connection outlives a call into this crate, so none can be held
//! across a remote call (DESIGN rule 5).

mod causes;
mod changes;
mod commit;
mod error;
mod events;
mod fleet;
mod health;
mod hold;
mod lease;
mod leased;
mod ledger;
mod level;
mod migrate;
pub mod operate;
mod progress;
mod registrations;
mod retention;
mod sample;
mod settle;
mod slots;
mod wake_ups;
mod write;

pub use causes::causes;
pub use commit::{BatchAnswer, Committed};
pub use error::{CommitError, Fault, LedgerError, fault_of};
pub use fleet::{Connections, STUCK_REASONS};
pub use health::{Closed, OpenFor, Seen, Trip};
pub use lease::{Due, Lane, LeaseBatch, ReplicaId};
pub use leased::{BadRow, CallRequest, Endpoint, Leased, Registered, TraceContext};
pub use ledger::{ConnectOptions, Ledger, Sessions};
pub use level::{LevelError, check_level};
pub use migrate::{MigrateError, Migrated, migrate};
pub use retention::Pruned;
pub use wake_ups::WakeUps;
pub use write::{Guard, Write};
