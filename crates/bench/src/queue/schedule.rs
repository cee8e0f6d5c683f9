//! C and D: rows leased and rescheduled per second.

use std::time::{Duration, Instant};

use david_schema::{LeaseBatch, ReplicaId};
use tokio::time::Instant as Clock;

use crate::report::Report;
use crate::stand::Stand;

use super::database::Database;
use super::sides::{BATCH, NARROW, Side};
use super::watermark::Watermark;

/// Connections, each in a loop of its own, on either side.
const CLIENTS: u32 = 2;

/// C: this schema beside a table of four columns.
pub(crate) async fn schedule(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = scheduled(stand).await?;
    sqlx::raw_sql(NARROW).execute(&database.pool).await?;
    let window = stand.scale.window / 3;
    let (mut ratios, mut whole) = (Vec::new(), Vec::new());
    let (mut narrow_rates, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        let narrow = rows_per_second(&database, Side::Narrow, window).await?;
        let statements = rows_per_second(&database, Side::Statements, window).await?;
        let ledger = rows_per_second(&database, Side::Ledger, window).await?;
        ratios.push(statements / narrow);
        whole.push(ledger / narrow);
        narrow_rates.push(narrow);
        rates.push(statements);
    }
    database.drop(stand).await?;
    report.add(
        "C",
        "lease and reschedule in SQL, batch 100: this schema ÷ four columns",
        "",
        "≥ 0.5",
        &ratios,
    );
    report.add("C", "the same with all that a lease reads and a commit checks", "", "", &whole);
    report.add("C", "rows of the four columns", "/s", "", &narrow_rates);
    report.add("C", "rows of this schema", "/s", "", &rates);
    Ok(())
}

/// D: this schema while somebody keeps an old snapshot, so that vacuum removes nothing.
pub(crate) async fn snapshot(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = scheduled(stand).await?;
    let window = stand.scale.window;
    let (mut ratios, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        for (side, ratios) in [(Side::Statements, &mut ratios), (Side::Ledger, &mut whole)] {
            let without = rows_per_second(&database, side, window).await?;
            let mut idle = database.pool.acquire().await?;
            // What was left behind is cleaned up first: the snapshot keeps only what this run leaves behind.
            database.settle().await?;
            sqlx::raw_sql("begin isolation level repeatable read; select count(*) from david.runs")
                .execute(&mut *idle)
                .await?;
            let with = measured(&database, side, window).await?;
            sqlx::raw_sql("rollback").execute(&mut *idle).await?;
            ratios.push(with / without);
        }
    }
    database.drop(stand).await?;
    report.add("D", "C of this schema, an old snapshot held ÷ none", "", "≥ 0.8", &ratios);
    report.add("D", "the same with all that a lease reads and a commit checks", "", "", &whole);
    Ok(())
}

/// More rows than two clients ever hold, all due.
async fn scheduled(stand: &Stand) -> anyhow::Result<Database> {
    let database = Database::create(stand, "bench_schedule", CLIENTS).await?;
    database.fill(i64::try_from(stand.scale.tasks * 5)?, 1).await?;
    Ok(database)
}

async fn rows_per_second(database: &Database, side: Side, window: Duration) -> anyhow::Result<f64> {
    database.settle().await?;
    measured(database, side, window).await
}

async fn measured(database: &Database, side: Side, window: Duration) -> anyhow::Result<f64> {
    let began = Instant::now();
    let clients = (0..CLIENTS).map(async |_| {
        let (replica, mut mark) = (ReplicaId::new(), Watermark::new(Clock::now()));
        let mut rows = 0;
        while began.elapsed() < window {
            let turn = side.turn(&database.ledger, replica, mark.from(Clock::now())).await?;
            let learnt = LeaseBatch { newest: turn.newest, ..LeaseBatch::default() };
            mark.learn(&learnt, turn.rows >= BATCH as usize);
            rows += turn.rows;
        }
        anyhow::Ok(rows)
    });
    let rows: usize = futures::future::try_join_all(clients).await?.into_iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
    Ok(rows as f64 / began.elapsed().as_secs_f64())
}
