//! What is so in the whole fleet, as the database says. Every replica shows the same; take the maximum.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use david_schema::{Ledger, LedgerError, STUCK_REASONS, causes};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::MissedTickBehavior;

use super::Word;

/// How often it is read.
const EVERY: Duration = Duration::from_secs(15);

/// Stuck rows are counted every so many times: that takes some ten milliseconds.
const STUCK_EVERY: u32 = 4;

type Figure = Gauge<f64, AtomicU64>;

/// The fleet's figures; not a number while they cannot be read.
pub(crate) struct Fleet {
    oldest_due: Figure,
    owed_cancels: Figure,
    stuck: Family<Word, Figure>,
}

impl Fleet {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let unknown = || {
            let figure = Figure::default();
            figure.set(f64::NAN);
            figure
        };
        let oldest_due = unknown();
        registry.register_with_unit(
            "oldest_due",
            "How long the longest due row has waited that a replica would lease; fleet-wide, 0 when none is due",
            Unit::Seconds,
            oldest_due.clone(),
        );
        let owed_cancels = unknown();
        registry.register(
            "owed_cancels",
            "Ended Actions whose remote task is owed a cancel; fleet-wide, counted up to 10000",
            owed_cancels.clone(),
        );
        let stuck = Family::<Word, Figure>::default();
        for reason in STUCK_REASONS {
            stuck.get_or_create(&[("reason", reason)]).set(f64::NAN);
        }
        registry.register(
            "stuck_rows",
            "Rows that do not get on, as david.v_stuck lists them; fleet-wide",
            stuck.clone(),
        );
        Self { oldest_due, owed_cancels, stuck }
    }

    /// Reads them for as long as the replica runs.
    pub(crate) async fn run(&self, ledger: Ledger) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for round in 0_u32.. {
            tick.tick().await;
            let read = ledger.oldest_due().await.map(|due| due.as_secs_f64());
            self.oldest_due.set(told(read));
            let read = ledger.owed_cancels().await.map(float);
            self.owed_cancels.set(told(read));
            if round.is_multiple_of(STUCK_EVERY) {
                let found = ledger.stuck().await;
                for reason in STUCK_REASONS {
                    let count = found.as_ref().map(|found| found.get(reason).copied().unwrap_or_default());
                    self.stuck.get_or_create(&[("reason", reason)]).set(count.map_or(f64::NAN, float));
                }
                if let Err(error) = &found {
                    unread(error);
                }
            }
        }
    }
}

fn told(read: Result<f64, LedgerError>) -> f64 {
    read.unwrap_or_else(|error| {
        unread(&error);
        f64::NAN
    })
}

fn unread(error: &LedgerError) {
    tracing::warn!(error = causes(error), "a figure for /metrics could not be read");
}

/// A count that fits a double for all that matters here.
fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
