//! Takes due rows for as long as there is room, and hands them to the holder.
//!
//! As long as work does not pile up and no server is closed, rows are leased in the order in which they are
//! due, which is fair by itself and costs one statement. Otherwise they are leased lane by lane (`lanes.rs`).

use std::sync::Arc;
use std::time::Duration;

use david_schema::{Due, LeaseBatch, LedgerError, ReplicaId, causes};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::clock::LeaseClock;
use crate::context::Context;
use crate::drive::Drive;
use crate::health::ClosedServers;
use crate::holder::Holder;
use crate::lanes::Lanes;
use crate::pulse::LoopPulse;
use crate::watermark::Watermark;

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
    /// Pause after a lease that found nothing more to do.
    pub(crate) idle: Duration,
}

/// How often rows that killed leases before are looked for.
const SUSPECT_INTERVAL: Duration = Duration::from_secs(2);

/// How long suspects are driven before others are leased again.
const SUSPECT_SHARE: Duration = Duration::from_secs(1);

/// How long a replica waits to have nothing else in flight before it takes such a row all the same, and
/// how long it waits for that row before it goes on. Calls may take minutes; a fleet that always has
/// one out would never get to the suspect, and one suspect's call would stop everything else.
const SUSPECT_PATIENCE: Duration = Duration::from_secs(30);

/// Rows that have been due for longer than this pile up.
const LAG: Duration = Duration::from_millis(500);

/// Pause between two looks for rows of closed servers whose time is over,
const OVERDUE_INTERVAL: Duration = Duration::from_secs(5);

/// and as a multiple of how long the last one took: it goes through all that is due there.
const OVERDUE_SHARE: u32 = 20;

/// From a lease to its request, and from its answer to what is made of it.
const PROBE_SLACK: Duration = Duration::from_secs(5);

/// After a wake-up that found nothing, once: another one may have been left out just then.
const SECOND_LOOK: Duration = Duration::from_millis(25);

pub(crate) struct Leaser {
    context: Arc<Context>,
    leasing: Leasing,
    /// For how many more rows there is room.
    room: Arc<Semaphore>,
    holder: Holder,
    lanes: Lanes,
    mark: Watermark,
    /// Whether the last lease found rows that had been due for long.
    lagging: bool,
    suspects_seen: Instant,
    /// When rows of closed servers are looked for again.
    overdue_next: Instant,
    alone: TaskTracker,
}

impl Leaser {
    pub(crate) fn new(context: Arc<Context>, leasing: Leasing, holder: Holder) -> Self {
        let room = Arc::new(Semaphore::new(leasing.held as usize));
        let now = Instant::now();
        Self {
            context,
            leasing,
            room,
            holder,
            lanes: Lanes::new(),
            mark: Watermark::new(now),
            lagging: false,
            suspects_seen: now,
            overdue_next: now + OVERDUE_INTERVAL,
            alone: TaskTracker::new(),
        }
    }

