//! `testkit`: the private cluster and the sample server as programs, for scripts and for poking around.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use david_sample::{Options, Server};
use david_testkit::Postgres;
use tokio::signal::unix::{SignalKind, signal};

/// Development tools of david-tasks. Each command runs in the foreground until SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(version)]
enum Command {
    /// Run a private Postgres cluster and print `DATABASE_URL=…` when it is ready
    Postgres {
        /// Where the cluster lives; it is kept and used again
        #[arg(long)]
        dir: PathBuf,
        /// TCP port on 127.0.0.1; a free one if not given
        #[arg(long)]
        port: Option<u16>,
    },
    /// Run the sample MCP server and print its URL when it is ready
    McpServer {
        /// TCP port on 127.0.0.1; a free one if not given
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// How often its tasks ask to be polled, in milliseconds
        #[arg(long, default_value_t = 200)]
        poll_interval_ms: u64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Postgres { dir, port } => postgres(&dir, port).await,
        Command::McpServer { port, poll_interval_ms } => {
            mcp_server(port, Duration::from_millis(poll_interval_ms)).await
        }
    }
}

async fn mcp_server(port: u16, poll_interval: Duration) -> anyhow::Result<()> {
    let listen = (Ipv4Addr::LOCALHOST, port).into();
    let server = Server::start(Options { listen, poll_interval, ..Options::default() }).await?;
    announce(&server.url())?;
    stop().await?;
    server.shutdown().await
}

async fn postgres(dir: &Path, port: Option<u16>) -> anyhow::Result<()> {
    let mut postgres = Postgres::start_in(dir, port)?;
    announce(&format!("DATABASE_URL={}", postgres.url("postgres")))?;
    let mut look = tokio::time::interval(Duration::from_millis(500));
    let stop = stop();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            stopped = &mut stop => return stopped,
            _ = look.tick() => if let Some(status) = postgres.ended()? {
                anyhow::bail!("postgres ended by itself ({status}); see its log in {}", dir.display());
            },
        }
    }
}

/// Scripts read this line and go on.
fn announce(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

async fn stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
