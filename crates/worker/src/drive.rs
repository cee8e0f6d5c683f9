//! One row, from its lease to the commit that ends the lease: plan → observe → decide → commit.

use std::sync::Arc;

use david_reconciler::{
    Answer, Authority, CallReply, CancelDebt, Jitter, Observation, PollReply, RemoteTaskId, Snapshot, Step,
    Transition, authorise, decide, fit, plan, sentence,
};
use david_schema::{CommitError, Committed, Guard, Leased, Write, causes};
use tokio::time::Instant;

use crate::clock::LeaseClock;
use crate::context::Context;
use crate::crash;
use crate::orphan;
use crate::outgoing;
use crate::progress::News;
use crate::remote::{Listener, Report, Target};
use crate::story;

/// A leased row on its way.
pub(crate) struct Drive {
    context: Arc<Context>,
    leased: Arc<Leased>,
    clock: LeaseClock,
    authority: Authority,
    jitter: Jitter,
}

impl Drive {
    /// Takes a row from a lease. Whether its server may be talked to is asked here, anew for every
    /// lease (DESIGN rule 11).
    pub(crate) fn new(context: Arc<Context>, leased: Leased, clock: LeaseClock) -> Self {
        let endpoint =
            leased.endpoint.as_ref().map_or(Ok(()), |endpoint| context.endpoints.check(&endpoint.url));
        let authority = match authorise(leased.registration.as_ref(), &leased.run.user_id, endpoint) {
            Authority::Granted if outgoing::wants_credential(&leased) && !context.has_credentials => {
                Authority::NoCredential {
                    reason:
                        "The registration wants a bearer credential, and this worker has no source of credentials."
                            .to_owned(),
                }
            }
            authority => authority,
        };
        let jitter = Jitter::thousandths(fastrand::i16(-100..=100));
        Self { context, leased: Arc::new(leased), clock, authority, jitter }
    }

    /// Drives it. Returns once its lease is over, or has been given up to lapse.
    pub(crate) async fn run(mut self) {
        crash::point("leased");
        if let Some(column) = self.leased.unreadable {
            let message = format!("A question's {column} is JSON that cannot be read here.");
            let verdict = david_reconciler::quarantine(&self.snapshot(), &message);
            self.commit(self.fence(), verdict).await;
            return;
        }
        match plan(&self.snapshot()) {
            Step::Commit(transition @ Transition::BeginCall { .. }) => self.call(transition).await,
            Step::Commit(transition @ Transition::SendAnswers { .. }) => self.answer(transition).await,
            Step::Commit(transition) => {
                self.commit(self.fence(), transition).await;
            }
            Step::Poll => self.poll().await,
            Step::Cancel => self.cancel().await,
        }
    }

    /// `queued` → `calling`, committed; then `tools/call`; then whatever came of it.
    async fn call(&mut self, begin: Transition) {
        let Some(target) = outgoing::target(&self.leased) else { return self.release().await };
        let request = match outgoing::tool_request(&self.leased) {
            Ok(request) => request,
            Err(reason) => {
                let verdict = david_reconciler::quarantine(&self.snapshot(), reason);
                self.commit(self.fence(), verdict).await;
                return;
            }
        };
        if self.context.stopping.is_cancelled() {
            return self.release().await;
        }
        let Transition::BeginCall { lease } = &begin else { return self.release().await };
        let (sent, lease) = (Instant::now(), *lease);
        crash::point("before_begin_call");
        let Some(Committed::Applied { .. }) = self.commit(self.fence(), begin.clone()).await else { return };
        self.clock = self.clock.extended(sent, lease);
        self.leased = Arc::new(self.leased.after(&begin));
        crash::point("call_begun");

        // From here on a call may be on the wire: no shutdown interrupts this, only its deadline,
        // which starts before the commit whose lease has to cover it.
        let deadline = sent + self.leased.call.request_timeout;
        let listener = Some(self.listener());
        let reply = self.context.remote.call_tool_and_listen(&target, request, deadline, listener).await;
        crash::point("call_answered");
        let remote = match &reply {
            CallReply::Task { state, .. } => Some(state.id.clone()),
            _ => None,
        };
        let transition = decide(&self.snapshot(), Observation::Call(reply));
        self.settle_call(target, remote, transition).await;
        crash::point("call_committed");
    }

    /// Writes what came of a call, however long the database takes to come back: nobody else can.
    async fn settle_call(&mut self, target: Target, remote: Option<RemoteTaskId>, transition: Transition) {
        let guard = Guard::Call(self.leased.task.fence);
        let write = self.write(guard, transition);
        let give_up = self.context.call_commits_until();
        match self.context.committer.commit(write.clone(), give_up).await {
            Ok(committed) => {
                story::tell(&self.leased, &write.transition, &committed);
                // A Run may be cancelled while its call is on the wire: the id has no row then.
                let kept = matches!(committed, Committed::Applied { .. })
                    && matches!(write.transition, Transition::Track { .. });
                if let (Some(id), false) = (remote, kept) {
                    orphan::cancel(&self.context, &self.leased, &target, &id).await;
                }
            }
            Err(CommitError::RemoteTaskTaken) => {
                let message = "The server gave this task the id of another live task.";
                let verdict = david_reconciler::protocol_error(&self.snapshot(), message);
                self.commit(guard, verdict).await;
            }
            Err(error) => self.refused(guard, error).await,
        }
    }

