//! The rows a replica holds: when each is looked at next, and how many at once.
//!
//! A row that works is leased once per term and polled from memory (DESIGN §7). It waits here between its
//! polls. Nothing is ever extended: when its next poll would not fit the lease any more, the row is written
//! and given up, and drifts to whichever replica has room.
//!
//! A *flier* is a task that drives one row after the other for as long as rows are ready, so that under load
//! a poll costs no task of its own.

mod bound;
mod state;

use std::cmp::Reverse;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use david_reconciler::RegistrationId;
use david_schema::causes;
use futures::{FutureExt as _, StreamExt as _, stream};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::drive::{Drive, Kind};
use crate::pulse::LoopPulse;

use self::state::{Mode, State, Waiting};

/// How often rows that wait in vain are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// Rows given back at the same time: what the committer makes two batches of.
const TOGETHER: usize = 400;

/// Where leased rows are handed in.
#[derive(Clone)]
pub(crate) struct Holder(Arc<Shared>);

struct Shared {
    stopping: CancellationToken,
    /// Calls in flight at most, and as many other requests.
    most: usize,
    state: Mutex<State>,
    /// A row is due before the timer rings.
    sooner: Notify,
    landed: Notify,
    fliers: TaskTracker,
}

/// How many rows are held at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// All of them.
    pub(crate) held: usize,
    /// Those that make a call.
    pub(crate) calls: usize,
    /// Those that ask something else.
    pub(crate) polls: usize,
}

/// Servers of which more waits than can be of use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Saturated {
    /// Even of what overtakes.
    pub(crate) urgent: Vec<RegistrationId>,
    /// Only of what does not.
    pub(crate) others: Vec<RegistrationId>,
}

impl Holder {
    /// Holds rows, with so many calls in flight at most, and as many other requests.
    pub(crate) fn new(stopping: CancellationToken, most: usize) -> Self {
        Self(Arc::new(Shared {
            stopping,
            most,
            state: Mutex::default(),
            sooner: Notify::new(),
            landed: Notify::new(),
            fliers: TaskTracker::new(),
        }))
    }

    /// Drives a row now, and again whenever its next poll is due.
    pub(crate) async fn take(&self, drive: Drive) {
        let drive = Box::new(drive);
        let refused = {
            let mut state = self.lock();
            if state.mode == Mode::Still || self.0.stopping.is_cancelled() {
                Some(drive)
            } else {
                let (task, fence) = drive.row();
                state.newest.insert(task, fence);
                state.push(drive, true);
                self.launch(&mut state);
                None
            }
        };
        if let Some(drive) = refused {
            drive.give_back().await;
        }
    }