    /// Leases until the replica is asked to stop.
    pub(crate) async fn run(mut self, pulse: LoopPulse) {
        let (stopping, bell) = (self.context.stopping.clone(), Arc::clone(&self.context.bell));
        let mut pause = Duration::ZERO;
        let mut failures = 0_u32;
        let mut second_look = false;
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = bell.notified(), if failures == 0 => second_look = true,
                () = tokio::time::sleep(pause) => {}
            }
            let round = pulse.round();
            let taken = self.round().await;
            drop(round);
            pause = match taken {
                Ok(0) if std::mem::take(&mut second_look) => SECOND_LOOK,
                Ok(taken) => {
                    failures = 0;
                    // Whoever took something may find more.
                    if taken >= self.leasing.batch as usize || (taken > 0 && self.lagging) {
                        Duration::ZERO
                    } else {
                        jittered(self.leasing.idle)
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    self.context.metrics.lease_failures.inc();
                    tracing::warn!(error = causes(&error), failures, "cannot lease; trying again");
                    backoff(failures)
                }
            };
        }
        self.alone.close();
        self.alone.wait().await;
    }

    /// One lease. Returns how many rows it took.
    async fn round(&mut self) -> Result<usize, LedgerError> {
        let closed = self.context.health.closed();
        if self.suspects_seen.elapsed() >= SUSPECT_INTERVAL {
            if self.context.ledger.suspect_due(&closed.shut()).await? {
                self.drive_suspects_alone().await?;
            }
            self.suspects_seen = Instant::now();
        }
        let looks = Instant::now();
        if !closed.all.is_empty() && looks >= self.overdue_next {
            // The servers that answer do not stop for what is wrong with it.
            if let Err(error) = self.lease_overdue(&closed).await {
                tracing::warn!(
                    error = causes(&error),
                    "rows of closed servers whose time is over stay for now"
                );
            }
            let took = looks.elapsed();
            self.overdue_next = Instant::now() + OVERDUE_INTERVAL.max(took.saturating_mul(OVERDUE_SHARE));
        }

        // Owed cancels are leased without room, though only as many as can be sent.
        let limit = self.room().await.min(self.leasing.batch);
        let blocked = self.lanes.blocked(&self.context, &closed, self.holder.saturated());
        if self.lagging || !blocked.is_empty() {
            return self.lease_lanes(limit, &closed, &blocked).await;
        }
        let sent = Instant::now();
        let due = Due { limit, cancels: self.leasing.batch, from: self.mark.from(sent) };
        let batch = self.context.ledger.lease_due(self.leasing.replica, due, self.leasing.term).await?;
        self.mark.learn(&batch, batch.len() >= limit as usize && limit > 0);
        self.lagging = batch.lag() > LAG;
        let taken = batch.len();
        self.hand_over(sent, batch).await;
        Ok(taken)
    }

    /// For how many rows there is room; waits a while for one.
    async fn room(&self) -> u32 {
        let first = Arc::clone(&self.room).acquire_owned();
        tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => 0,
            first = first => {
                let room = u32::try_from(self.room.available_permits()).unwrap_or(u32::MAX).saturating_add(1);
                drop(first);
                room
            }
            () = tokio::time::sleep(self.leasing.idle) => 0,
        }
    }

    async fn lease_lanes(
        &mut self,
        limit: u32,
        closed: &ClosedServers,
        blocked: &crate::lanes::Blocked,
    ) -> Result<usize, LedgerError> {
        self.lanes.read(&self.context.ledger).await?;
        let mut taken = self.probe(closed).await?;
        let lanes = self.lanes.shares(limit, self.leasing.batch, blocked);
        if lanes.is_empty() {
            self.lagging = false;
            return Ok(taken);
        }
        let sent = Instant::now();
        // Cancels go beyond the limit: whoever has no room for a row has room for them.
        let most = limit.saturating_add(self.leasing.batch);
        let (replica, term) = (self.leasing.replica, self.leasing.term);
        let batch = self.context.ledger.lease_lanes(replica, most, &lanes, term).await?;
        self.lagging = batch.lag() > LAG;
        if batch.is_empty() {
            self.lanes.forget();
        }
        taken += batch.len();
        self.hand_over(sent, batch).await;
        Ok(taken)
    }

    /// One row of each server that it is time to try again.
    async fn probe(&mut self, closed: &ClosedServers) -> Result<usize, LedgerError> {
        let mut taken = 0;
        for server in &closed.half_open {
            let phases = self.lanes.phases_to_probe(server);
            if phases.is_empty() {
                continue;
            }
            let (replica, term) = (self.leasing.replica, self.leasing.term);
            let sent = Instant::now();
            let answer_within = self.context.poll_timeout + PROBE_SLACK;
            let batch =
                self.context.ledger.lease_probe(replica, server, &phases, answer_within, term).await?;
            taken += batch.len();
            for drive in self.drives_of(sent, batch) {
                self.context.health.probe(server, self.answer_within(&drive));
                self.holder.take(drive.watched()).await;
            }
        }
        Ok(taken)
    }

    /// By when a server that is asked again has answered, or does not.
    fn answer_within(&self, drive: &Drive) -> Duration {
        drive.call_timeout().unwrap_or(self.context.poll_timeout) + PROBE_SLACK
    }

    /// Rows of closed servers whose deadline has come: that needs no server.
    async fn lease_overdue(&mut self, closed: &ClosedServers) -> Result<(), LedgerError> {
        let sent = Instant::now();
        let (replica, term) = (self.leasing.replica, self.leasing.term);
        let batch = self.context.ledger.lease_overdue(replica, self.leasing.batch, &closed.all, term).await?;
        for drive in self.drives_of(sent, batch) {
            self.holder.take(drive.watched()).await;
        }
        Ok(())
    }

    async fn hand_over(&self, sent: Instant, batch: LeaseBatch) {
        for drive in self.drives_of(sent, batch) {
            // What finds no room is not held between two polls.
            let drive = match Arc::clone(&self.room).try_acquire_owned() {
                Ok(room) => drive.with_room(room),
                Err(_full) => drive.watched(),
            };
            self.holder.take(drive).await;
        }
    }

    /// A row that ended two leases without a commit may have killed its replicas; it must not take
    /// others with it (DESIGN rule 16). So rows that are held are given back, and what is in flight
    /// is waited for, within reason.
    async fn drive_suspects_alone(&mut self) -> Result<(), LedgerError> {
        let alone = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return Ok(()),
            alone = tokio::time::timeout(SUSPECT_PATIENCE, self.holder.stand_still()) => alone.is_ok(),
        };
        if !alone {
            tracing::warn!(
                "a row that killed its leases before is driven beside others: long calls are in flight"
            );
        }
        let driven = self.drive_suspects().await;
        self.holder.go_on();
        driven
    }

    async fn drive_suspects(&self) -> Result<(), LedgerError> {
        let began = Instant::now();
        // Two crashes in a row make suspects of all rows that were held: one after the other is not
        // once per interval.
        while began.elapsed() < SUSPECT_SHARE && !self.context.stopping.is_cancelled() {
            let sent = Instant::now();
            let (replica, term) = (self.leasing.replica, self.leasing.term);
            // One that is half open may have nothing else by which to see whether it answers.
            let closed = self.context.health.closed();
            let batch = self.context.ledger.lease_suspect(replica, &closed.shut(), term).await?;
            if batch.is_empty() {
                break;
            }
            for mut drive in self.drives_of(sent, batch) {
                if closed.half_open.contains(drive.server()) {
                    self.context.health.probe(drive.server(), self.answer_within(&drive));
                }
                // Without room, so it is written and given up after one look.
                let driven = self.alone.spawn(async move { drive.run().await });
                match tokio::time::timeout(SUSPECT_PATIENCE, driven).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => {
                        tracing::error!(error = causes(&error), "a row's drive panicked; the row lapses");
                    }
                    Err(_elapsed) => {
                        tracing::warn!(
                            "a row that killed its leases before makes a long call; others go on beside it"
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn drives_of(&self, sent: Instant, batch: LeaseBatch) -> Vec<Drive> {
        for bad in &batch.bad {
            tracing::error!(error = causes(bad), "a row cannot be read; it lapses");
        }
        let Some(now) = batch.now else { return Vec::new() };
        for wait in &batch.waits {
            self.context.metrics.due_lag.observe(wait.as_secs_f64());
        }
        let clock = LeaseClock::new(sent, now, self.leasing.term);
        batch.rows.into_iter().map(|leased| Drive::new(Arc::clone(&self.context), leased, clock)).collect()
    }
}

fn backoff(failures: u32) -> Duration {
    jittered(Duration::from_millis(100).saturating_mul(1 << failures.min(6)).min(Duration::from_secs(5)))
}

/// ±25 %, so that replicas that started together do not ask together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + 0.5 * fastrand::f64())
}
