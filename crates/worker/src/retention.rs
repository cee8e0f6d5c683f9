//! Throws away what ended long ago, in small bites, off the path of Actions. One replica at a time.

use std::sync::Arc;
use std::time::Duration;

use david_schema::{Ledger, Pruned, causes};
use tokio::time::Instant;

use crate::leaser::jittered;
use crate::metrics::Metrics;

/// Of each kind, at most, in one transaction.
const BATCH: u32 = 1_000;

/// Pause when there is nothing left to throw away, or another replica is at it.
const REST: Duration = Duration::from_secs(60);

/// Pause between two batches, as a multiple of how long the last one took: a tenth of one connection is all
/// that is used.
const BREATH: u32 = 9;

/// How long what has ended is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// For so long.
    For(Duration),
    /// For ever.
    Off,
}

/// Runs until the replica stops.
pub(crate) async fn run(ledger: Ledger, keep: Duration, metrics: Arc<Metrics>) {
    let mut so_far = Pruned::default();
    loop {
        let began = Instant::now();
        let pause = match ledger.prune(keep, BATCH).await {
            Ok(Some(pruned)) if pruned.total() > 0 => {
                metrics.pruned.count(pruned);
                so_far += pruned;
                began.elapsed() * BREATH
            }
            Ok(_) => {
                if so_far.total() > 0 {
                    let Pruned { tasks, outputs, events } = std::mem::take(&mut so_far);
                    tracing::info!(tasks, outputs, events, "what ended long ago was thrown away");
                }
                REST
            }
            Err(error) => {
                tracing::warn!(error = causes(&error), "nothing can be thrown away; trying again");
                REST
            }
        };
        tokio::time::sleep(jittered(pause)).await;
    }
}
