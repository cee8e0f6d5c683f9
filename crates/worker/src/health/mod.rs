//! How the servers are: what this replica sees of them, and what all replicas know.
//!
//! Every request tells how it ended ([`Health::seen`]). A server that goes on failing is left alone: the
//! replica that finds out writes it to the database, where the others read it within a second, and after a
//! while one of them sends one request to see (a circuit breaker). Operators pause servers in the same place.
//! What is closed is not leased; what is held of it is given back at its next look.

mod breaker;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use david_reconciler::{RegistrationId, fit};
use david_schema::{Closed, Ledger, OpenFor, Seen, Trip, causes};
use tokio::time::{Instant, MissedTickBehavior};

use crate::metrics::Metrics;
use crate::pulse::LoopPulse;

use breaker::{Breaker, Gate, Notice};

/// How often news is written, if there is any.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// How often what all know is read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How often figures for people are written.
const TALLY_EVERY: Duration = Duration::from_secs(10);

/// The health of servers, shared by all of a replica's rows.
#[derive(Debug, Clone)]
pub struct Health {
    open_for: OpenFor,
    metrics: Arc<Metrics>,
    servers: Arc<Mutex<Servers>>,
}

#[derive(Debug, Default)]
struct Servers {
    known: HashMap<RegistrationId, Server>,
    /// One each: the last. A statement cannot write the same breaker twice.
    trips: HashMap<RegistrationId, Trip>,
    recovered: HashSet<RegistrationId>,
}

#[derive(Debug)]
struct Server {
    breaker: Breaker,
    tally: Tally,
}

/// What is to be added to the database's figures.
#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    failures: u64,
    took: Duration,
    last_error: Option<String>,
}

/// The servers from which nothing is leased as usual.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClosedServers {
    /// All of them.
    pub(crate) all: Vec<RegistrationId>,
    /// Those of them of which one row may be leased, to see.
    pub(crate) half_open: Vec<RegistrationId>,
}

impl ClosedServers {
    /// Those of which nothing at all may be leased.
    pub(crate) fn shut(&self) -> Vec<RegistrationId> {
        self.all.iter().filter(|id| !self.half_open.contains(id)).cloned().collect()
    }
}

impl Health {
    /// Nothing is known yet. Breakers stay open for so long.
    pub(crate) fn new(open_for: OpenFor, metrics: Arc<Metrics>) -> Self {
        Self { open_for, metrics, servers: Arc::default() }
    }

    /// A request to this server ended: answered after so long, or not, with the reason in a sentence.
    pub(crate) fn seen(&self, id: &RegistrationId, answered: Result<Duration, &str>) {
        let now = Instant::now();
        // The server's words: any length, and Postgres takes no NUL.
        let answered = answered.map_err(fit);
        let mut servers = self.lock();
        let server = servers.of(id, now);
        server.tally.requests += 1;
        let notice = match &answered {
            Ok(took) => {
                server.tally.took += *took;
                server.breaker.answered(now)
            }
            Err(reason) => {
                server.tally.failures += 1;
                server.tally.last_error = Some(reason.clone());
                server.breaker.failed(now, self.open_for.first)
            }
        };
        let Some(notice) = notice else { return };
        let breakers = &self.metrics.breakers;
        match notice {
            Notice::Recovered => breakers.recovered.inc(),
            Notice::Tripped => breakers.tripped.inc(),
            Notice::ProbeFailed => breakers.probe_failed.inc(),
        };
        let reason = answered.err().unwrap_or_default();
        match notice {
            Notice::Recovered => {
                tracing::info!(registration.id = %id, "the server answers again");
                servers.trips.remove(id);
                servers.recovered.insert(id.clone());
            }
            Notice::Tripped | Notice::ProbeFailed => {
                tracing::warn!(registration.id = %id, reason, "the server is left alone for a while");
                servers.recovered.remove(id);
                let probe = notice == Notice::ProbeFailed;
                servers.trips.insert(id.clone(), Trip { registration: id.clone(), reason, probe });
            }
        }
    }

