//! The clients of all registrations, each shared by many concurrent calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{Peer, RoleClient};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use crate::credentials::{Bearer, CredentialError, Source};
use crate::health::Health;

use super::connect::{Client, connect};
use super::failure::Failure;
use super::oversized::Oversized;
use super::pool::{Place, Pool, State};
use super::progress::Listeners;
use super::transport::PostOnly;
use super::{Access, Limits, Target};

/// Handshakes at the same time at most: a gateway behind which all servers are may have been restarted.
const HANDSHAKES: usize = 32;

/// The clients of one replica.
#[derive(Debug)]
pub struct Clients {
    pub(super) limits: Limits,
    http: PostOnly,
    credentials: Option<Arc<Source>>,
    pub(super) health: Option<Health>,
    pool: Mutex<Pool<Slot>>,
    handshakes: Semaphore,
}

/// Where a client is, or is to be.
#[derive(Debug, Default)]
struct Slot {
    /// Connected once, by whoever comes first; the others wait. A failed attempt leaves it empty.
    client: OnceCell<Client>,
    /// The last failed attempt, for those that waited for it.
    failed: Mutex<Option<(Instant, Failure)>>,
}

impl Place for Slot {
    fn state(&self) -> State {
        match self.client.get() {
            None => State::Connecting,
            Some(client) if client.peer().is_transport_closed() => State::Dead,
            Some(_) => State::Connected,
        }
    }
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
        let pool = Pool::new(limits.idle, limits.clients, Instant::now());
        Ok(Self {
            http,
            credentials: access.credentials,
            health: access.health,
            limits,
            pool: Mutex::new(pool),
            handshakes: Semaphore::new(HANDSHAKES),
        })
    }

    /// A connected client, by `deadline`.
    pub(super) async fn lend(&self, target: &Target, deadline: Instant) -> Result<Lent, Failure> {
        let came = Instant::now();
        let slot = lock(&self.pool).pick(target, came);
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
        let _turn = self.handshakes.acquire().await;
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
        lock(&self.pool).retire(target, &lent.slot);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held; should it, what is in there is as good as before.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
