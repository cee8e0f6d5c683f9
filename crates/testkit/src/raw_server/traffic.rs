//! What reached a raw server, and how much of it at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

/// One request, recorded before it is answered.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The JSON-RPC method; for requests without a JSON-RPC body the HTTP method, such as `GET`.
    pub method: String,
    /// The JSON-RPC id; null for notifications.
    pub id: Value,
    /// The JSON-RPC params, null if there are none; the whole body of what is no JSON-RPC.
    pub params: Value,
    /// The HTTP headers.
    pub headers: HeaderMap,
    /// When it had arrived.
    pub at: Instant,
}

impl Recorded {
    /// A header as text, if it is there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Traffic(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Recorded>,
    in_flight: HashMap<String, InFlight>,
}

#[derive(Debug, Default, Clone, Copy)]
struct InFlight {
    now: usize,
    peak: usize,
}

impl Traffic {
    /// Records a request, in flight until the guard is dropped: answered, or given up by the client.
    pub(super) fn enter(&self, request: &Recorded) -> Flight {
        let mut log = self.lock();
        log.requests.push(request.clone());
        let flight = log.in_flight.entry(request.method.clone()).or_default();
        flight.now += 1;
        flight.peak = flight.peak.max(flight.now);
        Flight { traffic: self.clone(), method: request.method.clone() }
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.clone()
    }

    pub(super) fn of(&self, method: &str) -> Vec<Recorded> {
        self.lock().requests.iter().filter(|request| request.method == method).cloned().collect()
    }

    /// How many requests of a method are unanswered, and how many were at most.
    pub(super) fn in_flight(&self, method: &str) -> (usize, usize) {
        let flight = self.lock().in_flight.get(method).copied().unwrap_or_default();
        (flight.now, flight.peak)
    }

    /// The methods in order of arrival, for failure messages.
    pub(super) fn methods(&self) -> String {
        self.lock().requests.iter().map(|request| request.method.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Flight {
    traffic: Traffic,
    method: String,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(flight) = self.traffic.lock().in_flight.get_mut(&self.method) {
            flight.now -= 1;
        }
    }
}
