//! Requests about a task that exists: `tasks/get`, `tasks/update`, `tasks/cancel`.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{Answer, Observation, PhaseName, PollReply, Transition, decide, sentence};
use david_schema::Committed;
use tokio::time::Instant;

use super::Drive;
use crate::crash;
use crate::outgoing;
use crate::progress::News;
use crate::story;
use crate::traces;

impl Drive {
    /// `tasks/get`. Returns how long the row is to be held, if it is.
    pub(super) async fn poll(&mut self) -> Option<Duration> {
        let deadline = self.clock.deadline(self.context.poll_timeout);
        let (Some(target), Some(remote), Some(deadline)) =
            (&self.target, self.leased.task.phase.remote(), deadline)
        else {
            Box::pin(self.give_back()).await;
            return None;
        };
        let span = traces::poll(&self.leased);
        let began = Instant::now();
        let reply = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => {
                Box::pin(self.give_back()).await;
                return None;
            }
            reply = self.context.remote.get_task(target, &remote.id, deadline) => reply,
        };
        drop(span);
        self.timings.get().observe(began.elapsed().as_secs_f64());
        self.context.metrics.polls.count(&reply);
        crash::point("poll_answered");
        if let PollReply::Working(state) | PollReply::InputRequired { state, .. } = &reply
            && let Some(message) = &state.message
        {
            let message = Some(sentence(&self.snapshot(), message));
            self.context.progress.tell(News { message, ..outgoing::news(&self.leased) });
        }
        let transition = decide(&self.snapshot(), Observation::Poll(reply));
        match transition {
            // The server still asks for a key whose answer may have been lost with a replica.
            Transition::SendAnswers { .. } => Box::pin(self.answer(transition)).await,
            transition => {
                if let Some(wait) = self.hold(&transition) {
                    return Some(wait);
                }
                Box::pin(self.commit(self.fence(), transition)).await;
                crash::point("poll_committed");
            }
        }
        None
    }

    /// Holds a row that works until its next poll, if that still fits the lease: nothing is written
    /// then. What was learned meanwhile is written with whatever ends the lease.
    fn hold(&mut self, transition: &Transition) -> Option<Duration> {
        let (Transition::Continue { delay, .. } | Transition::Retry { delay, .. }) = transition else {
            return None;
        };
        let works = self.leased.task.phase.name() == PhaseName::Working;
        let fits = self.clock.deadline_after(*delay, self.context.poll_timeout).is_some();
        if !works
            || !fits
            || self.room.is_none()
            || self.interest.is_none()
            || self.context.stopping.is_cancelled()
        {
            return None;
        }
        story::tell(&self.leased, transition, &Committed::Applied { fence: self.leased.task.fence });
        let leased = Arc::make_mut(&mut self.leased);
        leased.advance(transition);
        // A task that works is not called again; what to call may be large.
        leased.request = None;
        self.learned = true;
        Some(*delay)
    }

    /// Marks answers as being sent, committed; then sends them.
    pub(super) async fn answer(&mut self, mark: Transition) {
        let Transition::SendAnswers { answers } = &mark else { return self.give_back().await };
        let answers = answers.clone();
        if self.context.stopping.is_cancelled() {
            return self.give_back().await;
        }
        let Some(Committed::Applied { .. }) = self.commit(self.fence(), mark.clone()).await else { return };
        Arc::make_mut(&mut self.leased).advance(&mark);
        crash::point("answers_marked");
        self.update(answers).await;
    }

    async fn update(&mut self, answers: Vec<Answer>) {
        let deadline = self.clock.deadline(self.context.poll_timeout);
        let (Some(target), Some(remote), Some(deadline)) =
            (&self.target, self.leased.task.phase.remote(), deadline)
        else {
            return self.give_back().await;
        };
        // Not interrupted by a shutdown: it is short, and what was sent should be told.
        let began = Instant::now();
        let ack = self.context.remote.update_task(target, &remote.id, &answers, deadline).await;
        self.timings.update().observe(began.elapsed().as_secs_f64());
        crash::point("answers_sent");
        let transition = decide(&self.snapshot(), Observation::Update(ack));
        self.commit(self.fence(), transition).await;
    }

    pub(super) async fn cancel(&mut self) {
        let deadline = self.clock.deadline(self.context.poll_timeout);
        let (Some(target), Some(remote), Some(deadline)) =
            (&self.target, self.leased.task.phase.remote(), deadline)
        else {
            return self.give_back().await;
        };
        let began = Instant::now();
        let ack = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return self.give_back().await,
            ack = self.context.remote.cancel_task(target, &remote.id, deadline) => ack,
        };
        self.timings.cancel().observe(began.elapsed().as_secs_f64());
        crash::point("cancel_sent");
        let transition = decide(&self.snapshot(), Observation::Cancel(ack));
        self.commit(self.fence(), transition).await;
    }
}
