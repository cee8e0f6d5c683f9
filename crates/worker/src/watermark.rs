//! Where in the index of due rows a lease starts to look.
//!
//! Rows that were leased a moment ago have moved on, but until vacuum comes, and it cannot come while anybody
//! has an old snapshot, their dead entries lie at the head of the index, where each lease walks over them.
//! What a full batch has taken lies behind it for good, but for what was made due since: a cancel's `due_at` lies
//! before its commit. So the mark keeps a distance, and every second a lease looks at everything.

use std::time::Duration;

use david_reconciler::Timestamp;
use david_schema::LeaseBatch;
use tokio::time::Instant;

/// How far before the last row of a full batch the next lease starts.
const DISTANCE: Duration = Duration::from_millis(100);

/// How often a lease looks at everything.
const SWEEP: Duration = Duration::from_secs(1);

/// The low-water mark of one replica.
#[derive(Debug)]
pub(crate) struct Watermark {
    from: Option<Timestamp>,
    swept: Instant,
}

impl Watermark {
    pub(crate) fn new(now: Instant) -> Self {
        Self { from: None, swept: now }
    }

    /// From where the lease at `now` looks; none is from the beginning.
    pub(crate) fn from(&mut self, now: Instant) -> Option<Timestamp> {
        if self.from.is_none() || now.duration_since(self.swept) >= SWEEP {
            self.from = None;
            self.swept = now;
        }
        self.from
    }

    /// After a lease: only as long as batches are full is more due than was taken.
    pub(crate) fn learn(&mut self, batch: &LeaseBatch, full: bool) {
        let newest = batch.newest.filter(|_| full);
        let distance = i64::try_from(DISTANCE.as_micros()).unwrap_or(i64::MAX);
        self.from = newest.map(|newest| Timestamp(newest.0.saturating_sub(distance)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(newest: i64) -> LeaseBatch {
        LeaseBatch { newest: Some(Timestamp(newest)), ..LeaseBatch::default() }
    }

    #[test]
    fn it_follows_full_batches_at_a_distance_and_is_gone_after_a_short_one() {
        let now = Instant::now();
        let mut mark = Watermark::new(now);
        assert_eq!(mark.from(now), None);
        mark.learn(&batch(1_000_000), true);
        assert_eq!(mark.from(now), Some(Timestamp(900_000)));
        mark.learn(&batch(2_000_000), false);
        assert_eq!(mark.from(now), None);
    }

    #[test]
    fn every_second_a_lease_looks_at_everything() {
        let now = Instant::now();
        let mut mark = Watermark::new(now);
        for quarter in 0..40 {
            let now = now + Duration::from_millis(250) * quarter;
            let from = mark.from(now);
            assert_eq!(from.is_none(), quarter % 4 == 0, "{quarter}");
            mark.learn(&batch(1_000_000), true);
        }
    }
}
