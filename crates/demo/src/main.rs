//! The demo: submits 300 Actions of every kind to three MCP servers, lets two replicas drive them,
//! kills one in the middle, and checks that every Action ended as it should, exactly once.
//!
//! With `DATABASE_URL` set it works in that database, else in a private one. Exits non-zero when
//! anything differs from what was submitted.

mod plan;
mod report;
mod servers;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use david_testkit::{Postgres, Replica};
use indicatif::{ProgressBar, ProgressStyle};

use crate::plan::Plan;
use crate::report::Report;
use crate::servers::Servers;
use crate::store::Store;

/// The whole demo ends by then, whatever happens.
const LIMIT: Duration = Duration::from_secs(150);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(report) => {
            print!("{report}");
            if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<Report> {
    let started = Instant::now();
    let worker = beside_me("david-tasks")?;
    let (url, _private) = database()?;
    println!("database        {}", if _private.is_some() { "a private Postgres" } else { "DATABASE_URL" });
    let store = Store::open(&url).await?;

    let servers = Servers::start(&beside_me("testkit")?).await?;
    println!("MCP servers     {}", servers.urls().join("  "));

    let mut plan = Plan::new(servers.urls());
    store.submit(&mut plan, &servers).await?;
    println!("submitted       {} Actions in {} Runs", plan.actions.len(), plan.runs);
    store.cancel_runs(&plan, plan::Cancel::BeforeCall).await?;

    let replica = |name: &str| {
        println!("replica {name}       started");
        start(&worker, &url)
    };
    let (first, second) = (replica("1")?, replica("2")?);

    let bar = progress_bar(plan.actions.len());
    let mut killed = None;
    let mut third = None;
    loop {
        let done = store.finalised(&plan).await?;
        bar.set_position(done);
        if killed.is_none() && done * 10 >= plan.actions.len() as u64 * 4 {
            // Stopped first, so that what is in mid-call can be read before it dies.
            first.pause()?;
            let in_call = store.in_call(&plan).await?;
            first.kill()?;
            say(
                &bar,
                &format!(
                    "replica 1       killed (SIGKILL) with {done} Actions ended, {} in mid-call",
                    in_call.len()
                ),
            );
            plan.may_be_lost(&in_call);
            killed = Some(in_call.len());
            third = Some(start(&worker, &url)?);
            say(&bar, "replica 3       started");
            store.cancel_runs(&plan, plan::Cancel::WhileWorking).await?;
            say(&bar, "cancelled       the Runs of the tasks that would never end, by plain UPDATE");
        }
        if done == plan.actions.len() as u64 {
            break;
        }
        if started.elapsed() > LIMIT {
            bar.abandon();
            let stuck = store.stuck(&plan).await?;
            for replica in [Some(&second), third.as_ref()].into_iter().flatten() {
                eprintln!("{}", last_lines(&replica.logs()));
            }
            anyhow::bail!("{done} of {} Actions ended in {LIMIT:?}; still open: {stuck}", plan.actions.len());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bar.finish_and_clear();
    anyhow::ensure!(killed.is_some(), "no replica was killed: everything ended too soon");

    for replica in [Some(&second), third.as_ref()].into_iter().flatten() {
        replica.terminate()?;
        let status = replica.wait_exit(Duration::from_secs(30)).await?;
        anyhow::ensure!(
            status.success(),
            "a replica did not stop cleanly: {status}\n{}",
            last_lines(&replica.logs())
        );
    }
    println!("replicas 2, 3   stopped (SIGTERM)\n");
    Report::gather(&store, &plan, &servers, started.elapsed()).await
}

/// Programs are built side by side.
fn beside_me(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    anyhow::ensure!(
        path.exists(),
        "{} is not built: run scripts/demo, which builds everything",
        path.display()
    );
    Ok(path)
}

fn database() -> anyhow::Result<(String, Option<Postgres>)> {
    match std::env::var("DATABASE_URL") {
        Ok(url) if !url.is_empty() => Ok((url, None)),
        _ => {
            let postgres = Postgres::start().context("a private Postgres could not be started")?;
            Ok((postgres.url("postgres"), Some(postgres)))
        }
    }
}

fn start(worker: &std::path::Path, url: &str) -> anyhow::Result<Replica> {
    Replica::command(worker, url)
        .arg("worker")
        .env("DAVID_TASKS_TRUSTED_HOSTS", "127.0.0.1")
        // Short, so that the demo does not wait half a minute for what the killed replica held.
        .env("DAVID_TASKS_LEASE_TERM", "10s")
        .env("DAVID_TASKS_POLL_TIMEOUT", "3s")
        .env("DAVID_TASKS_CALL_GRACE", "2s")
        .start()
}

fn progress_bar(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    if let Ok(style) = ProgressStyle::with_template("{elapsed_precise} {bar:40} {pos}/{len} Actions ended") {
        bar.set_style(style);
    }
    bar
}

/// Above the bar; and where there is no terminal, and so no bar, all the same.
fn say(bar: &ProgressBar, line: &str) {
    bar.suspend(|| println!("{line}"));
}

fn last_lines(logs: &str) -> String {
    let lines: Vec<&str> = logs.lines().collect();
    lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
}
