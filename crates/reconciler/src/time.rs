//! Instants of the database's clock.

use std::time::Duration;

/// Microseconds since the Unix epoch, by the database's clock only: no replica's wall clock is
/// ever compared with a stored instant (DESIGN rule 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This instant plus `delay`, saturating: a server may say any `u64` of milliseconds.
    pub fn saturating_add(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// This instant less `delay`, saturating.
    pub fn saturating_sub(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// How long from `earlier` to this instant; zero when `earlier` lies after it.
    pub fn since(self, earlier: Self) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0)).map_or(Duration::ZERO, Duration::from_micros)
    }
}
