//! How long servers take, by registration.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use david_reconciler::RegistrationId;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Registrations that have series of their own, the first ones this replica meets. Every user may have
/// registrations; a scrape must not grow with the users.
const NAMED: usize = 100;

/// The name of all others together.
const OTHER: &str = "other";

/// Seconds, up to the longest call.
const BUCKETS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

type Labels = [(&'static str, Arc<str>); 2];
type Requests = Family<Labels, Histogram, fn() -> Histogram>;

/// The handles of all registrations.
pub(crate) struct Servers {
    requests: Requests,
    named: Mutex<HashMap<RegistrationId, Arc<ServerMetrics>>>,
    other: Arc<ServerMetrics>,
}

/// The handles of one registration; series begin with their first request.
pub(crate) struct ServerMetrics {
    label: Arc<str>,
    requests: Requests,
    call: OnceLock<Histogram>,
    get: OnceLock<Histogram>,
    update: OnceLock<Histogram>,
    cancel: OnceLock<Histogram>,
}

impl Servers {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let requests = Requests::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register_with_unit(
            "request",
            "How long requests to MCP servers took, answered or not, by registration and method",
            Unit::Seconds,
            requests.clone(),
        );
        let other = Arc::new(ServerMetrics::new(OTHER.into(), requests.clone()));
        Self { requests, named: Mutex::default(), other }
    }

    /// The handles of this registration: its own, if it is one of the first hundred.
    pub(crate) fn of(&self, id: &RegistrationId) -> Arc<ServerMetrics> {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = named.get(id) {
            return Arc::clone(known);
        }
        if named.len() >= NAMED {
            return Arc::clone(&self.other);
        }
        let new = Arc::new(ServerMetrics::new(id.as_str().into(), self.requests.clone()));
        named.insert(id.clone(), Arc::clone(&new));
        new
    }
}

impl ServerMetrics {
    fn new(label: Arc<str>, requests: Requests) -> Self {
        Self {
            label,
            requests,
            call: OnceLock::new(),
            get: OnceLock::new(),
            update: OnceLock::new(),
            cancel: OnceLock::new(),
        }
    }

    /// What stands in the label `registration`.
    pub(super) fn label(&self) -> Arc<str> {
        Arc::clone(&self.label)
    }

    /// `tools/call`.
    pub(crate) fn call(&self) -> &Histogram {
        self.call.get_or_init(|| self.histogram("tools/call"))
    }

    /// `tasks/get`.
    pub(crate) fn get(&self) -> &Histogram {
        self.get.get_or_init(|| self.histogram("tasks/get"))
    }

    /// `tasks/update`.
    pub(crate) fn update(&self) -> &Histogram {
        self.update.get_or_init(|| self.histogram("tasks/update"))
    }

    /// `tasks/cancel`.
    pub(crate) fn cancel(&self) -> &Histogram {
        self.cancel.get_or_init(|| self.histogram("tasks/cancel"))
    }

    fn histogram(&self, method: &str) -> Histogram {
        self.requests.get_or_create_owned(&[("registration", self.label()), ("method", method.into())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_does_not_grow_with_the_users() {
        let mut registry = Registry::default();
        let servers = Servers::new(&mut registry);
        for number in 0..10 * NAMED {
            let handles = servers.of(&RegistrationId::new(format!("reg_{number}")));
            handles.get().observe(0.1);
            let known = servers.of(&RegistrationId::new("reg_0"));
            assert_eq!(&*known.label(), "reg_0", "the first ones keep their name");
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let counts: Vec<&str> =
            text.lines().filter(|line| line.starts_with("request_seconds_count")).collect();
        assert_eq!(counts.len(), NAMED + 1, "{counts:#?}");
        let others = r#"request_seconds_count{registration="other",method="tasks/get"} 900"#;
        assert!(counts.contains(&others), "{counts:#?}");
    }
}
