//! Takes due rows for as long as there is room, and hands them to the holder.

use std::sync::Arc;
use std::time::Duration;

use david_schema::{LeaseBatch, LedgerError, ReplicaId, causes};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::clock::LeaseClock;
use crate::context::Context;
use crate::drive::Drive;
use crate::holder::{Holder, HolderLoop, Lanes};

/// How a replica takes rows.
#[derive(Debug, Clone)]
pub(crate) struct Leasing {
    pub(crate) replica: ReplicaId,
    /// Length of a lease.
    pub(crate) term: Duration,
    /// Rows per lease at most.
    pub(crate) batch: u32,
    /// Rows held at most, in flight or between two polls.
    pub(crate) held: u32,
    /// Calls in flight at most, and as many other requests.
    pub(crate) in_flight: u32,
    /// Pause after a lease that found nothing more to do.
    pub(crate) idle: Duration,
}

/// How often rows that killed leases before are looked for.
const SUSPECT_INTERVAL: Duration = Duration::from_secs(2);

/// How long suspects are driven before others are leased again.
const SUSPECT_SHARE: Duration = Duration::from_secs(1);

/// How long a replica waits to have nothing else in flight before it takes such a row all the same.
/// Calls may take minutes; a fleet that always has one out would never get to the suspect.
const SUSPECT_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Leaser {
    context: Arc<Context>,
    leasing: Leasing,
    /// For how many more rows there is room.
    room: Arc<Semaphore>,
    holder: Holder,
    lanes: Lanes,
    suspects_seen: Instant,
}

impl Leaser {
    /// The leaser, and the loop that drives what it leases.
    pub(crate) fn new(context: Arc<Context>, leasing: Leasing) -> (Self, HolderLoop) {
        let lane = || Arc::new(Semaphore::new(leasing.in_flight as usize));
        let lanes = Lanes { calls: lane(), polls: lane() };
        let (holder, holder_loop) = HolderLoop::new(Arc::clone(&context), &lanes);
        let room = Arc::new(Semaphore::new(leasing.held as usize));
        (Self { context, leasing, room, holder, lanes, suspects_seen: Instant::now() }, holder_loop)
    }

    /// Leases until the replica is asked to stop.
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
    }

    /// One lease. Returns how long to wait before the next.
    async fn round(&mut self) -> Result<Duration, LedgerError> {
        if self.suspects_seen.elapsed() >= SUSPECT_INTERVAL {
            if self.context.ledger.suspect_due().await? {
                self.drive_suspects_alone().await?;
            }
            self.suspects_seen = Instant::now();
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
        for drive in self.drives_of(sent, batch) {
            let Ok(room) = Arc::clone(&self.room).acquire_owned().await else { break };
            self.holder.take(drive.with_room(room)).await;
        }
        Ok(if full { Duration::ZERO } else { jittered(self.leasing.idle) })
    }

    /// A row that ended two leases without a commit may have killed its replicas; it must not take
    /// others with it (DESIGN rule 16). So rows that are held are given back, and what is in flight
    /// is waited for, within reason.
    async fn drive_suspects_alone(&mut self) -> Result<(), LedgerError> {
        self.holder.give_back_all().await;
        let everything = async {
            let calls = Arc::clone(&self.lanes.calls).acquire_many_owned(self.leasing.in_flight).await;
            let polls = Arc::clone(&self.lanes.polls).acquire_many_owned(self.leasing.in_flight).await;
            calls.ok().zip(polls.ok())
        };
        let alone = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return Ok(()),
            alone = tokio::time::timeout(SUSPECT_PATIENCE, everything) => alone.ok().flatten(),
        };
        if alone.is_none() {
            tracing::warn!(
                "a row that killed its leases before is driven beside others: long calls are in flight"
            );
        }
        let began = Instant::now();
        // Two crashes in a row make suspects of all rows that were held: one after the other is not
        // once per interval.
        while began.elapsed() < SUSPECT_SHARE && !self.context.stopping.is_cancelled() {
            let sent = Instant::now();
            let batch = self.context.ledger.lease_suspect(self.leasing.replica, self.leasing.term).await?;
            if batch.rows.is_empty() && batch.bad.is_empty() {
                break;
            }
            for drive in self.drives_of(sent, batch) {
                // Without room, so it is written and given up after one look.
                if let Err(error) = tokio::spawn(drive.run()).await {
                    tracing::error!(error = causes(&error), "a row's drive panicked; the row lapses");
                }
            }
        }
        drop(alone);
        Ok(())
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

fn backoff(failures: u32) -> Duration {
    jittered(Duration::from_millis(100).saturating_mul(1 << failures.min(6)).min(Duration::from_secs(5)))
}

/// ±25 %, so that replicas that started together do not ask together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + 0.5 * fastrand::f64())
}
