//! The registrations of held rows, read anew every second.
//!
//! A lease reads its row's registration; a row that is held for a term must not be polled for the rest
//! of it once its registration is disabled or gone (DESIGN rule 11).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use david_reconciler::RegistrationId;
use david_schema::{Ledger, Registered, causes};
use tokio::time::{Instant, MissedTickBehavior};

use crate::pulse::LoopPulse;

/// How often they are read.
const EVERY: Duration = Duration::from_secs(1);

/// What was read longer ago than this says nothing any more.
const GOOD_FOR: Duration = Duration::from_secs(3);

/// What is known of a registration.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// As it is.
    Found(Arc<Registered>),
    /// It was deleted.
    Gone,
    /// Nobody knows: it was not read for too long.
    Unknown,
}

/// The registrations of one replica's held rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registrar(Arc<Mutex<HashMap<RegistrationId, Entry>>>);

#[derive(Debug)]
struct Entry {
    /// How many rows are held.
    held: usize,
    /// None once it is gone.
    found: Option<Arc<Registered>>,
    read: Instant,
}

impl Entry {
    /// Keeps the present value when nothing has changed: held rows tell a change by the pointer.
    fn learn(&mut self, now: Option<&Arc<Registered>>, read: Instant) {
        if self.found.as_ref() != now {
            self.found = now.map(Arc::clone);
        }
        self.read = read;
    }
}

/// A held row's interest in its registration. Dropped with the row.
#[derive(Debug)]
pub(crate) struct Interest {
    registrar: Registrar,
    id: RegistrationId,
}

impl Registrar {
    /// A row is held, whose lease read this at `read`.
    pub(crate) fn hold(&self, found: &Arc<Registered>, read: Instant) -> Interest {
        let id = &found.registration.id;
        let mut entries = self.lock();
        let entry = entries.entry(id.clone()).or_insert_with(|| Entry {
            held: 0,
            found: Some(Arc::clone(found)),
            read,
        });
        entry.held += 1;
        if entry.read < read {
            entry.learn(Some(found), read);
        }
        Interest { registrar: self.clone(), id: id.clone() }
    }

    /// Reads them for as long as the replica holds rows.
    pub(crate) async fn run(self, ledger: Ledger, pulse: LoopPulse) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let ids: Vec<RegistrationId> = self.lock().keys().cloned().collect();
            if ids.is_empty() {
                continue;
            }
            let _round = pulse.round();
            let read = Instant::now();
            match ledger.registrations(&ids).await {
                Ok(found) => self.learn(&ids, found, read),
                Err(error) => {
                    tracing::warn!(
                        error = causes(&error),
                        "the registrations of held rows could not be read"
                    );
                }
            }
        }
    }

    fn learn(&self, ids: &[RegistrationId], mut found: HashMap<RegistrationId, Registered>, read: Instant) {
        let mut entries = self.lock();
        for id in ids {
            let Some(entry) = entries.get_mut(id).filter(|entry| entry.read <= read) else { continue };
            entry.learn(found.remove(id).map(Arc::new).as_ref(), read);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RegistrationId, Entry>> {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interest {
    /// The registration as it is now.
    pub(crate) fn look(&self) -> Known {
        match self.registrar.lock().get(&self.id) {
            Some(entry) if entry.read.elapsed() > GOOD_FOR => Known::Unknown,
            Some(Entry { found: Some(found), .. }) => Known::Found(Arc::clone(found)),
            Some(_) => Known::Gone,
            None => Known::Unknown,
        }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut entries = self.registrar.lock();
        if let Some(entry) = entries.get_mut(&self.id) {
            entry.held -= 1;
            if entry.held == 0 {
                entries.remove(&self.id);
            }
        }
    }
}
