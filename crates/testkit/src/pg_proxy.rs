//! `PgProxy`: a TCP proxy in front of Postgres that loses connections at the worst moment.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

mod relay;
mod wire;

/// A running proxy on loopback. Dropping it closes all connections through it.
///
/// It starts out passing everything; the methods that change that take effect at once, for open connections,
/// too. It does not speak TLS: the server behind it must not, either.
#[derive(Debug)]
pub struct PgProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    mode: watch::Sender<Mode>,
    commits: AtomicU64,
    cuts: AtomicU64,
}

#[derive(Debug, Clone)]
enum Mode {
    Pass,
    CutBefore(Trigger),
    CutAfter(Trigger),
    Blackhole,
    Refuse,
}

#[derive(Debug, Clone)]
enum Trigger {
    Commit,
    Statement(String),
}

impl PgProxy {
    /// Starts a proxy for the server at `upstream`.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(upstream: SocketAddr) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no free port for the proxy")?;
        let address = listener.local_addr()?;
        let (mode, _) = watch::channel(Mode::Pass);
        let shared = Arc::new(Shared { mode, commits: AtomicU64::new(0), cuts: AtomicU64::new(0) });
        let accepting = tokio::spawn(accept(listener, upstream, shared.clone())).abort_handle();
        Ok(Self { address, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `database_url` with this proxy in place of the server.
    ///
    /// # Errors
    /// When it is not of the form `postgres://user@host:port/database`.
    pub fn url(&self, database_url: &str) -> anyhow::Result<String> {
        let (scheme, rest) = database_url.split_once("://").context("a database URL has a scheme")?;
        let (authority, database) = rest.split_once('/').context("a database URL names a database")?;
        let user = authority.rsplit_once('@').map_or("postgres", |(user, _)| user);
        Ok(format!("{scheme}://{user}@{}/{database}", self.address))
    }

    /// Relays everything, as at the start.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// Drops the next connection that sends COMMIT, without forwarding it; once.
    pub fn cut_before_commit(&self) {
        self.set(Mode::CutBefore(Trigger::Commit));
    }

    /// Forwards the next COMMIT, waits until the server has done it, and drops the connection without a word; once.
    pub fn cut_after_commit(&self) {
        self.set(Mode::CutAfter(Trigger::Commit));
    }

    /// As [`cut_before_commit`](Self::cut_before_commit), at the next statement whose text contains `part`: for
    /// statements that commit by themselves.
    pub fn cut_before(&self, part: &str) {
        self.set(Mode::CutBefore(Trigger::Statement(part.to_owned())));
    }

    /// As [`cut_after_commit`](Self::cut_after_commit), at the next statement whose text contains `part`.
    pub fn cut_after(&self, part: &str) {
        self.set(Mode::CutAfter(Trigger::Statement(part.to_owned())));
    }

    /// Stops relaying in both directions and keeps all connections open, new ones, too.
    pub fn blackhole(&self) {
        self.set(Mode::Blackhole);
    }

    /// Drops all connections, and new ones as they come.
    pub fn refuse(&self) {
        self.set(Mode::Refuse);
    }

    /// How many COMMITs clients have sent, forwarded or not.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::SeqCst)
    }

    /// How many cuts have been made, or have begun: each `cut_…` makes at most one.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }
}

impl Drop for PgProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Connections live in a set of this task: they end with it.
async fn accept(listener: TcpListener, upstream: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                let shared = shared.clone();
                connections.spawn(async move {
                    let server = TcpStream::connect(upstream).await?;
                    relay::relay(client, server, &shared).await
                });
            }
            Some(ended) = connections.join_next() => {
                if let Ok(Err(error)) = ended {
                    tracing::debug!(%error, "connection through the proxy ended");
                }
            }
        }
    }
}
