//! Servers that have as many calls in flight as their registration allows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use david_reconciler::RegistrationId;
use tokio::time::Instant;

/// For how long no call of such a server is leased, unless one of this replica's own ends before.
const AVOIDED: Duration = Duration::from_millis(500);

/// For how long few at a time are leased afterwards: each that finds no slot costs a write.
const REMEMBERED: Duration = Duration::from_secs(10);

/// How many calls of a server that was full a moment ago may be leased at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// A few, since there was no slot a moment ago.
    Few,
    /// None.
    None,
}

/// The servers that were full a moment ago.
#[derive(Debug, Clone, Default)]
pub(crate) struct FullServers(Arc<Mutex<HashMap<RegistrationId, Mark>>>);

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    one_ended: bool,
}

impl FullServers {
    /// There was no slot for a call of this server.
    pub(crate) fn mark(&self, server: &RegistrationId) {
        self.lock().insert(server.clone(), Mark { at: Instant::now(), one_ended: false });
    }

    /// A call of this replica ended, and its slot is free.
    pub(crate) fn one_ended(&self, server: &RegistrationId) {
        if let Some(mark) = self.lock().get_mut(server) {
            mark.one_ended = true;
        }
    }

    /// What is full, or was; nothing most of the time.
    pub(crate) fn rooms(&self) -> HashMap<RegistrationId, Room> {
        let mut marks = self.lock();
        marks.retain(|_, mark| mark.at.elapsed() < REMEMBERED);
        let room = |mark: &Mark| {
            if mark.at.elapsed() < AVOIDED && !mark.one_ended { Room::None } else { Room::Few }
        };
        marks.iter().map(|(id, mark)| (id.clone(), room(mark))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RegistrationId, Mark>> {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