    /// How many rows are here, and how many of them in flight.
    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        Counts { held: state.newest.len(), calls: state.calls.flying, polls: state.polls.flying }
    }

    /// Servers of which so many rows wait for their first look that more would only wait here.
    pub(crate) fn saturated(&self) -> Saturated {
        let state = self.lock();
        let (urgent, others) = [&state.calls, &state.polls]
            .into_iter()
            .flat_map(|bound| &bound.unseen)
            .filter(|(_, unseen)| **unseen >= self.saturation())
            .map(|(server, _)| server.clone())
            .partition(|server| state.polls.queue.urgent(server) >= self.saturation());
        Saturated { urgent, others }
    }

    /// Gives back whatever is not in flight, and goes on so until told otherwise; returns when nothing is
    /// in flight any more (DESIGN rule 16).
    pub(crate) async fn stand_still(&self) {
        let all = {
            let mut state = self.lock();
            state.mode = Mode::Still;
            state.take_out_all()
        };
        self.give_back(all).await;
        loop {
            let landed = self.0.landed.notified();
            let flying = {
                let state = self.lock();
                state.calls.flying + state.polls.flying
            };
            if flying == 0 {
                return;
            }
            landed.await;
        }
    }

    /// Ends [`Holder::stand_still`].
    pub(crate) fn go_on(&self) {
        self.lock().mode = Mode::Working;
    }

    /// Runs until the replica stops and nothing is in flight any more.
    pub(crate) async fn run(self, pulse: LoopPulse) {
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = {
                let mut state = self.lock();
                state.rings = state.waiting.peek().map(|Reverse(waiting)| waiting.at);
                state.rings
            };
            tokio::select! {
                biased;
                () = self.0.stopping.cancelled() => break,
                () = until(due) => {
                    let _round = pulse.round();
                    let mut state = self.lock();
                    state.wake();
                    self.launch(&mut state);
                }
                () = self.0.sooner.notified() => {}
                _ = sweep.tick() => {
                    let _round = pulse.round();
                    let late = self.lock().take_out_late();
                    // Not waited for: a database that does not answer holds up no other row.
                    drop(self.give_back(late));
                }
            }
        }
        // From here on whoever lands or comes gives back by himself.
        let all = self.lock().take_out_all();
        drop(self.give_back(all));
        self.0.fliers.close();
        self.0.fliers.wait().await;
    }

    /// Lets fly whatever may.
    fn launch(&self, state: &mut State) {
        for kind in [Kind::Poll, Kind::Call] {
            while let Some(drive) = state.pop(kind, self.0.most) {
                self.0.fliers.spawn(self.clone().fly(kind, drive));
            }
        }
    }

    /// One row after the other, for as long as there are any.
    async fn fly(self, kind: Kind, mut drive: Box<Drive>) {
        loop {
            let row = drive.row();
            // A panic of one row is no other's.
            let next = AssertUnwindSafe(drive.run()).catch_unwind().await.unwrap_or_else(|_panic| {
                tracing::error!(task.id = row.0.0, "a row's drive panicked; the row lapses");
                None
            });
            let server = drive.server().clone();
            if let Some(back) = next.and_then(|at| self.keep(drive, at)) {
                back.give_back().await;
            }
            let mut state = self.lock();
            if next.is_none() && state.is_newest(row) {
                state.newest.remove(&row.0);
            }
            let bound = state.bound(kind);
            bound.flying -= 1;
            bound.queue.landed(&server);
            self.0.landed.notify_waiters();
            let Some(another) = state.pop(kind, self.0.most) else { return };
            // One that landed may make room for more than one.
            self.launch(&mut state);
            drop(state);
            drive = another;
        }
    }

    /// Keeps a row until its next look. Returns it when it has to be given back instead.
    fn keep(&self, drive: Box<Drive>, at: Instant) -> Option<Box<Drive>> {
        let mut state = self.lock();
        let row = drive.row();
        if !state.is_newest(row) {
            // Leased again meanwhile: this lease is stale.
            return None;
        }
        if state.mode == Mode::Still || self.0.stopping.is_cancelled() {
            state.newest.remove(&row.0);
            return Some(drive);
        }
        if state.rings.is_none_or(|rings| at < rings) {
            state.rings = Some(at);
            self.0.sooner.notify_one();
        }
        state.waiting.push(Reverse(Waiting { at, drive }));
        None
    }

    /// So many at a time that the committer has batches to write. A task of its own, since these rows are
    /// nowhere else any more: whoever stops waiting for it does not stop it.
    fn give_back(&self, drives: Vec<Drive>) -> impl Future<Output = ()> + use<> {
        let giving = self.0.fliers.spawn(
            stream::iter(drives)
                .for_each_concurrent(TOGETHER, |drive| async move { drive.give_back().await }),
        );
        giving.map(|ended| {
            if let Err(error) = ended {
                tracing::error!(error = causes(&error), "rows that were given back lapse");
            }
        })
    }

    /// Twice what can be in flight: enough to be never idle.
    fn saturation(&self) -> usize {
        self.0.most * 2
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; should it, what is in there is as good as before.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
