//! Named places at which a replica kills itself, for the tests that prove that it may.
//!
//! Compiled in only with the feature `crash-points`. `DAVID_TASKS_CRASH_AT=point` or `point:n`
//! kills the process, without unwinding or flushing anything, when the point is reached for the
//! `n`th time.

/// Where a replica can be made to die: at each step of the path, on both sides of every write and
/// every remote call.
pub const POINTS: [&str; 12] = [
    "leased",
    "before_begin_call",
    "call_begun",
    "call_answered",
    "call_committed",
    "poll_answered",
    "poll_committed",
    "answers_marked",
    "answers_sent",
    "cancel_sent",
    "before_commit",
    "after_commit",
];

/// Dies here if so configured.
#[cfg(feature = "crash-points")]
pub(crate) fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CONFIGURED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static REACHED: AtomicU64 = AtomicU64::new(0);

    debug_assert!(POINTS.contains(&name), "crash point {name} is not listed");
    let configured = CONFIGURED.get_or_init(|| {
        let value = std::env::var("DAVID_TASKS_CRASH_AT").ok()?;
        match value.split_once(':') {
            Some((point, count)) => Some((point.to_owned(), count.parse().ok()?)),
            None => Some((value, 1)),
        }
    });
    if let Some((point, count)) = configured
        && point == name
        && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        std::process::abort();
    }
}

/// Nothing, in a binary for production.
#[cfg(not(feature = "crash-points"))]
pub(crate) fn point(_name: &'static str) {}
