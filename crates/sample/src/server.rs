//! The server as a process sees it: start, URL, ledger, shutdown.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use rmcp::task_manager::TaskOptions;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::handler::Handler;
use crate::ledger::Ledger;
use crate::tasks::Tasks;

/// How long a shutdown waits for calls in flight.
const GRACE: Duration = Duration::from_secs(2);

/// What may differ between sample servers.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; by default a free port on 127.0.0.1. Only loopback addresses answer to other host
    /// names than their own, see rmcp's `allowed_hosts`.
    pub listen: SocketAddr,
    /// What tasks say about how often to ask, rounded down to milliseconds; by default 200 ms.
    pub poll_interval: Duration,
    /// The TTL of tasks, `None` for unlimited; by default 5 minutes.
    pub default_ttl: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            poll_interval: Duration::from_millis(200),
            default_ttl: Some(Duration::from_secs(300)),
        }
    }
}

/// A running sample server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    ledger: Ledger,
    stop: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Server {
    /// Starts a server on the current tokio runtime; it answers when this returns.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(options.listen)
            .await
            .with_context(|| format!("cannot listen on {}", options.listen))?;
        let address = listener.local_addr()?;
        let ledger = Ledger::default();
        let stop = CancellationToken::new();
        let handler = Handler {
            tasks: Tasks::default(),
            ledger: ledger.clone(),
            options: TaskOptions::new()
                .with_ttl_ms(options.default_ttl.map(milliseconds))
                .with_poll_interval_ms(milliseconds(options.poll_interval)),
        };
        let router = router(handler.clone(), address, stop.clone());
        let serving = tokio::spawn({
            let stop = stop.clone();
            async move {
                let served =
                    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
                handler.tasks.shutdown();
                served
            }
        });
        Ok(Self { address, ledger, stop, serving })
    }

    /// The MCP endpoint: `http://127.0.0.1:PORT/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Where it listens; start another there to play a restart, which forgets all tasks.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was asked to do so far.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Stops listening, waits up to two seconds for calls in flight, and forgets all tasks.
    ///
    /// # Errors
    /// When serving had failed.
    pub async fn shutdown(mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        match tokio::time::timeout(GRACE, &mut self.serving).await {
            Ok(served) => Ok(served??),
            // Drop ends what is left.
            Err(_) => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.serving.abort();
    }
}

fn router(handler: Handler, address: SocketAddr, stop: CancellationToken) -> Router {
    let ledger = handler.ledger.clone();
    let mut config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_cancellation_token(stop);
    if !address.ip().is_loopback() {
        config = config.disable_allowed_hosts();
    }
    let mcp: StreamableHttpService<Handler, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(handler.clone()), Default::default(), config);
    let counts = async move || ([(CONTENT_TYPE, "application/json")], ledger.counts().to_json().to_string());
    Router::new().nest_service("/mcp", mcp).route("/ledger", get(counts))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
