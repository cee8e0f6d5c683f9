//! Takes due rows for as long as there is room, and drives each.

use std::sync::Arc;
use std::time::Duration;

use david_schema::{LeaseBatch, LedgerError, ReplicaId, causes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::clock::LeaseClock;
use crate::context::Context;
use crate::drive::Drive;

/// How a replica takes rows.
#[derive(Debug, Clone)]
pub(crate) struct Leasing {
    pub(crate) replica: ReplicaId,
    /// Length of a lease.
    pub(crate) term: Duration,
    /// Rows per lease at most.
    pub(crate) batch: u32,
    /// Rows in flight at most.
    pub(crate) in_flight: u32,
    /// Pause after a lease that found nothing more to do.
    pub(crate) idle: Duration,
}

/// How often rows that killed leases before are looked for.
const SUSPECT_INTERVAL: Duration = Duration::from_secs(2);

/// How long a replica waits to have nothing else in flight before it takes such a row all the same.
/// Calls may take minutes; a fleet that always has one out would never get to the suspect.
const SUSPECT_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Leaser {
    context: Arc<Context>,
    leasing: Leasing,
    room: Arc<Semaphore>,
    drives: TaskTracker,
    suspects_seen: Instant,
}

impl Leaser {
    pub(crate) fn new(context: Arc<Context>, leasing: Leasing) -> Self {
        let room = Arc::new(Semaphore::new(leasing.in_flight as usize));
        Self { context, leasing, room, drives: TaskTracker::new(), suspects_seen: Instant::now() }
    }

    /// Leases until the replica is asked to stop, then waits for what is in flight.
    pub(crate) async fn run(mut self) {
        let stopping = self.context.stopping.clone();
        let mut pause = Duration::ZERO;
        let mut failures = 0_u32;
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.round().await {
                Ok(pause) => {
                    failures = 0;
                    pause
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(error = causes(&error), failures, "cannot lease; trying again");
                    backoff(failures)
                }
            };
        }
        self.drives.close();
        self.drives.wait().await;
    }

    /// One lease. Returns how long to wait before the next.
    async fn round(&mut self) -> Result<Duration, LedgerError> {
        if self.suspects_seen.elapsed() >= SUSPECT_INTERVAL {
            self.suspects_seen = Instant::now();
            if self.context.ledger.suspect_due().await? {
                self.drive_suspect_alone().await?;
            }
        }
        // Wait for room for one row, then take as many as there is room for.
        let first = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return Ok(self.leasing.idle),
            first = Arc::clone(&self.room).acquire_owned() => first,
        };
        let room = u32::try_from(self.room.available_permits()).unwrap_or(u32::MAX).saturating_add(1);
        let limit = room.min(self.leasing.batch);
        drop(first);

        let sent = Instant::now();
        let batch = self.context.ledger.lease(self.leasing.replica, limit, self.leasing.term).await?;
        let full = batch.rows.len() + batch.bad.len() >= limit as usize;
        self.spawn(sent, batch).await;
        Ok(if full { Duration::ZERO } else { jittered(self.leasing.idle) })
    }

    /// A row that ended two leases without a commit may have killed its replicas; it must not take
    /// others with it (DESIGN rule 16). So everything else is waited for, within reason.
    async fn drive_suspect_alone(&mut self) -> Result<(), LedgerError> {
        let everything = Arc::clone(&self.room).acquire_many_owned(self.leasing.in_flight);
        let alone = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return Ok(()),
            alone = tokio::time::timeout(SUSPECT_PATIENCE, everything) => alone.ok().and_then(Result::ok),
        };
        if alone.is_none() {
            tracing::warn!(
                "a row that killed its leases before is driven beside others: long calls are in flight"
            );
        }
        let sent = Instant::now();
        let batch = self.context.ledger.lease_suspect(self.leasing.replica, self.leasing.term).await?;
        for drive in self.drives_of(sent, batch) {
            self.drives.spawn(drive.run()).await.unwrap_or_else(report_panic);
        }
        drop(alone);
        Ok(())
    }

    async fn spawn(&self, sent: Instant, batch: LeaseBatch) {
        for drive in self.drives_of(sent, batch) {
            let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
            self.drives.spawn(hold_room(permit, drive));
        }
    }

    fn drives_of(&self, sent: Instant, batch: LeaseBatch) -> Vec<Drive> {
        for bad in &batch.bad {
            tracing::error!(error = causes(bad), "a row cannot be read; it lapses");
        }
        let Some(now) = batch.now else { return Vec::new() };
        let clock = LeaseClock::new(sent, now, self.leasing.term);
        batch.rows.into_iter().map(|leased| Drive::new(Arc::clone(&self.context), leased, clock)).collect()
    }
}

async fn hold_room(permit: OwnedSemaphorePermit, drive: Drive) {
    drive.run().await;
    drop(permit);
}

fn report_panic(error: tokio::task::JoinError) {
    tracing::error!(error = causes(&error), "a row's drive panicked; the row lapses");
}

fn backoff(failures: u32) -> Duration {
    jittered(Duration::from_millis(100).saturating_mul(1 << failures.min(6)).min(Duration::from_secs(5)))
}

/// ±25 %, so that replicas that started together do not ask together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + 0.5 * fastrand::f64())
}
