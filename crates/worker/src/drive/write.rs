//! What a drive writes, and how a row is given back.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{Authority, CancelDebt, Transition};
use david_schema::{CommitError, Committed, Guard, Write, causes};
use tokio::time::Instant;

use super::Drive;
use crate::orphan;
use crate::story;
use crate::traces;

impl Drive {
    /// Commits under `guard` for as long as the lease lasts.
    pub(super) async fn commit(&self, guard: Guard, transition: Transition) -> Option<Committed> {
        self.commit_until(guard, transition, self.clock.lapses_at()).await
    }

    pub(super) async fn commit_until(
        &self,
        guard: Guard,
        transition: Transition,
        give_up: Instant,
    ) -> Option<Committed> {
        let write = self.write(guard, transition);
        let span = traces::finalise(&self.leased, &write.transition);
        let committed = self.context.committer.commit(write.clone(), give_up).await;
        drop(span);
        match committed {
            Ok(committed) => {
                story::tell(&self.leased, &write.transition, &committed);
                if committed == Committed::Vanished {
                    self.vanished(&write.transition).await;
                }
                Some(committed)
            }
            Err(error) => {
                self.refused(guard, error, give_up).await;
                None
            }
        }
    }

    /// The Action was deleted while its task was looked at. Nothing remembers the task but this
    /// replica, so it is cancelled, best effort, unless it has ended (DESIGN rule 8).
    async fn vanished(&self, transition: &Transition) {
        if self.authority != Authority::Granted {
            return;
        }
        let over = match transition {
            Transition::Finish(finish) => finish.debt == CancelDebt::None,
            Transition::SettleCancel { .. } => true,
            _ => false,
        };
        if let (Some(remote), Some(target), false) = (self.leased.task.phase.remote(), &self.target, over) {
            orphan::cancel(&self.context, &self.leased, target, &remote.id).await;
        }
    }

    /// A write that the database will not take must not come back for ever (DESIGN rule 15).
    pub(super) async fn refused(&self, guard: Guard, error: CommitError, give_up: Instant) {
        let task = self.leased.task.id.0;
        match &error {
            CommitError::Unavailable(_) => {
                tracing::error!(
                    task.id = task,
                    error = causes(&error),
                    "a write was given up; the row lapses"
                );
            }
            CommitError::RemoteTaskTaken | CommitError::Refused(_) => {
                tracing::error!(task.id = task, error = causes(&error), "the row is quarantined");
                let verdict = david_reconciler::quarantine(
                    &self.snapshot(),
                    "The database refused to store what the server sent.",
                );
                let write = self.write(guard, verdict);
                if let Err(error) = self.context.committer.commit(write, give_up).await {
                    tracing::error!(task.id = task, error = causes(&error), "the row lapses");
                }
            }
        }
    }

    /// Gives the row back, to be leased again at once: untouched, or with what polls from memory taught.
    pub(crate) async fn give_back(&self) {
        if !self.learned {
            return self.context.committer.release(self.leased.task.id, self.leased.task.fence).await;
        }
        let write = self.write(self.fence(), Transition::Wait { delay: Duration::ZERO });
        if let Err(error) = self.context.committer.commit_once(write).await {
            tracing::warn!(
                task.id = self.leased.task.id.0,
                error = causes(&error),
                "a row could not be given back and will lapse"
            );
        }
    }

    pub(super) fn write(&self, guard: Guard, transition: Transition) -> Write {
        Write { leased: Arc::clone(&self.leased), guard, transition }
    }
}
