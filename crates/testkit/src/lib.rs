//! Development only: what the tests need around the system under test.
//!
//! | module | noun |
//! |---|---|
//! | [`Postgres`] | a private cluster, started in a second, gone with the process (crate `david_cluster`) |
//! | [`test_db`] | a fresh migrated database per test |
//! | [`raw_server`] | an MCP server that answers exactly what a test tells it to |
//! | [`pg_proxy`] | a TCP proxy that misbehaves at COMMIT |
//! | [`replica`] | a `david-tasks` process that can be killed, stopped and resumed |
//! | [`wait`] | waiting on a condition, with a failure that says what was seen |
//!
//! A *well-behaved* MCP server is `david_sample::Server`.

mod pg_bouncer;
pub mod pg_proxy;
pub mod raw_server;
pub mod replica;
pub mod test_db;
pub mod wait;

mod admin;

pub use david_cluster::Postgres;
pub use pg_bouncer::PgBouncer;
pub use pg_proxy::PgProxy;
pub use raw_server::{RawServer, Recorded, Reply};
pub use replica::Replica;
pub use test_db::TestDb;
pub use wait::eventually;
