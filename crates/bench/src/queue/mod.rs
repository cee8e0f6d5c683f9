//! The figures of the database alone, by their letters: C, D, E, F1 and the first half of G. No server and no
//! replica takes part; each has databases of its own on the stand's Postgres.

mod database;
mod inserts;
mod lease;
mod peers;
mod schedule;
mod sides;
mod tools;
mod whole;

// The worker's own, line by line: a lease that looks at dead entries which the worker's passes over, or the
// other way round, would measure something else.
#[path = "../../../worker/src/watermark.rs"]
mod watermark;

pub(crate) use inserts::inserts;
pub(crate) use lease::resting;
pub(crate) use schedule::{schedule, snapshot};
pub(crate) use whole::whole;

use std::time::Duration;

/// The product's default.
const TERM: Duration = Duration::from_secs(30);
