//! G, first half: what wake-ups cost Core's inserts.

use std::time::{Duration, Instant};

use sqlx::postgres::PgListener;

use crate::report::Report;
use crate::stand::Stand;

use super::database::Database;

/// Connections of Core.
const CLIENTS: usize = 32;

/// `david.submit_action` from 32 connections, with the wake-up triggers ÷ without. No worker runs, so that
/// nothing but the triggers is different; two sessions listen, as two idle replicas would.
pub(crate) async fn inserts(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create(stand, "bench_inserts", 1).await?;
    let core = sqlx::postgres::PgPoolOptions::new()
        .max_connections(u32::try_from(CLIENTS)?)
        .test_before_acquire(false)
        .connect_with((*database.pool.connect_options()).clone())
        .await?;
    let window = stand.scale.window / 3;
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for repeat in 0..stand.scale.repeats {
        let mut of = [0.0; 2];
        // Whoever comes second finds a warmer server; so each comes second in turn.
        for on in if repeat % 2 == 0 { [true, false] } else { [false, true] } {
            let [without, with] = &mut of;
            if on {
                let listeners = [listener(&database).await?, listener(&database).await?];
                *with = inserts_per_second(&database, &core, window).await?;
                listeners.iter().for_each(tokio::task::JoinHandle::abort);
            } else {
                sqlx::raw_sql(
                    "alter table david.mcp_action_tasks disable trigger wake_for_new_tasks;
                     alter table david.mcp_action_tasks disable trigger wake_for_changed_tasks",
                )
                .execute(&database.pool)
                .await?;
                *without = inserts_per_second(&database, &core, window).await?;
                sqlx::raw_sql(
                    "alter table david.mcp_action_tasks enable always trigger wake_for_new_tasks;
                     alter table david.mcp_action_tasks enable always trigger wake_for_changed_tasks",
                )
                .execute(&database.pool)
                .await?;
            }
        }
        let [without, with] = of;
        ratios.push(with / without);
        rates.push(with);
    }
    core.close().await;
    database.drop(stand).await?;
    report.add("G", "inserts by 32 connections, wake-ups on ÷ off", "", "≥ 0.9", &ratios);
    report.add("G", "inserts by 32 connections, wake-ups on", "/s", "", &rates);
    Ok(())
}

/// Hears, and does nothing.
async fn listener(database: &Database) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut listener = PgListener::connect_with(&database.pool).await?;
    listener.listen("david_tasks").await?;
    Ok(tokio::spawn(async move { while listener.recv().await.is_ok() {} }))
}

async fn inserts_per_second(
    database: &Database,
    core: &sqlx::PgPool,
    window: Duration,
) -> anyhow::Result<f64> {
    sqlx::raw_sql("truncate david.runs, david.mcp_task_events cascade").execute(&database.pool).await?;
    sqlx::query(
        "insert into david.runs (id, user_id) select 'run_' || n, 'user' from generate_series(1, $1) n",
    )
    .bind(i64::try_from(CLIENTS)?)
    .execute(&database.pool)
    .await?;
    database.settle().await?;
    let began = Instant::now();
    // A Run each, as Core has one per conversation.
    let clients = (1..=CLIENTS).map(async |client| {
        let mut count = 0;
        while began.elapsed() < window {
            count += 1;
            sqlx::query("select david.submit_action($1, $2, 'reg', 'work', 'work', '{\"seconds\": 0}')")
                .bind(format!("act_{client}_{count}"))
                .bind(format!("run_{client}"))
                .execute(core)
                .await?;
        }
        anyhow::Ok(count)
    });
    let inserts: u32 = futures::future::try_join_all(clients).await?.into_iter().sum();
    Ok(f64::from(inserts) / began.elapsed().as_secs_f64())
}
