//! E: what rows that are not due cost a lease.

use std::time::Instant;

use anyhow::Context as _;
use david_schema::{Due, ReplicaId};

use super::TERM;
use super::database::Database;
use super::sides::{BATCH, reschedule};
use crate::report::Report;
use crate::stand::Stand;

/// Rows that are due, among however many others.
const DUE: i64 = 1_000;

/// Leases of which the slowest hundredth is looked at.
const LEASES: usize = 1_000;

/// The fewer rows that are not due.
const FEW: i64 = 10_000;

/// E: the 99th percentile of a lease with very many rows that rest, and with few.
pub(crate) async fn resting(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create(stand, "bench_resting", 2).await?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    database.fill(FEW, FEW / DUE).await?;
    for _ in 0..stand.scale.repeats {
        few.push(slowest_hundredth(&database).await?);
    }
    let resting = stand.scale.resting;
    database.fill(resting, resting / DUE).await?;
    for _ in 0..stand.scale.repeats {
        many.push(slowest_hundredth(&database).await?);
    }
    database.drop(stand).await?;
    let ratios: Vec<f64> = many.iter().zip(&few).map(|(many, few)| many / few).collect();
    report.add("E", "lease p99 with 5 M rows that rest ÷ with 10 k", "", "≤ 1.5", &ratios);
    report.add("E", "lease p99 with 10 k rows that rest", "ms", "", &few);
    report.add("E", "lease p99 with 5 M rows that rest", "ms", "", &many);
    Ok(())
}

/// In milliseconds.
async fn slowest_hundredth(database: &Database) -> anyhow::Result<f64> {
    database.settle().await?;
    let replica = ReplicaId::new();
    let mut took = Vec::with_capacity(LEASES);
    for _ in 0..LEASES {
        let began = Instant::now();
        let due = Due { limit: BATCH, cancels: BATCH, from: None };
        let batch = database.ledger.lease_due(replica, due, TERM).await?;
        took.push(began.elapsed().as_secs_f64() * 1000.0);
        reschedule(&database.ledger, replica, batch.rows).await?;
    }
    took.sort_by(f64::total_cmp);
    took.get(LEASES * 99 / 100).copied().context("nothing was leased")
}
