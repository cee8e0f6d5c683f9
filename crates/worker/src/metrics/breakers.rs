//! How often this replica found that a server fails, or answers again.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Changes of circuit breakers.
pub(crate) struct Breakers {
    /// A server went on failing.
    pub(crate) tripped: Counter,
    /// It was probed, and failed again.
    pub(crate) probe_failed: Counter,
    /// It answers again.
    pub(crate) recovered: Counter,
}

impl Breakers {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Changes of circuit breakers that this replica made";
        let family = super::counters(registry, "breaker_changes", help, "change", &[]);
        let of = |word| family.get_or_create_owned(&[("change", word)]);
        Self { tripped: of("tripped"), probe_failed: of("probe_failed"), recovered: of("recovered") }
    }
}
