//! One bound on what is in flight, and who waits for it.

use std::collections::HashMap;

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

    /// One fewer waits for its first look, if it did.
    fn left(&mut self, queued: &Queued) {
        if !queued.unseen {
            return;
        }
        let server = queued.drive.server();
        if let Some(unseen) = self.unseen.get_mut(server) {
            *unseen -= 1;
            if *unseen == 0 {
                self.unseen.remove(server);
            }
        }
    }
}