    /// Whether anything may be sent to this server now.
    pub(crate) fn admits(&self, id: &RegistrationId) -> bool {
        let servers = self.lock();
        servers.known.get(id).is_none_or(|server| {
            matches!(server.breaker.gate(Instant::now()), Gate::Passing | Gate::Probing(_))
        })
    }

    /// A row was leased to see whether the server answers again, which takes so long at most.
    pub(crate) fn probe(&self, id: &RegistrationId, answer_within: Duration) {
        let now = Instant::now();
        self.lock().of(id, now).breaker.probe(now, now + answer_within);
    }

    /// The servers that are closed now.
    pub(crate) fn closed(&self) -> ClosedServers {
        let now = Instant::now();
        let mut closed = ClosedServers::default();
        for (id, server) in &self.lock().known {
            match server.breaker.gate(now) {
                Gate::Passing => {}
                Gate::Paused | Gate::Open(_) | Gate::Probing(_) => closed.all.push(id.clone()),
                Gate::HalfOpen => {
                    closed.all.push(id.clone());
                    closed.half_open.push(id.clone());
                }
            }
        }
        closed
    }

    /// The same, with a word for why.
    pub(crate) fn not_passing(&self) -> Vec<(RegistrationId, &'static str)> {
        let now = Instant::now();
        let why = |(id, server): (&RegistrationId, &Server)| {
            let word = match server.breaker.gate(now) {
                Gate::Passing => return None,
                Gate::Paused => "paused",
                Gate::Open(_) => "open",
                Gate::HalfOpen | Gate::Probing(_) => "half_open",
            };
            Some((id.clone(), word))
        };
        self.lock().known.iter().filter_map(why).collect()
    }

    /// Tells and reads, for as long as the replica runs.
    pub(crate) async fn run(self, ledger: Ledger, pulse: LoopPulse) {
        let mut tick = tokio::time::interval(TELL_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut read, mut tallied) = (None::<Instant>, Instant::now());
        loop {
            tick.tick().await;
            let _round = pulse.round();
            self.tell(&ledger).await;
            if read.is_none_or(|read| read.elapsed() >= READ_EVERY) {
                let began = Instant::now();
                read = Some(began);
                match ledger.closed().await {
                    Ok(closed) => self.learn(&closed, began),
                    Err(error) => {
                        tracing::warn!(error = causes(&error), "which servers are closed could not be read");
                    }
                }
            }
            if tallied.elapsed() >= TALLY_EVERY {
                tallied = Instant::now();
                self.write_tallies(&ledger).await;
            }
        }
    }

    async fn tell(&self, ledger: &Ledger) {
        let (trips, recovered) = {
            let mut servers = self.lock();
            (std::mem::take(&mut servers.trips), std::mem::take(&mut servers.recovered))
        };
        let (trips, recovered) =
            (trips.into_values().collect::<Vec<_>>(), recovered.into_iter().collect::<Vec<_>>());
        if !trips.is_empty()
            && let Err(error) = ledger.trip(&trips, self.open_for).await
        {
            tracing::warn!(error = causes(&error), "no other replica knows of a failing server yet");
            self.lock().tell_again(trips);
        }
        if !recovered.is_empty()
            && let Err(error) = ledger.close(&recovered).await
        {
            tracing::warn!(error = causes(&error), "no other replica knows that a server answers again yet");
            let mut servers = self.lock();
            let Servers { trips, recovered: again, .. } = &mut *servers;
            again.extend(recovered.into_iter().filter(|id| !trips.contains_key(id)));
        }
    }

