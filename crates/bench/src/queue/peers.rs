//! The other queues of F1: no-op jobs, claimed and completed.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use sqlx::postgres::PgPoolOptions;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::tools::{Tools, run};
use crate::stand::Stand;

/// A queue beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Keeps what is done, as we do.
    PgBoss,
    /// Deletes what is done.
    GraphileWorker,
    /// Reads and deletes messages; no job, no attempt, no history.
    Pgmq,
    /// One statement per job.
    Procrastinate,
}

/// Where most of them have their best rate on two cores.
const LOOPS: usize = 4;

const BATCH: usize = 500;

const PGMQ: &str = include_str!("../../peers/pgmq.sql");

impl Peer {
    pub(crate) const ALL: [Self; 4] = [Self::PgBoss, Self::GraphileWorker, Self::Pgmq, Self::Procrastinate];

    /// Jobs per second, in a database of its own.
    pub(crate) async fn rate(self, stand: &Stand, tools: &Tools) -> anyhow::Result<f64> {
        const DATABASE: &str = "bench_peer";
        let url = stand.create_database(DATABASE).await?;
        let rate = match self {
            Self::PgBoss => {
                let mut boss = tools.node("pg-boss.mjs").await?;
                let arguments = [stand.scale.jobs / 2, BATCH, LOOPS].map(|number| number.to_string());
                said(boss.arg(&url).args(arguments)).await
            }
            Self::GraphileWorker => {
                let mut graphile = tools.node("graphile-worker.mjs").await?;
                said(graphile.arg(&url).arg(stand.scale.jobs.to_string())).await
            }
            Self::Pgmq => pgmq(&url, stand.scale.jobs).await,
            Self::Procrastinate => {
                let mut procrastinate = tools.python("procrastinate_peer.py").await?;
                // It is slower by a hundred times.
                let arguments = [stand.scale.jobs / 50, 20].map(|number| number.to_string());
                said(procrastinate.arg(&url).args(arguments)).await
            }
        };
        stand.drop_database(DATABASE).await?;
        rate
    }
}

/// What a driver prints, as a rate.
async fn said(driver: &mut Command) -> anyhow::Result<f64> {
    let printed = run(driver).await?;
    let line = printed.lines().last().context("a driver printed nothing")?;
    let figures: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
    let figure = |name: &str| figures.get(name).and_then(Value::as_f64).with_context(|| format!("no {name}"));
    Ok(figure("jobs")? / figure("seconds")?)
}

/// Batches are read and deleted, as its documentation advises.
async fn pgmq(url: &str, jobs: usize) -> anyhow::Result<f64> {
    let pool = PgPoolOptions::new().max_connections(u32::try_from(LOOPS)?).connect(url).await?;
    sqlx::raw_sql(PGMQ).execute(&pool).await?;
    sqlx::raw_sql("select pgmq.create('noop')").execute(&pool).await?;
    sqlx::query(
        "select count(*) from pgmq.send_batch('noop', array(select jsonb_build_object('id', n) from generate_series(1, $1::int) n))",
    )
    .bind(i32::try_from(jobs)?)
    .execute(&pool)
    .await?;
    for statement in ["vacuum analyze", "checkpoint"] {
        sqlx::query(statement).execute(&pool).await?;
    }
    let began = Instant::now();
    let mut loops = JoinSet::new();
    for _ in 0..LOOPS {
        let pool = pool.clone();
        loops.spawn(async move {
            let mut done = 0;
            loop {
                let ids: Vec<i64> = sqlx::query_scalar("select msg_id from pgmq.read('noop', 30, $1)")
                    .bind(i32::try_from(BATCH)?)
                    .fetch_all(&pool)
                    .await?;
                if ids.is_empty() {
                    return anyhow::Ok(done);
                }
                sqlx::query("select pgmq.delete('noop', $1)").bind(&ids).execute(&pool).await?;
                done += ids.len();
            }
        });
    }
    let mut done = 0;
    while let Some(each) = loops.join_next().await {
        done += each??;
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(done == jobs, "{done} of {jobs} messages were read");
    pool.close().await;
    #[expect(clippy::cast_precision_loss, reason = "a count of messages")]
    Ok(done as f64 / seconds)
}
