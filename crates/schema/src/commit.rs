//! Writing decisions, in batches, each in one transaction.
//!
//! Cancel beats complete: the Run is held `for share` from its re-read to COMMIT, so a cancel
//! either committed first, and its fence or the re-read stops the result here, or it comes after,
//! and finds the Action ended (DESIGN rule 7).

use std::sync::Arc;

use david_reconciler::{Fence, Outcome};
use sqlx::Connection as _;

use crate::causes;
use crate::changes::Changes;
use crate::error::fault_of;
use crate::hold::{Patience, hold};
use crate::settle::{Verdict, settle};
use crate::slots::{Slot, Slots};
use crate::write::NewRow;
use crate::{CommitError, Fault, Ledger, ReplicaId, Write};

/// What came of a write. Zero rows have a name each (rule 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// It is written, now or by an earlier try whose answer was lost.
    Applied {
        /// The row's fence now.
        fence: Fence,
    },
    /// The row was cancelled with its Run, as it should have been before.
    Repaired,
    /// As many calls are in flight as the server may have; nothing was written, and the lease is held.
    Full,
    /// Somebody else leased or changed the row since; nothing was written.
    LeaseLost,
    /// The Action had ended otherwise; nothing was written.
    AlreadyFinalised {
        /// How, if the word is one we know.
        outcome: Option<Outcome>,
    },
    /// The row is gone with its Action or Run; nothing was written.
    Vanished,
}

/// What came of a batch, in the order of its writes.
#[derive(Debug)]
pub enum BatchAnswer {
    /// The write is settled.
    Settled(Result<Committed, CommitError>),
    /// Somebody holds its Run, Action or row, or the batch was refused for one of its rows: commit
    /// it with [`Ledger::commit_alone`], which may wait, so that the others need not.
    Alone,
}

impl Ledger {
    /// Commits `writes`, at most one per row, without waiting for a row lock (nor long for anything else). Every write gets an
    /// answer of its own: one bad or locked row does not fail or stall the batch it travels in
    /// (rules 7 and 16).
    pub async fn commit_batch(&self, replica: ReplicaId, writes: &[Write]) -> Vec<BatchAnswer> {
        match self.commit_together(replica, writes, Patience::Skip).await {
            Ok(settled) => settled
                .into_iter()
                .map(|settled| {
                    settled.map_or(BatchAnswer::Alone, |committed| BatchAnswer::Settled(Ok(committed)))
                })
                .collect(),
            // The connection is gone, and with it the knowledge of what was written. The caller
            // tries again, and each write recognises itself.
            Err(error) if fault_of(&error) == Fault::Unavailable => {
                let error = Arc::new(error);
                let unavailable = || BatchAnswer::Settled(Err(CommitError::Unavailable(Arc::clone(&error))));
                writes.iter().map(|_| unavailable()).collect()
            }
            Err(error) => {
                tracing::debug!(error = causes(&error), "a batch goes row by row");
                writes.iter().map(|_| BatchAnswer::Alone).collect()
            }
        }
    }

    /// Commits one write, waiting up to five seconds for each lock.
    ///
    /// # Errors
    /// See [`CommitError`]: nothing was written, or ([`CommitError::Unavailable`]) nobody knows.
    pub async fn commit_alone(&self, replica: ReplicaId, write: &Write) -> Result<Committed, CommitError> {
        match self.commit_together(replica, std::slice::from_ref(write), Patience::Wait).await {
            // Waited for, and not there.
            Ok(settled) => Ok(settled.into_iter().flatten().next().unwrap_or(Committed::Vanished)),
            Err(error) => Err(match fault_of(&error) {
                Fault::Conflict | Fault::Unavailable => CommitError::Unavailable(Arc::new(error)),
                Fault::RemoteTaskTaken => CommitError::RemoteTaskTaken,
                Fault::Refused => CommitError::Refused(Arc::new(error)),
            }),
        }
    }

    /// One transaction, one answer per write. A write without one left the batch: its row is locked
    /// by somebody else or gone, its Run is cancelled, or another write of the batch is for the
    /// same row (a late reply and the lease that lapsed meanwhile).
    async fn commit_together(
        &self,
        replica: ReplicaId,
        writes: &[Write],
        patience: Patience,
    ) -> Result<Vec<Option<Committed>>, sqlx::Error> {
        self.run(async |connection| {
            let mut transaction = connection.begin().await?;
            let wait = patience.lock_timeout();
            sqlx::query_file_scalar!("../../sql/limit_lock_wait.sql", wait)
                .fetch_one(&mut *transaction)
                .await?;
            let mut held = hold(&mut transaction, writes, patience).await?;
            let mut slots = Slots::hold(&mut transaction, writes).await?;

            let mut settled = Vec::with_capacity(writes.len());
            let mut changes = Changes::default();
            for write in writes {
                settled.push(held.take(write).map(|row| match (settle(&row, write), NewRow::of(write)) {
                    (Verdict::Apply(fence), Some(new)) => {
                        let slot = match slots.take(write) {
                            Slot::Full => return Committed::Full,
                            Slot::Taken(slot) => Some(slot),
                            Slot::NotNeeded => None,
                        };
                        changes.add(write, &new, &row, fence, slot);
                        Committed::Applied { fence }
                    }
                    (Verdict::Already(fence), Some(_)) => Committed::Applied { fence },
                    // The repair was done with the Run; the row has moved unless it had ended before.
                    (Verdict::Apply(_) | Verdict::Already(_), None) => Committed::Repaired,
                    (Verdict::Ended(outcome), _) => Committed::AlreadyFinalised { outcome },
                    (Verdict::Lost, _) => Committed::LeaseLost,
                }));
            }
            changes.write(&mut transaction, replica).await?;
            transaction.commit().await?;
            Ok(settled)
        })
        .await
    }
}
