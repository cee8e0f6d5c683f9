//! Which client serves a request: one per registration and endpoint, and a few where one is busy.
//!
//! A client of the SDK reads and writes all its messages in one task, so one client is one processor at most.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Target;

/// Requests in flight on every client of a target before it gets another.
const BUSY: usize = 64;

/// How often those that are dead or were not used for long are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How a client's place stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is none yet.
    Connecting,
    /// It is there.
    Connected,
    /// Its transport has died.
    Dead,
}

/// Where a client is, or is to be.
pub(super) trait Place: Default {
    /// How it stands.
    fn state(&self) -> State;
}

/// Places by target.
#[derive(Debug)]
pub(super) struct Pool<P> {
    places: HashMap<Target, Vec<Used<P>>>,
    idle: Duration,
    most: usize,
    swept: Instant,
}

#[derive(Debug)]
struct Used<P> {
    place: Arc<P>,
    at: Instant,
}

impl<P: Place> Used<P> {
    fn new(now: Instant) -> Self {
        Self { place: Arc::default(), at: now }
    }

    /// Whoever uses it holds it.
    fn in_flight(&self) -> usize {
        Arc::strong_count(&self.place) - 1
    }
}

impl<P: Place> Pool<P> {
    /// `most` for one target; one that was not used for `idle` is closed.
    pub(super) fn new(idle: Duration, most: usize, now: Instant) -> Self {
        Self { places: HashMap::new(), idle, most: most.max(1), swept: now }
    }

    /// The least busy place of a target, or a new one when all are busy.
    pub(super) fn pick(&mut self, target: &Target, now: Instant) -> Arc<P> {
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.sweep(now);
        }
        if !self.places.contains_key(target) {
            self.places.insert(target.clone(), Vec::new());
        }
        let Some(places) = self.places.get_mut(target) else { return Arc::default() };
        if places.iter().any(|used| used.place.state() == State::Dead) {
            places.retain(|used| used.place.state() != State::Dead);
        }
        let all_busy =
            places.iter().all(|used| used.in_flight() >= BUSY && used.place.state() == State::Connected);
        if all_busy && places.len() < self.most {
            places.push(Used::new(now));
            // The one whose handshake this request makes.
            return places.last().map(|used| Arc::clone(&used.place)).unwrap_or_default();
        }
        let Some(used) = places.iter_mut().min_by_key(|used| used.in_flight()) else { return Arc::default() };
        used.at = now;
        Arc::clone(&used.place)
    }

    /// Gives a place up; those that use it keep it.
    pub(super) fn retire(&mut self, target: &Target, place: &Arc<P>) {
        if let Some(places) = self.places.get_mut(target) {
            places.retain(|used| !Arc::ptr_eq(&used.place, place));
        }
    }

    fn sweep(&mut self, now: Instant) {
        for places in self.places.values_mut() {
            places.retain(|used| {
                let unused = used.in_flight() == 0 && now.duration_since(used.at) > self.idle;
                !unused && used.place.state() != State::Dead
            });
        }
        self.places.retain(|_, places| !places.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use david_reconciler::RegistrationId;

    #[derive(Debug, Default)]
    struct Connected;

    impl Place for Connected {
        fn state(&self) -> State {
            State::Connected
        }
    }

    fn target() -> Target {
        Target { registration_id: RegistrationId::new("reg"), url: "http://h/".to_owned(), credential: None }
    }

    #[test]
    fn a_target_gets_another_client_only_when_all_it_has_are_busy_and_never_more_than_it_may() {
        let now = Instant::now();
        let mut pool = Pool::<Connected>::new(Duration::from_secs(60), 3, now);
        let mut held: Vec<Arc<Connected>> = Vec::new();
        for number in 0..BUSY * 5 {
            held.push(pool.pick(&target(), now));
            let places = pool.places[&target()].len();
            assert_eq!(places, (number / BUSY + 1).min(3), "after {number}");
        }
        let mut loads: Vec<usize> = pool.places[&target()].iter().map(Used::in_flight).collect();
        loads.sort_unstable();
        assert!(loads[2] - loads[0] <= BUSY, "the load is shared: {loads:?}");
    }

    #[test]
    fn clients_that_nobody_used_for_long_are_closed_and_those_in_use_are_not() {
        let now = Instant::now();
        let mut pool = Pool::<Connected>::new(Duration::from_secs(60), 2, now);
        let used = pool.pick(&target(), now);
        let other = Target { url: "http://other/".to_owned(), ..target() };
        drop(pool.pick(&other, now));
        let later = now + Duration::from_secs(61);
        drop(pool.pick(&Target { url: "http://third/".to_owned(), ..target() }, later));
        assert!(!pool.places.contains_key(&other));
        assert!(Arc::ptr_eq(&used, &pool.pick(&target(), later)));
    }
}
