//! One row, from its lease to the commit that ends the lease: plan → observe → decide → commit.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{
    Answer, Authority, CallReply, CancelDebt, Fence, Jitter, Observation, PhaseName, PollReply, RemoteTaskId,
    Snapshot, Step, TaskId, Transition, decide, fit, plan, sentence,
};
use david_schema::{CommitError, Committed, Guard, Leased, Write, causes};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::authority::authority_of;
use crate::clock::LeaseClock;
use crate::context::Context;
use crate::crash;
use crate::orphan;
use crate::outgoing;
use crate::progress::News;
use crate::registrar::{Interest, Known};
use crate::remote::{Listener, Report, Target};
use crate::story;

/// A leased row on its way.
pub(crate) struct Drive {
    context: Arc<Context>,
    leased: Arc<Leased>,
    clock: LeaseClock,
    authority: Authority,
    jitter: Jitter,
    /// Room for one more row in this replica; none for a row that may not be held.
    room: Option<OwnedSemaphorePermit>,
    /// Its registration as it is now, once the row has been held.
    interest: Option<Interest>,
}

/// A row that stays leased in memory until its next poll (DESIGN §7).
pub(crate) struct Held {
    /// When that is.
    pub(crate) at: Instant,
    /// The row.
    pub(crate) drive: Drive,
}

/// Which of a replica's bounds a row in flight counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// `tools/call`, which may take minutes.
    Call,
    /// Everything else, which takes seconds at most.
    Poll,
}

/// While nobody knows whether a registration may still be used, its held rows wait.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(500);

impl Drive {
    /// Takes a row from a lease. Whether its server may be talked to is asked here, anew for every
    /// lease (DESIGN rule 11).
    pub(crate) fn new(context: Arc<Context>, leased: Leased, clock: LeaseClock) -> Self {
        let authority = authority_of(&context, leased.registered.as_deref(), &leased.run.user_id);
        let jitter = Jitter::thousandths(fastrand::i16(-100..=100));
        Self { context, leased: Arc::new(leased), clock, authority, jitter, room: None, interest: None }
    }

    /// The same, which may be held between its polls, as long as there is room for it.
    pub(crate) fn with_room(self, room: OwnedSemaphorePermit) -> Self {
        Self { room: Some(room), ..self }
    }

    /// Which row it is.
    pub(crate) fn row(&self) -> (TaskId, Fence) {
        (self.leased.task.id, self.leased.task.fence)
    }

    /// Which bound it counts against.
    pub(crate) fn lane(&self) -> Lane {
        match self.leased.task.phase.name() {
            PhaseName::Queued => Lane::Call,
            PhaseName::Calling
            | PhaseName::Working
            | PhaseName::InputRequired
            | PhaseName::Cancelling
            | PhaseName::Finalised => Lane::Poll,
        }
    }

    /// Drives it: one look, one decision. A row that works goes on being held until its lease is
    /// nearly over; every other lease is over, or has been given up to lapse, when this returns.
    pub(crate) async fn run(mut self) -> Option<Held> {
        let wait = if self.reauthorise() { self.step().await? } else { UNKNOWN_PAUSE };
        if self.clock.deadline_after(wait, self.context.poll_timeout).is_none() {
            self.release().await;
            return None;
        }
        Some(Held { at: Instant::now() + wait, drive: self })
    }

    /// Asks again, for a row that was held, what its registration says. False when nobody knows.
    fn reauthorise(&mut self) -> bool {
        let Some(interest) = &self.interest else { return true };
        let registered = match interest.look() {
            Known::Unknown => return false,
            Known::Gone => None,
            Known::Found(found) => Some(found),
        };
        // The same one: so is the answer.
        if registered.as_ref().map(Arc::as_ptr) != self.leased.registered.as_ref().map(Arc::as_ptr) {
            self.authority = authority_of(&self.context, registered.as_deref(), &self.leased.run.user_id);
            self.leased = Arc::new(Leased { registered, ..Leased::clone(&self.leased) });
        }
        true
    }

    /// One step of the path. Returns how long the row is to be held, if it is.
    async fn step(&mut self) -> Option<Duration> {
        crash::point("leased");
        if let Some(column) = self.leased.unreadable {
            let message = format!("A question's {column} is JSON that cannot be read here.");
            let verdict = david_reconciler::quarantine(&self.snapshot(), &message);
            self.commit(self.fence(), verdict).await;
            return None;
        }
        match plan(&self.snapshot()) {
            Step::Commit(transition @ Transition::BeginCall { .. }) => self.call(transition).await,
            Step::Commit(transition @ Transition::SendAnswers { .. }) => self.answer(transition).await,
            Step::Commit(transition) => {
                self.commit(self.fence(), transition).await;
            }
            Step::Poll => return self.poll().await,
            Step::Cancel => self.cancel().await,
        }
        None
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
                // A lost lease means that an idempotent call was made again: that one may bring the same id.
                let kept = matches!(committed, Committed::LeaseLost)
                    || (matches!(committed, Committed::Applied { .. })
                        && matches!(write.transition, Transition::Track { .. }));
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

    /// `tasks/get`. Returns how long the row is to be held, if it is.
    async fn poll(&mut self) -> Option<Duration> {
        let target = outgoing::target(&self.leased).zip(self.leased.task.phase.remote().cloned());
        let deadline = self.clock.deadline(self.context.poll_timeout);
        let (Some((target, remote)), Some(deadline)) = (target, deadline) else {
            self.release().await;
            return None;
        };
        let reply = tokio::select! {
            biased;
            () = self.context.stopping.cancelled() => {
                self.release().await;
                return None;
            }
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
                if let Some(wait) = self.hold(&transition) {
                    return Some(wait);
                }
                self.commit(self.fence(), transition).await;
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
        let registered = self.leased.registered.as_ref()?;
        if !works || !fits || self.room.is_none() || self.context.stopping.is_cancelled() {
            return None;
        }
        if self.interest.is_none() {
            let read = self.clock.sent();
            self.interest = Some(self.context.registrar.hold(registered, read));
        }
        story::tell(&self.leased, transition, &Committed::Applied { fence: self.leased.task.fence });
        // A task that works is not called again; what to call may be large.
        self.leased = Arc::new(Leased { request: None, ..self.leased.after(transition) });
        Some(*delay)
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
        if self.authority != Authority::Granted {
            return;
        }
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

    /// Gives it back untouched, to be leased again at once.
    pub(crate) async fn release(&self) {
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