    async fn poll(&mut self) {
        let Some((target, remote)) =
            outgoing::target(&self.leased).zip(self.leased.task.phase.remote().cloned())
        else {
            return self.release().await;
        };
        let Some(deadline) = self.clock.deadline(self.context.poll_timeout) else {
            return self.release().await;
        };
        let reply = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return self.release().await,
            reply = self.context.remote.get_task(&target, &remote.id, deadline) => reply,
        };
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
            Transition::SendAnswers { .. } => self.answer(transition).await,
            transition => {
                self.commit(self.fence(), transition).await;
                crash::point("poll_committed");
            }
        }
    }

    /// Marks answers as being sent, committed; then sends them.
    async fn answer(&mut self, mark: Transition) {
        let Transition::SendAnswers { answers } = &mark else { return self.release().await };
        let answers = answers.clone();
        if self.context.stopping.is_cancelled() {
            return self.release().await;
        }
        let Some(Committed::Applied { .. }) = self.commit(self.fence(), mark.clone()).await else { return };
        self.leased = Arc::new(self.leased.after(&mark));
        crash::point("answers_marked");
        self.update(answers).await;
    }

    async fn update(&mut self, answers: Vec<Answer>) {
        let Some((target, remote)) =
            outgoing::target(&self.leased).zip(self.leased.task.phase.remote().cloned())
        else {
            return self.release().await;
        };
        let Some(deadline) = self.clock.deadline(self.context.poll_timeout) else {
            return self.release().await;
        };
        // Not interrupted by a shutdown: it is short, and what was sent should be told.
        let ack = self.context.remote.update_task(&target, &remote.id, &answers, deadline).await;
        crash::point("answers_sent");
        let transition = decide(&self.snapshot(), Observation::Update(ack));
        self.commit(self.fence(), transition).await;
    }

    async fn cancel(&mut self) {
        let Some((target, remote)) =
            outgoing::target(&self.leased).zip(self.leased.task.phase.remote().cloned())
        else {
            return self.release().await;
        };
        let Some(deadline) = self.clock.deadline(self.context.poll_timeout) else {
            return self.release().await;
        };
        let ack = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => return self.release().await,
            ack = self.context.remote.cancel_task(&target, &remote.id, deadline) => ack,
        };
        crash::point("cancel_sent");
        let transition = decide(&self.snapshot(), Observation::Cancel(ack));
        self.commit(self.fence(), transition).await;
    }

    /// Commits under `guard` for as long as the lease lasts.
    async fn commit(&self, guard: Guard, transition: Transition) -> Option<Committed> {
        let write = self.write(guard, transition);
        match self.context.committer.commit(write.clone(), self.clock.lapses_at()).await {
            Ok(committed) => {
                story::tell(&self.leased, &write.transition, &committed);
                if committed == Committed::Vanished {
                    self.vanished(&write.transition).await;
                }
                Some(committed)
            }
            Err(error) => {
                self.refused(guard, error).await;
                None
            }
        }
    }

    /// The Action was deleted while its task was looked at. Nothing remembers the task but this
    /// replica, so it is cancelled, best effort, unless it has ended (DESIGN rule 8).
    async fn vanished(&self, transition: &Transition) {
        let over = match transition {
            Transition::Finish(finish) => finish.debt == CancelDebt::None,
            Transition::SettleCancel { .. } => true,
            _ => false,
        };
        if let (Some(remote), Some(target), false) =
            (self.leased.task.phase.remote(), outgoing::target(&self.leased), over)
        {
            orphan::cancel(&self.context, &self.leased, &target, &remote.id).await;
        }
    }

    /// A write that the database will not take must not come back for ever (DESIGN rule 15).
    async fn refused(&self, guard: Guard, error: CommitError) {
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
                if let Err(error) = self.context.committer.commit(write, self.clock.lapses_at()).await {
                    tracing::error!(task.id = task, error = causes(&error), "the row lapses");
                }
            }
        }
    }

    async fn release(&self) {
        self.context.committer.release(self.leased.task.id, self.leased.task.fence).await;
    }

    fn write(&self, guard: Guard, transition: Transition) -> Write {
        Write { leased: Arc::clone(&self.leased), guard, transition }
    }

    fn fence(&self) -> Guard {
        Guard::Fence(self.leased.task.fence)
    }

    fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            task: &self.leased.task,
            call: &self.leased.call,
            run: &self.leased.run,
            authority: &self.authority,
            inputs: &self.leased.inputs,
            policy: &self.context.policy,
            now: self.clock.now(),
            jitter: self.jitter,
        }
    }

    /// Passes on what a server reports while it executes a call.
    fn listener(&self) -> Listener {
        let (context, news) = (Arc::clone(&self.context), outgoing::news(&self.leased));
        Arc::new(move |report: Report| {
            context.progress.tell(News {
                message: report.message.map(|words| fit(&words)),
                progress: Some(report.progress),
                total: report.total,
                ..news.clone()
            });
        })
    }
}
