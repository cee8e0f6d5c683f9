//! G, first half: what wake-ups cost Core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::task::JoinSet;

use super::database::Database;
use crate::report::Report;
use crate::stand::Stand;

/// Connections of Core, each submitting one Action after the other.
const CONNECTIONS: u32 = 32;

const TRIGGERS: [&str; 2] = ["wake_for_new_tasks", "wake_for_changed_tasks"];

/// G: submissions per second with wake-ups and without. Somebody listens, as replicas do; nobody leases.
pub(crate) async fn inserts(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create(stand, "bench_inserts", 2).await?;
    let url = stand.url_of("bench_inserts");
    let core = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
    let mut ears = PgListener::connect(&url).await?;
    ears.listen("david_tasks").await?;
    let hearing = tokio::spawn(async move { while ears.recv().await.is_ok() {} });
    let next = Arc::new(AtomicU32::new(0));
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        let mut of = [0.0; 2];
        for (rate, switch) in of.iter_mut().zip(["disable", "enable"]) {
            sqlx::raw_sql("truncate david.runs, david.mcp_task_events cascade")
                .execute(&database.pool)
                .await?;
            for trigger in TRIGGERS {
                let alter = format!("alter table david.mcp_action_tasks {switch} trigger {trigger}");
                sqlx::raw_sql(sqlx::AssertSqlSafe(alter)).execute(&database.pool).await?;
            }
            database.settle().await?;
            *rate = submitted(&core, &next, stand.scale.window / 3).await?;
        }
        let [off, on] = of;
        ratios.push(on / off);
        rates.push(on);
    }
    hearing.abort();
    core.close().await;
    database.drop(stand).await?;
    report.add("G", "submissions by 32 connections: with wake-ups ÷ without", "", "≥ 0.9", &ratios);
    report.add("G", "submissions with wake-ups", "/s", "", &rates);
    Ok(())
}

/// Per second.
async fn submitted(core: &sqlx::PgPool, next: &Arc<AtomicU32>, window: Duration) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (core, next) = (core.clone(), Arc::clone(next));
        connections.spawn(async move {
            let mut connection = core.acquire().await?;
            let mut done = 0_u32;
            while began.elapsed() < window {
                let number = next.fetch_add(1, Ordering::Relaxed);
                // A Run of its own each, as most have.
                sqlx::query("insert into david.runs (id, user_id) values ('run_' || $1, 'user')")
                    .bind(number.to_string())
                    .execute(&mut *connection)
                    .await?;
                sqlx::query(
                    "select david.submit_action('act_' || $1, 'run_' || $1, 'reg', 'work', 'work', '{}')",
                )
                .bind(number.to_string())
                .execute(&mut *connection)
                .await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(connection) = connections.join_next().await {
        done += connection??;
    }
    Ok(f64::from(done) / began.elapsed().as_secs_f64())
}
