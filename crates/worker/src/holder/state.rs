//! Which rows are held, and where each of them is: between two looks, ready, or in flight.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use david_reconciler::{Fence, TaskId};
use tokio::time::Instant;

use crate::drive::{Drive, Kind};

use super::bound::Bound;

/// A call that found no room in this time is given back; another replica may have some.
const CALL_PATIENCE: Duration = Duration::from_secs(2);

/// All of them.
#[derive(Default)]
pub(super) struct State {
    pub(super) waiting: BinaryHeap<Reverse<Waiting>>,
    /// The fence of the newest lease of each row. A row that was cancelled or answered is leased
    /// again while its older lease still waits here; that one has nothing to do any more.
    pub(super) newest: HashMap<TaskId, Fence>,
    pub(super) calls: Bound,
    pub(super) polls: Bound,
    /// When the timer rings.
    pub(super) rings: Option<Instant>,
    pub(super) mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    #[default]
    Working,
    /// Whatever comes is given back.
    Still,
}

/// A row between two looks, ordered by when the next is due.
pub(super) struct Waiting {
    pub(super) at: Instant,
    pub(super) drive: Box<Drive>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl State {
    pub(super) fn bound(&mut self, kind: Kind) -> &mut Bound {
        match kind {
            Kind::Call => &mut self.calls,
            Kind::Poll => &mut self.polls,
        }
    }

    pub(super) fn is_newest(&self, row: (TaskId, Fence)) -> bool {
        self.newest.get(&row.0) == Some(&row.1)
    }

    pub(super) fn push(&mut self, drive: Box<Drive>, unseen: bool) {
        self.bound(drive.kind()).push(drive, unseen);
    }

    /// The next row of this kind, when one may fly.
    pub(super) fn pop(&mut self, kind: Kind, most: usize) -> Option<Box<Drive>> {
        loop {
            let bound = self.bound(kind);
            let drive = bound.pop(most.saturating_sub(bound.flying))?.drive;
            if self.is_newest(drive.row()) {
                self.bound(kind).flying += 1;
                return Some(drive);
            }
            self.bound(kind).queue.landed(drive.server());
        }
    }

    /// Those whose time has come.
    pub(super) fn wake(&mut self) {
        let now = Instant::now();
        while self.waiting.peek().is_some_and(|Reverse(waiting)| waiting.at <= now) {
            let Some(Reverse(Waiting { drive, .. })) = self.waiting.pop() else { return };
            if self.is_newest(drive.row()) {
                self.push(drive, false);
            }
        }
    }

    /// Takes out those that wait in vain.
    pub(super) fn take_out_late(&mut self) -> Vec<Drive> {
        let now = Instant::now();
        let mut out =
            self.calls.take_out(|queued| queued.since + CALL_PATIENCE <= now || queued.drive.is_late(now));
        out.extend(self.polls.take_out(|queued| queued.drive.is_late(now)));
        self.drop_stale(out.into_iter().map(|queued| queued.drive))
    }

    /// Takes out everything that is not in flight.
    pub(super) fn take_out_all(&mut self) -> Vec<Drive> {
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|Reverse(waiting)| waiting.drive);
        let calls = self.calls.take_out(|_| true);
        let polls = self.polls.take_out(|_| true);
        let queued = calls.into_iter().chain(polls).map(|queued| queued.drive);
        self.drop_stale(waiting.chain(queued))
    }

    fn drop_stale(&mut self, drives: impl Iterator<Item = Box<Drive>>) -> Vec<Drive> {
        let mut kept = Vec::new();
        for drive in drives {
            if self.is_newest(drive.row()) {
                self.newest.remove(&drive.row().0);
                kept.push(*drive);
            }
        }
        kept
    }
}
