//! E: what rows that are not due cost a lease.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use david_schema::{Due, ReplicaId};
use tokio::time::Instant as Clock;

use crate::report::Report;
use crate::stand::Stand;

use super::TERM;
use super::database::Database;
use super::sides::{BATCH, reschedule};
use super::watermark::Watermark;

/// Working rows, few of them due: what a small fleet has.
const FEW: i64 = 10_000;

/// Due at any time, spread over the table, and due again as soon as they were leased. The same number on both
/// sides, so that only what rests is different.
const DUE: i64 = 1_000;

/// Tail of a lease with millions of rows that rest ÷ with thousands.
pub(crate) async fn resting(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let mut few = Lane::create(stand, "bench_few", FEW).await?;
    let mut many = Lane::create(stand, "bench_many", stand.scale.resting).await?;
    let leases = stand.scale.tasks / 10;
    let (mut halves, mut tails, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        few.settle().await?;
        many.settle().await?;
        for _ in 0..leases {
            // In turns: whatever else the machine does, it does to both.
            few.lease().await?;
            many.lease().await?;
        }
        let ((few_half, few_tail), (many_half, many_tail)) = (few.quantiles()?, many.quantiles()?);
        halves.push(many_half / few_half);
        tails.push(many_tail / few_tail);
        times.push(many_tail);
    }
    few.database.drop(stand).await?;
    many.database.drop(stand).await?;
    report.add("E", "lease of 100, 5 M rows not due ÷ 10 k, p99", "", "≤ 1.5", &tails);
    report.add("E", "lease of 100, 5 M rows not due ÷ 10 k, p50", "", "", &halves);
    report.add("E", "lease of 100, 5 M rows not due, p99", "ms", "", &times);
    Ok(())
}

struct Lane {
    database: Database,
    replica: ReplicaId,
    mark: Watermark,
    /// Milliseconds each.
    took: Vec<f64>,
}

impl Lane {
    async fn create(stand: &Stand, name: &'static str, rows: i64) -> anyhow::Result<Self> {
        let database = Database::create(stand, name, 1).await?;
        let began = Instant::now();
        database.fill(rows, rows / DUE.min(rows)).await?;
        eprintln!("    {rows} rows made in {:.0} s", began.elapsed().as_secs_f64());
        Ok(Self { database, replica: ReplicaId::new(), mark: Watermark::new(Clock::now()), took: Vec::new() })
    }

    /// Vacuumed, and as warm as a server that runs.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.database.settle().await?;
        for _ in 0..DUE / i64::from(BATCH) * 5 {
            self.lease().await?;
        }
        self.took.clear();
        Ok(())
    }

    /// One lease, timed, and its reschedule.
    async fn lease(&mut self) -> anyhow::Result<()> {
        let ledger = &self.database.ledger;
        let due = Due { limit: BATCH, cancels: BATCH, from: self.mark.from(Clock::now()) };
        let sent = Instant::now();
        let batch = ledger.lease_due(self.replica, due, TERM).await?;
        self.took.push(sent.elapsed().as_secs_f64() * 1000.0);
        ensure!(batch.rows.len() == BATCH as usize, "a lease took {} rows", batch.rows.len());
        self.mark.learn(&batch, true);
        reschedule(ledger, self.replica, batch.rows).await
    }

    /// Median and 99th percentile of the leases since the last call.
    fn quantiles(&mut self) -> anyhow::Result<(f64, f64)> {
        let mut took = std::mem::take(&mut self.took);
        took.sort_by(f64::total_cmp);
        let at = |share: usize| took.get(took.len() * share / 100).copied().context("no lease");
        Ok((at(50)?, at(99)?))
    }
}
