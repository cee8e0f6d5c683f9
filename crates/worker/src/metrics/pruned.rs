//! What this replica threw away, long after it ended.

use david_schema::Pruned;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Rows by kind.
pub(crate) struct PrunedRows {
    tasks: Counter,
    outputs: Counter,
    events: Counter,
}

impl PrunedRows {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Rows that this replica threw away after their retention, by kind";
        let family = super::counters(registry, "pruned_rows", help, "kind", &[]);
        let of = |word| family.get_or_create_owned(&[("kind", word)]);
        Self { tasks: of("tasks"), outputs: of("outputs"), events: of("events") }
    }

    pub(crate) fn count(&self, pruned: Pruned) {
        self.tasks.inc_by(pruned.tasks);
        self.outputs.inc_by(pruned.outputs);
        self.events.inc_by(pruned.events);
    }
}
