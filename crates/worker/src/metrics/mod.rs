//! What a replica counts. docs/metrics.md lists all of it, and a test compares.
//!
//! A metric is added to through a handle that was resolved before: the four requests' histograms once per
//! lease, everything else at the start. So a poll costs two additions, whether anybody scrapes or not.
//!
//! No label holds anything that a server said: registrations are named by id, and only so many of them.

mod breakers;
mod fleet;
mod moment;
mod pruned;
mod replies;
mod servers;
mod writes;

use std::fmt;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use breakers::Breakers;
use fleet::Fleet;
use pruned::PrunedRows;
use replies::{Calls, Polls};
use servers::Servers;
use writes::Writes;

pub(crate) use moment::Moment;
pub(crate) use servers::ServerMetrics;

/// What every name begins with.
const PREFIX: &str = "david_tasks";

/// One label of words that are known beforehand.
type Word = [(&'static str, &'static str); 1];

/// How long rows had been due, in seconds: from what an idle replica does to what somebody should look at.
const LAG_BUCKETS: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The metrics of one replica.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) due_lag: Histogram,
    pub(crate) lease_failures: Counter,
    pub(crate) wake_ups: Counter,
    pub(crate) polls: Polls,
    pub(crate) calls: Calls,
    pub(crate) writes: Writes,
    pub(crate) pruned: PrunedRows,
    pub(crate) servers: Servers,
    pub(crate) breakers: Breakers,
    pub(crate) fleet: Fleet,
    moment: moment::Gauges,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix(PREFIX);
        let due_lag = Histogram::new(LAG_BUCKETS);
        registry.register_with_unit(
            "due_lag",
            "How long a row had been due when this replica leased it",
            Unit::Seconds,
            due_lag.clone(),
        );
        let lease_failures = Counter::default();
        registry.register(
            "lease_failures",
            "Leases that the database did not answer",
            lease_failures.clone(),
        );
        let wake_ups = Counter::default();
        registry.register("wake_ups", "Wake-ups heard from the database", wake_ups.clone());
        let build = Family::<Word, Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "Which version this is; always 1", build);
        let servers = Servers::new(&mut registry);
        Arc::new(Self {
            due_lag,
            lease_failures,
            wake_ups,
            polls: Polls::new(&mut registry),
            calls: Calls::new(&mut registry),
            writes: Writes::new(&mut registry),
            pruned: PrunedRows::new(&mut registry),
            breakers: Breakers::new(&mut registry),
            fleet: Fleet::new(&mut registry),
            moment: moment::Gauges::new(&mut registry),
            servers,
            registry,
        })
    }

    /// The text of `/metrics`, in the OpenMetrics format, with the gauges as they are at this moment.
    ///
    /// # Errors
    /// None in practice: it writes to a string.
    pub(crate) fn text(&self, moment: &Moment) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.moment.show(moment, &self.servers, || {
            prometheus_client::encoding::text::encode(&mut text, &self.registry)
        })?;
        Ok(text)
    }
}

/// Counters by one label of known words, each of them there from the start: a rate needs a zero to begin with.
fn counters(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    words: &[&'static str],
) -> Family<Word, Counter> {
    let family = Family::<Word, Counter>::default();
    for word in words {
        drop(family.get_or_create(&[(label, *word)]));
    }
    registry.register(name, help, family.clone());
    family
}
