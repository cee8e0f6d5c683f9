//! C and D: how fast rows are leased and made due again.

use std::time::{Duration, Instant};

use david_schema::ReplicaId;
use tokio::task::JoinSet;

use super::database::Database;
use super::sides::{BATCH, NARROW, Side};
use super::watermark::Watermark;
use crate::report::Report;
use crate::stand::Stand;

/// Replicas that lease and reschedule at the same time, on either side.
const REPLICAS: usize = 2;

/// Rows that are all due all the time.
fn rows(stand: &Stand) -> i64 {
    i64::try_from(stand.scale.tasks * 5).unwrap_or(i64::MAX)
}

/// C: lease and reschedule, of this schema and of the least that could do it.
pub(crate) async fn schedule(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create(stand, "bench_schedule", 4).await?;
    let (mut by_statement, mut by_ledger, mut narrow_rates, mut rates) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        database.fill(rows(stand), 1).await?;
        sqlx::raw_sql("drop schema if exists bench cascade").execute(&database.pool).await?;
        sqlx::raw_sql(NARROW).execute(&database.pool).await?;
        database.settle().await?;
        let narrow = rate(&database, Side::Narrow, window(stand)).await?;
        database.settle().await?;
        let statements = rate(&database, Side::Statements, window(stand)).await?;
        database.settle().await?;
        let whole = rate(&database, Side::Ledger, window(stand)).await?;
        by_statement.push(statements / narrow);
        by_ledger.push(whole / narrow);
        narrow_rates.push(narrow);
        rates.push(whole);
    }
    database.drop(stand).await?;
    report.add("C", "lease and reschedule in SQL: this schema ÷ four columns", "", "≥ 0.5", &by_statement);
    report.add("C", "the same with everything a lease reads and a commit checks", "", "", &by_ledger);
    report.add("C", "four columns", "rows/s", "", &narrow_rates);
    report.add("C", "this schema, with everything", "rows/s", "", &rates);
    Ok(())
}

/// D: the same under a snapshot that keeps vacuum from cleaning up.
pub(crate) async fn snapshot(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create(stand, "bench_snapshot", 4).await?;
    let mut ratios = Vec::new();
    for _ in 0..stand.scale.repeats {
        database.fill(rows(stand), 1).await?;
        let free = rate(&database, Side::Statements, window(stand)).await?;
        database.fill(rows(stand), 1).await?;
        let mut idle = database.pool.begin().await?;
        sqlx::raw_sql("set transaction isolation level repeatable read; select 1 from david.runs limit 1")
            .execute(&mut *idle)
            .await?;
        let pinned = rate(&database, Side::Statements, window(stand)).await?;
        idle.rollback().await?;
        ratios.push(pinned / free);
    }
    database.drop(stand).await?;
    report.add("D", "C of this schema with a long snapshot ÷ without", "", "≥ 0.8", &ratios);
    Ok(())
}

fn window(stand: &Stand) -> Duration {
    stand.scale.window / 2
}

/// Rows per second.
async fn rate(database: &Database, side: Side, window: Duration) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut replicas = JoinSet::new();
    for _ in 0..REPLICAS {
        let ledger = database.ledger.clone();
        replicas.spawn(async move {
            let (replica, mut mark) = (ReplicaId::new(), Watermark::new(tokio::time::Instant::now()));
            let mut turns = 0_u32;
            while began.elapsed() < window {
                let batch = side.turn(&ledger, replica, mark.from(tokio::time::Instant::now())).await?;
                mark.learn(&batch, true);
                turns += 1;
            }
            anyhow::Ok(turns)
        });
    }
    let mut turns = 0;
    while let Some(replica) = replicas.join_next().await {
        turns += replica??;
    }
    Ok(f64::from(turns * BATCH) / began.elapsed().as_secs_f64())
}
