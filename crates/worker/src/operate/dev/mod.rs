//! `dev`: a newcomer's whole world in one process and one folder.
//!
//! ```text
//! Postgres (a child, durable, on loopback) ← worker (as `david-tasks worker` runs it) → sample MCP server
//! ```
//!
//! It ends in the opposite order: the worker gives its rows back, then the server goes, then Postgres shuts down.

mod next;
mod ports;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser};
use david_cluster::{InUse, Postgres};
use david_sample::{Options, Server};
use david_schema::{ConnectOptions, Ledger, Sessions, migrate};

use super::{Ended, print};
use crate::config::WorkerConfig;
use crate::worker;
use ports::Ports;

/// How often Postgres is looked after.
const LOOK: Duration = Duration::from_millis(500);

/// Settings of `david-tasks dev`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Where everything is kept (path).
    #[arg(long, default_value = ".david-tasks-dev", value_name = "DIR")]
    dir: PathBuf,

    /// Port of Postgres on 127.0.0.1; by default the folder's own, a free one the first time.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

/// The worker's settings have their defaults in its command line, and nowhere else.
#[derive(Parser)]
struct Worker {
    #[command(flatten)]
    config: WorkerConfig,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    std::fs::create_dir_all(&arguments.dir)
        .with_context(|| format!("{} cannot be made", arguments.dir.display()))?;
    let dir = arguments.dir.canonicalize()?;
    if !is_ours_or_empty(&dir)? {
        eprintln!("david-tasks: {} holds something else", dir.display());
        eprintln!(
            "Choose an empty folder, one that does not exist yet, or one that an earlier `david-tasks dev` made: --dir."
        );
        return Ok(Ended::Refused);
    }
    let ports = Ports::of(&dir, arguments.port)?;
    eprintln!("david-tasks: starting Postgres in {} …", dir.display());
    let started = tokio::task::spawn_blocking({
        let dir = dir.clone();
        move || Postgres::start_for_development(&dir, ports.postgres)
    });
    let postgres = match started.await.context("the start of Postgres panicked")? {
        Ok(postgres) => postgres,
        Err(error) if error.is::<InUse>() => {
            eprintln!("david-tasks: {error}");
            eprintln!(
                "Another `david-tasks dev` runs there. Use that one, end it (Ctrl-C), or choose another --dir."
            );
            return Ok(Ended::Refused);
        }
        Err(error) if error.to_string().contains("in use") => {
            return Err(error.context(format!("port {} is taken; choose another --port", ports.postgres)));
        }
        Err(error) => return Err(error),
    };
    let url = postgres.url("postgres");
    let ledger = open(&url)?;
    migrate(ledger.pool()).await.context("the database cannot be migrated")?;

    let listen = (Ipv4Addr::LOCALHOST, ports.server).into();
    let server = Server::start(Options { listen, ..Options::default() }).await.with_context(|| {
        // A registration's URL never changes, so the port stays.
        format!("this folder's server needs port {}: end who has it, or choose another --dir", ports.server)
    })?;
    ledger.register_sample(&server.url()).await.context("the sample server cannot be registered")?;
    ports.keep(&dir)?;

    print(&next::text(&dir, &url, &server.url()))?;
    let worked = work(&url, postgres).await;
    ledger.pool().close().await;
    let (worked, postgres) = match worked {
        (worked, Some(postgres)) => (worked, postgres),
        // Without a database there is nothing to end in order.
        (worked, None) => return worked.map(|()| Ended::Done),
    };
    server.shutdown().await.context("the sample server did not end as it should")?;
    tokio::task::spawn_blocking(move || postgres.stop()).await.context("the end of Postgres panicked")??;
    worked?;
    eprintln!("david-tasks: all has ended; the data stays in {}", dir.display());
    Ok(Ended::Done)
}

fn open(url: &str) -> anyhow::Result<Ledger> {
    Ok(Ledger::open(&ConnectOptions {
        url: url.to_owned(),
        connections: 2,
        statement_timeout: Duration::from_secs(600),
        acquire_timeout: Duration::from_secs(30),
        application_name: "david-tasks dev".to_owned(),
        sessions: Sessions::Ours,
    })?)
}

/// Works until it is told to stop; gives Postgres back unless that has ended by itself.
async fn work(url: &str, mut postgres: Postgres) -> (anyhow::Result<()>, Option<Postgres>) {
    // What is not set here may be set by the worker's environment variables.
    let settings =
        ["david-tasks", "--database-url", url, "--trusted-hosts", "127.0.0.1", "--shutdown-grace", "15s"];
    let config = match Worker::try_parse_from(settings) {
        Ok(worker) => worker.config,
        Err(error) => return (Err(error.into()), Some(postgres)),
    };
    let working = worker::run(config);
    tokio::pin!(working);
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            ended = &mut working => return (ended.map(drop), Some(postgres)),
            _ = look.tick() => match postgres.ended() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return (Err(anyhow::anyhow!("postgres ended by itself ({status}); its log is in the folder")), None);
                }
                Err(error) => return (Err(error), Some(postgres)),
            },
        }
    }
}

/// Whether a folder may be taken: it is handed to another user, and filled.
fn is_ours_or_empty(dir: &Path) -> anyhow::Result<bool> {
    let ours = ["data", "in-use", "ports.json"].iter().any(|name| dir.join(name).exists());
    let mut entries = std::fs::read_dir(dir).with_context(|| format!("{} cannot be read", dir.display()))?;
    Ok(ours || entries.next().is_none())
}