    fn learn(&self, closed: &HashMap<RegistrationId, Closed>, read: Instant) {
        let mut servers = self.lock();
        for id in closed.keys() {
            servers.of(id, read);
        }
        let Servers { known, trips, recovered } = &mut *servers;
        for (id, server) in known {
            // What the database has not been told yet, it cannot know.
            if recovered.contains(id) || trips.contains_key(id) {
                continue;
            }
            let gate = match closed.get(id) {
                None => Gate::Passing,
                Some(Closed::Paused) => Gate::Paused,
                Some(Closed::Open(left)) => Gate::Open(read + *left),
                Some(Closed::HalfOpen) => Gate::HalfOpen,
            };
            server.breaker.learn(gate, read);
        }
    }

    async fn write_tallies(&self, ledger: &Ledger) {
        let seen: Vec<(RegistrationId, Seen)> = {
            let mut servers = self.lock();
            let seen =
                servers.known.iter_mut().filter_map(|(id, server)| Some((id.clone(), server.tally.take()?)));
            let seen = seen.collect();
            servers.known.retain(|_, server| !server.breaker.is_idle() || server.tally.requests > 0);
            seen
        };
        if !seen.is_empty()
            && let Err(error) = ledger.write_health(&seen).await
        {
            // For people only; the next ten seconds say it again.
            tracing::debug!(error = causes(&error), "what was seen of servers was not written");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Servers> {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Servers {
    fn of(&mut self, id: &RegistrationId, now: Instant) -> &mut Server {
        self.known
            .entry(id.clone())
            .or_insert_with(|| Server { breaker: Breaker::new(now), tally: Tally::default() })
    }

    /// What could not be written, unless something newer is known.
    fn tell_again(&mut self, trips: Vec<Trip>) {
        for trip in trips {
            if !self.recovered.contains(&trip.registration) {
                self.trips.entry(trip.registration.clone()).or_insert(trip);
            }
        }
    }
}

impl Tally {
    /// What gathered, if anything did.
    fn take(&mut self) -> Option<Seen> {
        let Self { requests, failures, took, last_error } = std::mem::take(self);
        let answered = u32::try_from(requests - failures).unwrap_or(u32::MAX);
        (requests > 0).then(|| Seen { requests, failures, latency: took.checked_div(answered), last_error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::breaker::FAILURES;

    #[test]
    fn a_breaker_is_told_of_once_however_often_it_opens_in_between_and_in_words_that_can_be_stored() {
        let open_for = OpenFor { first: Duration::from_secs(1), longest: Duration::from_secs(1) };
        let health = Health::new(open_for, Metrics::new());
        let server = RegistrationId::new("sick");
        let fail = || (0..FAILURES).for_each(|_| health.seen(&server, Err(&"\0".repeat(10_000))));
        fail();
        assert!(!health.admits(&server));
        health.seen(&server, Ok(Duration::ZERO));
        assert!(health.admits(&server));
        assert!(health.lock().trips.is_empty(), "it answers again, which is told instead");
        fail();
        health.lock().known.clear();
        fail();
        let servers = health.lock();
        assert_eq!((servers.trips.len(), servers.recovered.len()), (1, 0));
        let reason = &servers.trips[&server].reason;
        assert!(!reason.contains('\0') && reason.chars().count() < 1_000, "{reason}");
    }

    #[test]
    fn what_could_not_be_told_is_told_again_unless_something_newer_is_known() {
        let open_for = OpenFor { first: Duration::from_secs(1), longest: Duration::from_secs(1) };
        let health = Health::new(open_for, Metrics::new());
        let trip = |id: &str, reason: &str| Trip {
            registration: RegistrationId::new(id),
            reason: reason.to_owned(),
            probe: false,
        };
        let mut servers = health.lock();
        servers.recovered.insert(RegistrationId::new("well"));
        servers.trips.insert(RegistrationId::new("worse"), trip("worse", "new"));
        servers.tell_again(vec![trip("well", "old"), trip("worse", "old"), trip("sick", "old")]);
        let mut told: Vec<_> =
            servers.trips.values().map(|trip| (trip.registration.as_str(), trip.reason.as_str())).collect();
        told.sort_unstable();
        assert_eq!(told, [("sick", "old"), ("worse", "new")]);
    }
}
