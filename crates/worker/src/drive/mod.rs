//! One row, from its lease to the commit that ends the lease: plan → observe → decide → commit.
//!
//! `call.rs` makes calls, `look.rs` everything else that is asked of a server, `write.rs` writes.

mod call;
mod look;
mod write;

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{
    Authority, Fence, Jitter, PhaseName, RegistrationId, Snapshot, Step, TaskId, Transition, plan,
};
use david_schema::{Guard, Leased};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::authority::authority_of;
use crate::clock::{COMMIT_MARGIN, LeaseClock};
use crate::context::Context;
use crate::crash;
use crate::metrics::ServerMetrics;
use crate::outgoing;
use crate::queue::Rank;
use crate::registrar::{Interest, Known};
use crate::remote::Target;

/// A leased row on its way.
pub(crate) struct Drive {
    context: Arc<Context>,
    leased: Arc<Leased>,
    /// Where its server is; none when the registration is gone.
    target: Option<Arc<Target>>,
    /// Where its requests are timed.
    timings: Arc<ServerMetrics>,
    clock: LeaseClock,
    authority: Authority,
    jitter: Jitter,
    /// Room for one more row in this replica; none for a row that may not be held.
    room: Option<OwnedSemaphorePermit>,
    /// Its registration as it is now, for as long as the row is here.
    interest: Option<Interest>,
    /// Whether polls from memory taught something that the database does not know yet.
    learned: bool,
}

/// Which of a replica's bounds a row in flight counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `tools/call`, which may take minutes.
    Call,
    /// Everything else, which takes seconds at most.
    Poll,
}

/// While nobody knows whether a registration may still be used, its rows wait.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(500);

impl Drive {
    /// Takes a row from a lease. Whether its server may be talked to is asked here, anew for every
    /// lease (DESIGN rule 11).
    pub(crate) fn new(context: Arc<Context>, leased: Leased, clock: LeaseClock) -> Self {
        let authority = authority_of(&context, leased.registered.as_deref(), &leased.run.user_id);
        let jitter = Jitter::thousandths(fastrand::i16(-100..=100));
        let target = outgoing::target(&leased).map(Arc::new);
        let timings = context.metrics.servers.of(&leased.task.registration_id);
        Self {
            context,
            timings,
            leased: Arc::new(leased),
            target,
            clock,
            authority,
            jitter,
            room: None,
            interest: None,
            learned: false,
        }
    }

    /// The same, which may wait for its turn and be held between its polls; its registration is read
    /// anew meanwhile.
    pub(crate) fn with_room(mut self, room: OwnedSemaphorePermit) -> Self {
        self.room = Some(room);
        self.watched()
    }

    /// The same, which may wait for its turn but is not held: its registration is read anew meanwhile.
    pub(crate) fn watched(mut self) -> Self {
        let read = self.clock.sent();
        self.interest = self.leased.registered.as_ref().map(|found| self.context.registrar.hold(found, read));
        self
    }

    /// Which row it is.
    pub(crate) fn row(&self) -> (TaskId, Fence) {
        (self.leased.task.id, self.leased.task.fence)
    }

    /// Whose turn it takes.
    pub(crate) fn server(&self) -> &RegistrationId {
        &self.leased.task.registration_id
    }

    /// Which bound it counts against.
    pub(crate) fn kind(&self) -> Kind {
        match self.leased.task.phase.name() {
            PhaseName::Queued => Kind::Call,
            PhaseName::Calling
            | PhaseName::Working
            | PhaseName::InputRequired
            | PhaseName::Cancelling
            | PhaseName::Finalised => Kind::Poll,
        }
    }

    /// Whether it overtakes: somebody has cancelled or answered, and waits.
    pub(crate) fn rank(&self) -> Rank {
        match self.leased.task.phase.name() {
            PhaseName::Cancelling | PhaseName::InputRequired => Rank::Urgent,
            PhaseName::Queued | PhaseName::Calling | PhaseName::Working | PhaseName::Finalised => {
                Rank::Ordinary
            }
        }
    }

    /// How long its next request may take, if that is a call.
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        (self.kind() == Kind::Call).then_some(self.leased.call.request_timeout)
    }

    /// Whether it has waited so long that its lease is nearly over: it has to be given back while that
    /// can still be written.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        now + COMMIT_MARGIN >= self.clock.lapses_at()
    }

    /// Drives it: one look, one decision. A row that works goes on being held until its lease is nearly
    /// over, and is looked at again when this says; every other lease is over, or has been given up to
    /// lapse, when this returns.
    pub(crate) async fn run(&mut self) -> Option<Instant> {
        let wait = if self.reauthorise() { self.step().await? } else { UNKNOWN_PAUSE };
        if self.room.is_none() || self.clock.deadline_after(wait, self.context.poll_timeout).is_none() {
            Box::pin(self.give_back()).await;
            return None;
        }
        Some(Instant::now() + wait)
    }

    /// Asks again, for a row that has waited, what its registration says. False when nobody knows.
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
            Arc::make_mut(&mut self.leased).registered = registered;
            self.target = outgoing::target(&self.leased).map(Arc::new);
        }
        true
    }

    /// One step of the path. Returns how long the row is to be held, if it is.
    ///
    /// A poll is what is done a million times, so only that is part of this future; the rest is boxed.
    async fn step(&mut self) -> Option<Duration> {
        crash::point("leased");
        if let Some(column) = self.leased.unreadable {
            let message = format!("A question's {column} is JSON that cannot be read here.");
            let verdict = david_reconciler::quarantine(&self.snapshot(), &message);
            Box::pin(self.commit(self.fence(), verdict)).await;
            return None;
        }
        let step = plan(&self.snapshot());
        if needs_server(&step) && !self.context.health.admits(self.server()) {
            // Whoever leases it when the server is open again goes on.
            Box::pin(self.give_back()).await;
            return None;
        }
        match step {
            Step::Commit(transition @ Transition::BeginCall { .. }) => Box::pin(self.call(transition)).await,
            Step::Commit(transition @ Transition::SendAnswers { .. }) => {
                Box::pin(self.answer(transition)).await;
            }
            Step::Commit(transition) => {
                Box::pin(self.commit(self.fence(), transition)).await;
            }
            Step::Poll => return self.poll().await,
            Step::Cancel => Box::pin(self.cancel()).await,
        }
        None
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
}

fn needs_server(step: &Step) -> bool {
    matches!(
        step,
        Step::Poll
            | Step::Cancel
            | Step::Commit(Transition::BeginCall { .. } | Transition::SendAnswers { .. })
    )
}
