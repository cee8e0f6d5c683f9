//! What was written to the database, and what came of it. Counted where every write passes, once each.

use std::time::Duration;

use david_reconciler::{Outcome, Transition};
use david_schema::{CommitError, Committed, Write};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::Word;

/// Rows in one transaction, up to the most there may be.
const ROW_BUCKETS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 150.0, 200.0];

/// Seconds of one transaction.
const SECONDS_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0];

/// The writes of one replica.
pub(crate) struct Writes {
    transitions: Family<Word, Counter>,
    outcomes: Family<Word, Counter>,
    results: Family<Word, Counter>,
    lease_losses: Counter,
    rows: Histogram,
    seconds: Histogram,
}

impl Writes {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let outcomes = Outcome::ALL.map(Outcome::as_str);
        let results = [
            "applied",
            "repaired",
            "full",
            "lease_lost",
            "already_finalised",
            "vanished",
            "unavailable",
            "remote_task_taken",
            "refused",
        ];
        let transitions = super::counters(
            registry,
            "transitions",
            "Decisions that were written, by label",
            "transition",
            &Transition::LABELS,
        );
        let outcomes = super::counters(
            registry,
            "outcomes",
            "Actions that this replica ended, by outcome",
            "outcome",
            &outcomes,
        );
        let results = super::counters(
            registry,
            "writes",
            "Tries at writing a decision, by what came of them",
            "result",
            &results,
        );
        let lease_losses = Counter::default();
        registry.register(
            "lease_losses",
            "Writes that found their row leased or changed by somebody else",
            lease_losses.clone(),
        );
        let rows = Histogram::new(ROW_BUCKETS);
        registry.register("commit_batch_rows", "Decisions in one transaction", rows.clone());
        let seconds = Histogram::new(SECONDS_BUCKETS);
        registry.register_with_unit(
            "commit",
            "How long a transaction took that writes decisions",
            Unit::Seconds,
            seconds.clone(),
        );
        Self { transitions, outcomes, results, lease_losses, rows, seconds }
    }

    /// A transaction of so many decisions took so long.
    pub(crate) fn committed(&self, rows: usize, took: Duration) {
        self.rows.observe(u32::try_from(rows).map_or(f64::INFINITY, f64::from));
        self.seconds.observe(took.as_secs_f64());
    }

    /// What came of one try at a decision. One that is tried again because nobody knows whether it was written
    /// is applied once at most.
    pub(crate) fn count(&self, write: &Write, result: &Result<Committed, CommitError>) {
        self.results.get_or_create(&[("result", word(result))]).inc();
        match result {
            Ok(Committed::Applied { .. } | Committed::Repaired) => {
                self.transitions.get_or_create(&[("transition", write.transition.label())]).inc();
                if let Transition::Finish(finish) = &write.transition {
                    self.outcomes.get_or_create(&[("outcome", finish.outcome.as_str())]).inc();
                }
            }
            Ok(Committed::LeaseLost) => {
                self.lease_losses.inc();
            }
            Ok(Committed::Full | Committed::AlreadyFinalised { .. } | Committed::Vanished) | Err(_) => {}
        }
    }
}

fn word(result: &Result<Committed, CommitError>) -> &'static str {
    match result {
        Ok(Committed::Applied { .. }) => "applied",
        Ok(Committed::Repaired) => "repaired",
        Ok(Committed::Full) => "full",
        Ok(Committed::LeaseLost) => "lease_lost",
        Ok(Committed::AlreadyFinalised { .. }) => "already_finalised",
        Ok(Committed::Vanished) => "vanished",
        Err(CommitError::Unavailable(_)) => "unavailable",
        Err(CommitError::RemoteTaskTaken) => "remote_task_taken",
        Err(CommitError::Refused(_)) => "refused",
    }
}
