//! What a server reports while a request is on the wire (`notifications/progress`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientConfig, ProgressNotificationParam, ProgressToken};
use rmcp::service::NotificationContext;
use rmcp::{ClientHandler, RoleClient};

/// One report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How far it is; grows.
    pub progress: f64,
    /// What it grows to, if the server knows.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// Who is told. Called on the client's own task, so it must not block.
pub type Listener = Arc<dyn Fn(Report) + Send + Sync>;

/// The listeners of one client's requests.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<HashMap<ProgressToken, Listener>>>);

impl Listeners {
    /// Tells `listener` until the guard is dropped.
    pub(super) fn listen(&self, token: ProgressToken, listener: Listener) -> Listening {
        self.with(|listeners| listeners.insert(token.clone(), listener));
        Listening { listeners: self.clone(), token }
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<ProgressToken, Listener>) -> T) -> T {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listeners").field(&self.with(|listeners| listeners.len())).finish()
    }
}

/// A request that is listened to.
pub(super) struct Listening {
    listeners: Listeners,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.with(|listeners| listeners.remove(&self.token));
    }
}

/// Our side of a connection: who we are, and who listens. Whatever else a server may ask of a client
/// is refused by the SDK's defaults.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) config: ClientConfig,
    pub(super) listeners: Listeners,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let listener = self.listeners.with(|listeners| listeners.get(&params.progress_token).cloned());
        if let Some(listener) = listener {
            let ProgressNotificationParam { progress, total, message, .. } = params;
            listener(Report { progress, total, message });
        }
    }
}
