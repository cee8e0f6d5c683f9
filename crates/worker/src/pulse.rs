//! Whether a replica's loops go on: what `/healthz` says.
//!
//! A loop that waits for work is well, however long it waits. One that has ended though nobody asked it to, or
//! that has worked at one thing for longer than any database's trouble takes, is not: only a restart helps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longer than one round of any loop takes in the worst case: a database that answers nothing is given up
/// after twice the statement time-out, and a suspect row after a minute.
const LONGEST_ROUND: Duration = Duration::from_secs(300);

/// The loops of one replica.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse(Arc<Mutex<Vec<Beat>>>);

#[derive(Debug)]
struct Beat {
    name: &'static str,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    WorksSince(Instant),
    Ended,
}

/// One loop's own handle. Dropping it says that the loop has ended.
#[derive(Debug)]
pub(crate) struct LoopPulse {
    pulse: Pulse,
    index: usize,
}

/// A round of a loop; dropping it says that the loop waits again.
#[derive(Debug)]
pub(crate) struct Round<'a>(&'a LoopPulse);

impl Pulse {
    /// A loop begins.
    pub(crate) fn of(&self, name: &'static str) -> LoopPulse {
        let mut beats = self.lock();
        beats.push(Beat { name, state: State::Waits });
        LoopPulse { pulse: self.clone(), index: beats.len() - 1 }
    }

    /// The first loop that does not go on, in a sentence; none when all do.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock().iter().find_map(|beat| match beat.state {
            State::Ended => Some(format!("the {} loop has ended", beat.name)),
            State::WorksSince(since) if since.elapsed() > LONGEST_ROUND => {
                Some(format!("the {} loop has not come round for {:?}", beat.name, LONGEST_ROUND))
            }
            State::Waits | State::WorksSince(_) => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Beat>> {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoopPulse {
    /// The loop works, until this is dropped.
    pub(crate) fn round(&self) -> Round<'_> {
        self.set(State::WorksSince(Instant::now()));
        Round(self)
    }

    fn set(&self, state: State) {
        if let Some(beat) = self.pulse.lock().get_mut(self.index) {
            beat.state = state;
        }
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.0.set(State::Waits);
    }
}

impl Drop for LoopPulse {
    fn drop(&mut self) {
        self.set(State::Ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_waits_is_well_for_ever_and_one_that_works_only_for_so_long() {
        let pulse = Pulse::default();
        let (waits, works) = (pulse.of("waiting"), pulse.of("working"));
        drop(waits.round());
        let round = works.round();
        tokio::time::advance(LONGEST_ROUND).await;
        assert_eq!(pulse.trouble(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pulse.trouble().unwrap().contains("the working loop has not come round"));
        drop(round);
        tokio::time::advance(LONGEST_ROUND * 100).await;
        assert_eq!(pulse.trouble(), None);
    }

    #[test]
    fn a_loop_that_ends_in_a_panic_is_told() {
        let pulse = Pulse::default();
        let leases = pulse.of("leasing");
        let thread = std::thread::spawn(move || {
            let _round = leases.round();
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(pulse.trouble().as_deref(), Some("the leasing loop has ended"));
    }
}
