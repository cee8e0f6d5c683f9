//! One client per registration and endpoint, shared by all its concurrent calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::{Peer, RoleClient};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::credentials::{Bearer, CredentialError, Source};
use crate::health::Health;

use super::connect::{Client, connect};
use super::failure::Failure;
use super::oversized::Oversized;
use super::progress::Listeners;
use super::transport::PostOnly;
use super::{Access, Limits, Target};

/// How often clients that are dead or were not used for long are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// The clients of one replica.
#[derive(Debug)]
pub struct Clients {
    pub(super) limits: Limits,
    http: PostOnly,
    credentials: Option<Arc<Source>>,
    pub(super) health: Option<Health>,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    slots: HashMap<Target, Entry>,
    /// When dead and idle ones were looked for.
    swept: Instant,
}

#[derive(Debug, Clone)]
struct Entry {
    slot: Arc<Slot>,
    used: Instant,
}

/// Where a target's client is, or is to be.
#[derive(Debug, Default)]
struct Slot {
    /// Connected once, by whoever comes first; the others wait. A failed attempt leaves it empty.
    client: OnceCell<Client>,
    /// The last failed attempt, for those that waited for it.
    failed: Mutex<Option<(Instant, Failure)>>,
}

/// A client in use. It is open for as long as this lives: the SDK closes one that is dropped, and the
/// calls in flight on it would be lost.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) peer: Peer<RoleClient>,
    pub(super) listeners: Listeners,
    pub(super) oversized: Oversized,
    pub(super) bearer: Option<Bearer>,
    slot: Arc<Slot>,
}

impl Lent {
    fn new(client: &Client, slot: &Arc<Slot>) -> Self {
        Self {
            peer: client.peer().clone(),
            listeners: client.listeners().clone(),
            oversized: client.oversized().clone(),
            bearer: client.bearer().cloned(),
            slot: Arc::clone(slot),
        }
    }
}

impl Clients {
    /// No client is made before it is needed.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up, for want of trusted certificates for example.
    pub fn new(limits: Limits, access: Access) -> Result<Self, reqwest::Error> {
        let http = PostOnly::new(&limits, access.endpoints)?;
        let entries = Entries { slots: HashMap::new(), swept: Instant::now() };
        Ok(Self {
            http,
            credentials: access.credentials,
            health: access.health,
            limits,
            entries: Mutex::new(entries),
        })
    }

    /// A connected client, by `deadline`.
    pub(super) async fn lend(&self, target: &Target, deadline: Instant) -> Result<Lent, Failure> {
        let came = Instant::now();
        let slot = self.entry(target, came);
        if let Some(client) = slot.client.get() {
            return Ok(Lent::new(client, &slot));
        }
        let connected = slot.client.get_or_try_init(|| self.attempt(target, &slot, came));
        let client = match tokio::time::timeout_at(deadline, connected).await {
            Ok(connected) => connected?,
            Err(_elapsed) => return Err(Failure::connect_timeout()),
        };
        Ok(Lent::new(client, &slot))
    }

    /// One attempt at a handshake, which is good for all that were there before it ended: a server in
    /// trouble is not asked by each of them in turn.
    async fn attempt(&self, target: &Target, slot: &Slot, came: Instant) -> Result<Client, Failure> {
        if let Some((_, failure)) = lock(&slot.failed).as_ref().filter(|(at, _)| *at > came) {
            return Err(failure.clone());
        }
        let bearer = match self.bearer(target) {
            Ok(bearer) => bearer,
            Err(error) => return Err(Failure::of_credential(&error)),
        };
        let connected = connect(&self.http, target, bearer.as_ref(), &self.limits);
        let failure = match tokio::time::timeout(self.limits.handshake_timeout, connected).await {
            Ok(Ok(client)) => return Ok(client),
            Ok(Err(error)) => Failure::of_connect(&error),
            Err(_elapsed) => Failure::connect_timeout(),
        };
        *lock(&slot.failed) = Some((Instant::now(), failure.clone()));
        Err(failure)
    }

    fn bearer(&self, target: &Target) -> Result<Option<Bearer>, CredentialError> {
        let Some(id) = &target.credential else { return Ok(None) };
        let source = self.credentials.as_ref().ok_or_else(|| {
            CredentialError::Missing("This worker has no source of credentials.".to_owned())
        })?;
        Ok(Some(Bearer::new(Arc::clone(source), id.clone())))
    }

    /// The next request makes a client of its own; those that this one is lent to keep it.
    pub(super) fn retire(&self, target: &Target, lent: &Lent) {
        let mut entries = lock(&self.entries);
        if entries.slots.get(target).is_some_and(|entry| Arc::ptr_eq(&entry.slot, &lent.slot)) {
            entries.slots.remove(target);
        }
    }

    /// The target's cell. A client whose transport has died is replaced, and those that nobody has
    /// used for long are closed.
    fn entry(&self, target: &Target, now: Instant) -> Arc<Slot> {
        let mut entries = lock(&self.entries);
        if now.duration_since(entries.swept) >= SWEEP {
            entries.swept = now;
            let idle = self.limits.idle;
            entries.slots.retain(|_, entry| !entry.is_dead() && now.duration_since(entry.used) <= idle);
        }
        match entries.slots.get_mut(target) {
            Some(entry) if !entry.is_dead() => {
                entry.used = now;
                Arc::clone(&entry.slot)
            }
            _ => {
                let slot = Arc::<Slot>::default();
                entries.slots.insert(target.clone(), Entry { slot: Arc::clone(&slot), used: now });
                slot
            }
        }
    }
}

impl Entry {
    fn is_dead(&self) -> bool {
        self.slot.client.get().is_some_and(|client| client.peer().is_transport_closed())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held; should it, what is in there is as good as before.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
