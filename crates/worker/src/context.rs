//! What every row in flight shares.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::Policy;
use david_schema::Ledger;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::committer::Committer;
use crate::endpoint_policy::EndpointPolicy;
use crate::full::FullServers;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::progress::Progress;
use crate::registrar::Registrar;
use crate::remote::Clients;

/// Shared by all rows of one replica.
pub(crate) struct Context {
    /// Where decisions are committed.
    pub(crate) committer: Committer,
    /// The database, for reads outside the lease.
    pub(crate) ledger: Ledger,
    /// The way to every MCP server.
    pub(crate) remote: Clients,
    /// Where news of Actions under way goes.
    pub(crate) progress: Progress,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Limits of the reconciler.
    pub(crate) policy: Policy,
    /// Which URLs may be talked to.
    pub(crate) endpoints: EndpointPolicy,
    /// Which servers are left alone.
    pub(crate) health: Health,
    /// Which servers have as many calls in flight as they may.
    pub(crate) full: FullServers,
    /// Rung when something may be due that was not a moment ago.
    pub(crate) bell: Arc<Notify>,
    /// The registrations of held rows.
    pub(crate) registrar: Registrar,
    /// Whether bearer credentials are to be had at all.
    pub(crate) has_credentials: bool,
    /// How long `tasks/get`, `tasks/update` and `tasks/cancel` may take.
    pub(crate) poll_timeout: Duration,
    /// Cancelled when the replica is asked to stop.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when the grace of a stop is over.
    pub(crate) aborting: CancellationToken,
}

impl Context {
    /// Until when the result of a call is offered to the database: practically for ever, since
    /// nobody else has it. The end of a stop's grace cuts it short.
    pub(crate) fn call_commits_until(&self) -> Instant {
        Instant::now() + A_DAY
    }
}

const A_DAY: Duration = Duration::from_secs(24 * 3600);
