//! One replica: leaser, committer, and an orderly stop.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use david_schema::{Ledger, LevelError, ReplicaId, causes, check_level};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::bell;
use crate::committer::Committer;
use crate::config::{Pooling, Switch, WorkerConfig};
use crate::context::Context;
use crate::endpoint::{self, Readiness, Shown};
use crate::full::FullServers;
use crate::health::Health;
use crate::holder::Holder;
use crate::leaser::{Leaser, Leasing};
use crate::metrics::{Metrics, Moment};
use crate::progress::Progress;
use crate::pulse::Pulse;
use crate::registrar::Registrar;
use crate::remote::{Access, Clients};
use crate::retention::{self, Retention};
use crate::signals;

/// How a replica ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything in flight was finished or released.
    Clean,
    /// The grace was over before every call in flight had ended; those rows become
    /// `outcome_unknown` when their leases lapse.
    GraceOver,
}

/// Runs a replica until it is told to stop (SIGTERM or SIGINT; a second signal ends the grace).
///
/// # Errors
/// When the configuration cannot work, or the database's schema is older than this binary needs.
/// A database that is down is waited for.
pub async fn run(config: WorkerConfig) -> anyhow::Result<Stopped> {
    config.check()?;
    let credentials = config.credentials.source()?.map(Arc::new);
    let ledger = Ledger::open(&config.connect_options()).context("the database URL cannot be read")?;
    let stopping = CancellationToken::new();
    let aborting = CancellationToken::new();
    signals::listen(stopping.clone(), aborting.clone())?;

    let (metrics, pulse) = (Metrics::new(), Pulse::default());
    let health = Health::new(config.open_for(), Arc::clone(&metrics));
    let holder = Holder::new(stopping.clone(), config.max_in_flight as usize);
    // None of these writes an Action, and none ends before the process.
    let mut helpers = JoinSet::new();
    if let Some(address) = config.listen {
        let moment = Moment { ledger: ledger.clone(), holder: holder.clone(), health: health.clone() };
        let readiness = Arc::new(Readiness::new(ledger.clone(), stopping.clone()));
        let metrics = Arc::clone(&metrics);
        endpoint::serve(address, Shown { metrics, moment, pulse: pulse.clone(), readiness }).await?;
    }

    let replica = ReplicaId::new();
    if !wait_for_database(&ledger, &stopping).await? {
        return Ok(Stopped::Clean);
    }
    let (committer, commit_loop) =
        Committer::new(ledger.clone(), replica, Arc::clone(&metrics), pulse.of("committing"));
    let mut commit_loop = tokio::spawn(commit_loop.run());
    let (progress, progress_loop) = Progress::new(ledger.clone(), config.progress_channel.clone());
    // Nothing waits for it; it ends with its last handle.
    drop(tokio::spawn(progress_loop.run()));
    let registrar = Registrar::default();
    let bell = Arc::new(Notify::new());
    helpers.spawn(registrar.clone().run(ledger.clone(), pulse.of("registrations")));
    helpers.spawn(health.clone().run(ledger.clone(), pulse.of("health")));
    if config.listen.is_some() {
        let (metrics, ledger) = (Arc::clone(&metrics), ledger.clone());
        helpers.spawn(async move { metrics.fleet.run(ledger).await });
    }
    if config.wake_ups == Switch::On && config.db_pooling == Pooling::Session {
        helpers.spawn(bell::listen(ledger.clone(), Arc::clone(&bell), Arc::clone(&metrics)));
    }
    if let Retention::For(keep) = config.retention {
        helpers.spawn(retention::run(ledger.clone(), keep, Arc::clone(&metrics)));
    }
    let context = Arc::new(Context {
        committer,
        ledger,
        progress,
        metrics,
        registrar,
        health: health.clone(),
        full: FullServers::default(),
        bell,
        has_credentials: credentials.is_some(),
        remote: Clients::new(
            config.remote_limits(),
            Access { endpoints: Some(config.endpoint_policy()), credentials, health: Some(health) },
        )
        .context("the HTTP client cannot be set up")?,
        policy: config.policy(),
        endpoints: config.endpoint_policy(),
        poll_timeout: config.poll_timeout,
        stopping: stopping.clone(),
        aborting: aborting.clone(),
    });
    let leasing = Leasing {
        replica,
        term: config.lease_term,
        batch: config.lease_batch,
        held: config.max_held,
        idle: config.idle_interval,
    };
    tracing::info!(replica.id = %replica.0, "the worker leases");

    let leaser = Leaser::new(context, leasing, holder.clone());
    let (leases, holds) = (pulse.of("leasing"), pulse.of("holding"));
    let mut work = tokio::spawn(async move {
        let mut holding = tokio::spawn(holder.run(holds));
        let mut leasing = pin!(leaser.run(leases));
        tokio::select! {
            () = &mut leasing => holding.await?,
            ended = &mut holding => {
                ended?;
                leasing.await;
            }
        }
        Ok::<_, JoinError>(())
    });
    let finished = async {
        tokio::select! {
            // Without one of these it is half a replica: better to be restarted.
            ended = &mut commit_loop => return ended.context("the committing task panicked"),
            Some(ended) = helpers.join_next() => return ended.context("a helping task panicked"),
            ended = &mut work => ended.context("the leasing task panicked")?.context("the holding task panicked")?,
        }
        // The committer's last handle went with the context: its loop ends when all is answered.
        commit_loop.await.context("the committing task panicked")
    };
    let stopped = tokio::select! {
        finished = finished => {
            finished?;
            Stopped::Clean
        }
        () = grace_over(&stopping, &aborting, config.shutdown_grace) => Stopped::GraceOver,
    };
    match stopped {
        Stopped::Clean => tracing::info!("stopped; nothing is left in flight"),
        Stopped::GraceOver => {
            aborting.cancel();
            tracing::warn!("stopped with calls still in flight");
        }
    }
    Ok(stopped)
}

/// How long the database may take to say which schema it has.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the database answers and is migrated. False when told to stop first.
async fn wait_for_database(ledger: &Ledger, stopping: &CancellationToken) -> anyhow::Result<bool> {
    let mut pause = Duration::from_millis(250);
    loop {
        let asked = async {
            match ledger.reach().await {
                Ok(()) => check_level(ledger).await.map_err(anyhow::Error::from),
                Err(error) => Err(error.into()),
            }
        };
        let answer = tokio::select! {
            () = stopping.cancelled() => return Ok(false),
            // A black hole answers nothing at all.
            answer = tokio::time::timeout(LEVEL_TIMEOUT, asked) => {
                answer.unwrap_or_else(|_elapsed| Err(anyhow::anyhow!("no answer in {LEVEL_TIMEOUT:?}")))
            }
        };
        match answer {
            Ok(()) => return Ok(true),
            Err(error)
                if matches!(error.downcast_ref(), Some(LevelError::Missing | LevelError::Old { .. })) =>
            {
                return Err(error);
            }
            Err(error) => tracing::warn!(
                error = causes(&*error),
                "the database does not answer; trying again (is DATABASE_URL right, and the server up?)"
            ),
        }
        tokio::select! {
            () = stopping.cancelled() => return Ok(false),
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(5)),
        }
    }
}

async fn grace_over(stopping: &CancellationToken, aborting: &CancellationToken, grace: Duration) {
    stopping.cancelled().await;
    tokio::select! {
        () = tokio::time::sleep(grace) => {}
        () = aborting.cancelled() => {}
    }
}
