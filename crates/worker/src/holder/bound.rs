//! One bound on what is in flight, and who waits for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use david_reconciler::RegistrationId;
use tokio::time::Instant;

use crate::drive::Drive;
use crate::queue::FairQueue;

/// The bound.
#[derive(Default)]
pub(super) struct Bound {
    pub(super) flying: usize,
    pub(super) queue: FairQueue<RegistrationId, Queued>,
    /// How many of each server's wait for their first look. Only these say whether to lease more of it: rows that
    /// are held come back for ever, and as long as they were counted, a server with more due rows than can
    /// be polled would have its held ones polled and none of the others.
    pub(super) unseen: HashMap<RegistrationId, usize>,
}

pub(super) struct Queued {
    pub(super) since: Instant,
    /// Not looked at since it was leased.
    unseen: bool,
    pub(super) drive: Box<Drive>,
}

impl Bound {
    pub(super) fn push(&mut self, drive: Box<Drive>, unseen: bool) {
        let (server, rank) = (drive.server().clone(), drive.rank());
        if unseen {
            *self.unseen.entry(server.clone()).or_default() += 1;
        }
        self.queue.push(server, rank, Queued { since: Instant::now(), unseen, drive });
    }

    pub(super) fn pop(&mut self, free: usize) -> Option<Queued> {
        let (_server, queued) = self.queue.pop(free)?;
        self.left(&queued);
        Some(queued)
    }

    pub(super) fn take_out(&mut self, gone: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        let out = self.queue.take_out(gone);
        for queued in &out {
            self.left(queued);
        }
        out
    }

    fn left(&mut self, queued: &Queued) {
        if let (true, Entry::Occupied(mut unseen)) =
            (queued.unseen, self.unseen.entry(queued.drive.server().clone()))
        {
            *unseen.get_mut() -= 1;
            if *unseen.get() == 0 {
                unseen.remove();
            }
        }
    }
}
