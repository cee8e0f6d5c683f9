//! A private Postgres cluster on loopback, gone with the process that started it: what tests and benchmarks work
//! on, and what `david-tasks dev` keeps in a folder.
//!
//! | module | noun |
//! |---|---|
//! | [`Postgres`] | the running server |
//! | [`spawner`] | children that do not outlive this process |

mod postgres;
pub mod spawner;

pub use postgres::{InUse, Postgres};
