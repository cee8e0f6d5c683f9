//! Other job queues, at the best settings that their documentation names.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use david_testkit::Replica;
use serde_json::Value;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::stand::Stand;

use super::tools::Tools;

/// The slowest takes a minute.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Peer {
    pub(crate) ratio: &'static str,
    pub(crate) jobs: &'static str,
    pub(crate) target: &'static str,
    how: How,
}

enum How {
    /// A program in its own language: script, share of the jobs, and what else it is told.
    Script { name: &'static str, share: usize, arguments: &'static [&'static str] },
    /// Functions in SQL, called from here.
    Pgmq,
}

pub(crate) const PEERS: &[Peer] = &[
    Peer {
        ratio: "leased and finalised: Actions ÷ jobs of pg-boss",
        jobs: "jobs of pg-boss, 2 loops of 5,000 each",
        target: "≥ 1.0",
        how: How::Script { name: "pg-boss.mjs", share: 1, arguments: &["5000", "2"] },
    },
    Peer {
        ratio: "leased and finalised: Actions ÷ jobs of graphile-worker",
        jobs: "jobs of graphile-worker, batched",
        target: "≥ 0.5",
        how: How::Script { name: "graphile-worker.mjs", share: 1, arguments: &[] },
    },
    Peer {
        ratio: "leased and finalised: Actions ÷ messages of pgmq",
        jobs: "messages of pgmq, 2 loops of 500",
        target: "",
        how: How::Pgmq,
    },
    Peer {
        ratio: "leased and finalised: Actions ÷ jobs of procrastinate",
        jobs: "jobs of procrastinate, 20 at once",
        target: "> 1",
        how: How::Script { name: "procrastinate_peer.py", share: 50, arguments: &["20"] },
    },
];

const DATABASE: &str = "bench_peer";

impl Peer {
    /// Claims and completes no-op jobs in a database of its own.
    pub(crate) async fn jobs_per_second(&self, stand: &Stand, tools: &Tools) -> anyhow::Result<f64> {
        let url = stand.create_database(DATABASE).await?;
        let jobs = stand.scale.jobs;
        let rate = match &self.how {
            How::Script { name, share, arguments } => {
                let (program, script) = tools.program(name)?;
                run(&program, &script, &url, jobs / share, arguments).await
            }
            How::Pgmq => pgmq(&url, jobs).await,
        };
        stand.drop_database(DATABASE).await?;
        rate
    }
}

async fn run(
    program: &Path,
    script: &Path,
    url: &str,
    jobs: usize,
    arguments: &[&str],
) -> anyhow::Result<f64> {
    let mut command = Replica::command(program, url).arg(script).arg(url).arg(jobs.to_string());
    for argument in arguments {
        command = command.arg(argument);
    }
    let process = command.start()?;
    let status = process.wait_exit(PATIENCE).await?;
    // What it wrote last may still be on its way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let said = process.logs();
    ensure!(status.success(), "it ended with {status}: {}", said.lines().last().unwrap_or_default());
    let line = said.lines().rfind(|line| line.starts_with('{')).context("it said nothing")?;
    let done: Value = serde_json::from_str(line)?;
    let number = |key| done.get(key).and_then(Value::as_f64).with_context(|| format!("no {key} in {line}"));
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    let wanted = jobs as f64;
    ensure!((number("jobs")? - wanted).abs() < 0.5, "it did not do all jobs: {line}");
    Ok(wanted / number("seconds")?)
}

/// Messages per `read` and per `delete`.
const BATCH: i32 = 500;

async fn pgmq(url: &str, jobs: usize) -> anyhow::Result<f64> {
    let pool = PgPoolOptions::new().max_connections(2).test_before_acquire(false).connect(url).await?;
    sqlx::raw_sql(include_str!("../../peers/pgmq.sql")).execute(&pool).await?;
    sqlx::raw_sql("select pgmq.create('noop')").execute(&pool).await?;
    sqlx::query(
        "select count(*) from pgmq.send_batch('noop', array(select jsonb_build_object('id', n) from generate_series(1, $1) n))",
    )
    .bind(i64::try_from(jobs)?)
    .execute(&pool)
    .await?;
    for statement in ["vacuum analyze", "checkpoint"] {
        sqlx::query(statement).execute(&pool).await?;
    }
    let began = Instant::now();
    let done: usize = futures::future::try_join(consume(&pool), consume(&pool)).await.map(|(a, b)| a + b)?;
    let time = began.elapsed().as_secs_f64();
    pool.close().await;
    if done != jobs {
        bail!("{done} of {jobs} messages were deleted");
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of messages")]
    Ok(jobs as f64 / time)
}

/// Until nothing is left. `pop` would be faster and lose what its consumer was at when it died.
async fn consume(pool: &PgPool) -> anyhow::Result<usize> {
    let mut done = 0;
    loop {
        let messages: Vec<(i64, Value)> =
            sqlx::query_as("select msg_id, message from pgmq.read('noop', 30, $1)")
                .bind(BATCH)
                .fetch_all(pool)
                .await?;
        if messages.is_empty() {
            return Ok(done);
        }
        let ids: Vec<i64> = messages.into_iter().map(|(id, _)| id).collect();
        let deleted: Vec<i64> =
            sqlx::query_scalar("select pgmq.delete('noop', $1)").bind(&ids).fetch_all(pool).await?;
        done += deleted.len();
    }
}
