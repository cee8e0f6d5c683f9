//! One server's circuit breaker, as one replica sees it.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row, of all its requests, after which a server is left alone.
pub(crate) const FAILURES: u32 = 5;

/// Whether anything is sent to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// As usual.
    Passing,
    /// An operator stopped it.
    Paused,
    /// It went on failing: nothing until then.
    Open(Instant),
    /// It is time to see whether it answers again.
    HalfOpen,
    /// This replica is looking, until then.
    Probing(Instant),
}

/// What the others have to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It went on failing.
    Tripped,
    /// It was probed, and failed again.
    ProbeFailed,
    /// It answers again.
    Recovered,
}

/// The breaker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Breaker {
    failures: u32,
    gate: Gate,
    /// When this replica last changed the gate by itself: what was read before says nothing.
    changed: Instant,
}

impl Breaker {
    pub(crate) fn new(now: Instant) -> Self {
        Self { failures: 0, gate: Gate::Passing, changed: now }
    }

    /// Whether anything is sent, and how.
    pub(crate) fn gate(&self, now: Instant) -> Gate {
        match self.gate {
            Gate::Open(until) | Gate::Probing(until) if until <= now => Gate::HalfOpen,
            gate => gate,
        }
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_idle(&self) -> bool {
        self.failures == 0 && self.gate == Gate::Passing
    }

    /// A request brought an answer, whatever it said: the server lives.
    pub(crate) fn answered(&mut self, now: Instant) -> Option<Notice> {
        self.failures = 0;
        match self.gate {
            Gate::Passing | Gate::Paused => None,
            Gate::Open(_) | Gate::HalfOpen | Gate::Probing(_) => {
                self.set(Gate::Passing, now);
                Some(Notice::Recovered)
            }
        }
    }

    /// A request brought none. For so long nothing is sent when that is too much, until the others'
    /// common answer is read.
    pub(crate) fn failed(&mut self, now: Instant, open_for: Duration) -> Option<Notice> {
        self.failures = self.failures.saturating_add(1);
        match self.gate {
            Gate::Passing if self.failures >= FAILURES => {
                self.set(Gate::Open(now + open_for), now);
                Some(Notice::Tripped)
            }
            Gate::Probing(_) => {
                self.set(Gate::Open(now + open_for), now);
                Some(Notice::ProbeFailed)
            }
            // Requests that were out when it opened.
            Gate::Passing | Gate::Paused | Gate::Open(_) | Gate::HalfOpen => None,
        }
    }

    /// This replica looks whether the server answers again, and will know by then: should nothing have been
    /// asked after all, it is looked again.
    pub(crate) fn probe(&mut self, now: Instant, until: Instant) {
        self.set(Gate::Probing(until), now);
    }

    /// What the database said, at `read`. A probe of ours is not over because others wait for it.
    pub(crate) fn learn(&mut self, gate: Gate, read: Instant) {
        let ours =
            matches!(self.gate(read), Gate::Probing(_)) && matches!(gate, Gate::Open(_) | Gate::HalfOpen);
        if self.changed > read || ours {
            return;
        }
        if gate == Gate::Passing && self.gate != Gate::Passing {
            self.failures = 0;
        }
        self.gate = gate;
    }

    fn set(&mut self, gate: Gate, now: Instant) {
        self.gate = gate;
        self.changed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(5);

    fn tripped(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(now);
        for _ in 1..FAILURES {
            assert_eq!(breaker.failed(now, OPEN_FOR), None);
            assert_eq!(breaker.gate(now), Gate::Passing);
        }
        assert_eq!(breaker.failed(now, OPEN_FOR), Some(Notice::Tripped));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_not_after_as_many_with_an_answer_between() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        for _ in 0..100 {
            for _ in 1..FAILURES {
                assert_eq!(breaker.failed(now, OPEN_FOR), None);
            }
            assert_eq!(breaker.answered(now), None);
        }
        assert_eq!(tripped(now).gate(now), Gate::Open(now + OPEN_FOR));
    }

    #[test]
    fn failures_of_requests_that_were_out_when_it_opened_count_nothing() {
        let now = Instant::now();
        let mut breaker = tripped(now);
        assert_eq!(breaker.failed(now, OPEN_FOR), None);
        assert_eq!(breaker.gate(now + OPEN_FOR), Gate::HalfOpen);
        assert_eq!(breaker.failed(now + OPEN_FOR, OPEN_FOR), None);
    }

    #[test]
    fn a_failed_probe_opens_it_again_and_an_answer_closes_it() {
        let now = Instant::now();
        let mut breaker = tripped(now);
        breaker.probe(now + OPEN_FOR, now + 2 * OPEN_FOR);
        assert_eq!(breaker.gate(now + OPEN_FOR), Gate::Probing(now + 2 * OPEN_FOR));
        assert_eq!(breaker.gate(now + 2 * OPEN_FOR), Gate::HalfOpen, "a probe that asked nothing ends");
        assert_eq!(breaker.failed(now + OPEN_FOR, OPEN_FOR), Some(Notice::ProbeFailed));
        assert_eq!(breaker.gate(now + OPEN_FOR), Gate::Open(now + 2 * OPEN_FOR));
        breaker.probe(now + 2 * OPEN_FOR, now + 3 * OPEN_FOR);
        assert_eq!(breaker.answered(now + 2 * OPEN_FOR), Some(Notice::Recovered));
        assert_eq!(breaker.gate(now + 2 * OPEN_FOR), Gate::Passing);
        assert!(breaker.is_idle());
    }

    #[test]
    fn what_was_read_before_a_change_of_our_own_says_nothing() {
        let (read, now) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let mut breaker = tripped(now);
        breaker.learn(Gate::Passing, read);
        assert_eq!(breaker.gate(now), Gate::Open(now + OPEN_FOR));
        breaker.learn(Gate::Passing, now);
        assert!(breaker.is_idle());
    }

    #[test]
    fn a_pause_is_ended_by_no_answer() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        breaker.learn(Gate::Paused, now);
        assert_eq!(breaker.answered(now), None);
        assert_eq!(breaker.gate(now), Gate::Paused);
    }
}
