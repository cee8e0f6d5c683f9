//! End-to-end tests: real replicas as processes, real Postgres, real MCP servers.
//!
//! [`World`] is one test's: a database, a sample server registered for one user, and replicas with
//! short terms. Tests wait on conditions and move `due_at`; they never sleep to make time pass.

mod action;
pub mod collector;
pub mod fields;
mod look;
pub mod raw;
pub mod said;
pub mod scrape;
pub mod shown;
pub mod stand;
mod world;

pub use action::{Action, Submission};
pub use look::Standing;
pub use world::{CREDENTIAL, RAW, REGISTRATION, USER, World};
