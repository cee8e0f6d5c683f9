//! Time while a lease is held: the database's, carried on by the monotonic clock.

use std::time::Duration;

use david_reconciler::Timestamp;
use tokio::time::Instant;

/// One lease's clock. Both its readings err on the safe side: it starts before the lease was
/// sent, so the lease never seems longer than it is (DESIGN rules 4 and 13).
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    sent: Instant,
    database: Timestamp,
    term: Duration,
}

impl LeaseClock {
    /// `sent` is read before the lease statement leaves, `database` is what the statement returned.
    pub(crate) fn new(sent: Instant, database: Timestamp, term: Duration) -> Self {
        Self { sent, database, term }
    }

    /// The database's time now, ahead of it by the time the lease took to arrive.
    pub(crate) fn now(&self) -> Timestamp {
        self.database.saturating_add(self.sent.elapsed())
    }

    /// When the lease was sent, before everything that it read.
    pub(crate) fn sent(&self) -> Instant {
        self.sent
    }

    /// When the lease lapses, at the earliest.
    pub(crate) fn lapses_at(&self) -> Instant {
        self.sent + self.term
    }

    /// The deadline of a remote call that may take `limit`, if that and the write after it fit
    /// what is left of the lease.
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Instant> {
        self.deadline_after(Duration::ZERO, limit)
    }

    /// The same of a call that is made after a while.
    pub(crate) fn deadline_after(&self, wait: Duration, limit: Duration) -> Option<Instant> {
        let deadline = Instant::now() + wait.min(A_YEAR) + limit;
        (deadline + COMMIT_MARGIN <= self.lapses_at()).then_some(deadline)
    }

    /// A longer lease, taken with a commit that was sent at `sent`.
    pub(crate) fn extended(&self, sent: Instant, term: Duration) -> Self {
        Self { sent, database: self.database.saturating_add(sent.duration_since(self.sent)), term }
    }
}

/// Longer than any lease; an instant may not overflow.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is kept of a lease for the write after a remote call.
pub(crate) const COMMIT_MARGIN: Duration = Duration::from_secs(3);

/// The shortest lease in which a call of `limit` can be made: with time for the write after it, and
/// as much again for a row to wait its turn before it. Without that a row that waited at all would
/// be released and leased again for ever.
pub(crate) fn shortest_term(limit: Duration) -> Duration {
    limit + 2 * COMMIT_MARGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_does_not_fit_the_lease_is_not_started() {
        let clock = LeaseClock::new(Instant::now(), Timestamp(0), Duration::from_secs(30));
        assert!(clock.deadline(Duration::from_secs(10)).is_some());
        tokio::time::advance(Duration::from_secs(18)).await;
        assert!(clock.deadline(Duration::from_secs(10)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_shortest_lease_a_row_may_wait_before_its_call() {
        let limit = Duration::from_secs(10);
        let clock = LeaseClock::new(Instant::now(), Timestamp(0), shortest_term(limit));
        tokio::time::advance(COMMIT_MARGIN).await;
        assert!(clock.deadline(limit).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_database_clock_goes_on_while_a_lease_is_held() {
        let clock = LeaseClock::new(Instant::now(), Timestamp(1_000_000), Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clock.now(), Timestamp(3_000_000));
    }
}
