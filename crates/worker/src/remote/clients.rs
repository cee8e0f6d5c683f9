//! One client per registration and endpoint, shared by all its concurrent calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{Peer, RoleClient};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::connect::{Client, connect};
use super::failure::Failure;
use super::transport::PostOnly;
use super::{Limits, Target};

/// The clients of one replica.
#[derive(Debug)]
pub struct Clients {
    pub(super) limits: Limits,
    http: PostOnly,
    entries: Mutex<HashMap<Target, Entry>>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Connected once, by whoever comes first; the others wait. A failed attempt leaves it empty.
    client: Arc<OnceCell<Client>>,
    used: Instant,
}

impl Clients {
    /// No client is made before it is needed.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up, for want of trusted certificates for example.
    pub fn new(limits: Limits) -> Result<Self, reqwest::Error> {
        Ok(Self { http: PostOnly::new(&limits)?, limits, entries: Mutex::default() })
    }

    /// A connected peer, by `deadline`.
    pub(super) async fn peer(&self, target: &Target, deadline: Instant) -> Result<Peer<RoleClient>, Failure> {
        let cell = self.entry(target);
        let connected = cell.get_or_try_init(|| connect(&self.http, target, &self.limits));
        match tokio::time::timeout_at(deadline, connected).await {
            Ok(Ok(client)) => Ok(client.peer().clone()),
            Ok(Err(error)) => Err(Failure::of_connect(&error)),
            Err(_elapsed) => Err(Failure::connect_timeout()),
        }
    }

    /// The target's cell. A client whose transport has died is replaced, and those that nobody has
    /// used for long are closed.
    fn entry(&self, target: &Target) -> Arc<OnceCell<Client>> {
        let now = Instant::now();
        let mut entries = self.lock();
        entries.retain(|other, entry| {
            let dead = entry.client.get().is_some_and(|client| client.peer().is_transport_closed());
            let idle = now.duration_since(entry.used) > self.limits.idle && other != target;
            !dead && !idle
        });
        let entry =
            entries.entry(target.clone()).or_insert_with(|| Entry { client: Arc::default(), used: now });
        entry.used = now;
        Arc::clone(&entry.client)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Entry>> {
        // Nothing panics while it is held; should it, the map is as good as before.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
