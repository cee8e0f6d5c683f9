//! `tools/call`: begun in the database before it is sent, and written however long that takes.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{CallReply, Observation, RemoteTaskId, Transition, decide, fit};
use david_schema::{CommitError, Committed, Guard};
use tokio::time::Instant;

use super::Drive;
use crate::crash;
use crate::orphan;
use crate::outgoing;
use crate::progress::News;
use crate::remote::{Listener, Report, Target};
use crate::story;
use crate::traces;

/// How long a call waits that finds as many in flight as its server may have. Other replicas' calls end
/// unseen; this one's own ring the bell.
const FULL_PAUSE: Duration = Duration::from_millis(500);

impl Drive {
    /// `queued` → `calling`, committed; then `tools/call`; then whatever came of it.
    pub(super) async fn call(&mut self, begin: Transition) {
        let Some(target) = self.target.clone() else { return self.give_back().await };
        let mut request = match outgoing::tool_request(&self.leased) {
            Ok(request) => request,
            Err(reason) => {
                let verdict = david_reconciler::quarantine(&self.snapshot(), reason);
                self.commit(self.fence(), verdict).await;
                return;
            }
        };
        if self.context.stopping.is_cancelled() {
            return self.give_back().await;
        }
        let Transition::BeginCall { lease } = &begin else { return self.give_back().await };
        let (sent, lease) = (Instant::now(), *lease);
        crash::point("before_begin_call");
        match self.commit(self.fence(), begin.clone()).await {
            Some(Committed::Applied { .. }) => {}
            Some(Committed::Full) => return self.wait_for_a_slot().await,
            _ => return,
        }
        self.clock = self.clock.extended(sent, lease);
        Arc::make_mut(&mut self.leased).advance(&begin);
        crash::point("call_begun");
        // It may have waited for that, and its registration may say something else by now.
        let refused = !self.reauthorise() || self.authority != david_reconciler::Authority::Granted;
        // An answer that has no time to come any more would be one that nobody knows.
        let late = sent.elapsed() > self.leased.call.request_timeout / 4;
        if refused || late {
            let detail = match refused {
                true => "The registration changed before the call was sent.",
                false => "The database took too much of the call's time.",
            };
            let reply = CallReply::NotExecuted {
                proof: david_reconciler::NotExecuted::NeverSent,
                detail: detail.to_owned(),
                retry_after: None,
            };
            let transition = decide(&self.snapshot(), Observation::Call(reply));
            return self.settle_call(&target, None, transition).await;
        }

        // From here on a call may be on the wire: no shutdown interrupts this, only its deadline,
        // which starts before the commit whose lease has to cover it.
        let deadline = sent + self.leased.call.request_timeout;
        let listener = Some(self.listener());
        let span = traces::call(&self.leased);
        request.trace = traces::context_of(&span, &self.leased);
        let began = Instant::now();
        let reply = self.context.remote.call_tool_and_listen(&target, request, deadline, listener).await;
        drop(span);
        self.timings.call().observe(began.elapsed().as_secs_f64());
        self.context.metrics.calls.count(&reply);
        crash::point("call_answered");
        let remote = match &reply {
            CallReply::Task { state, .. } => Some(state.id.clone()),
            _ => None,
        };
        let transition = decide(&self.snapshot(), Observation::Call(reply));
        self.settle_call(&target, remote, transition).await;
        crash::point("call_committed");
        if self.leased.registered.as_ref().is_some_and(|found| found.max_calls.is_some()) {
            self.context.full.one_ended(self.server());
            self.context.bell.notify_one();
        }
    }

    async fn wait_for_a_slot(&mut self) {
        self.context.full.mark(self.server());
        let delay = FULL_PAUSE.mul_f64(1.0 + fastrand::f64());
        self.commit(self.fence(), Transition::Wait { delay }).await;
    }

    /// Writes what came of a call, however long the database takes to come back: nobody else can.
    async fn settle_call(
        &mut self,
        target: &Arc<Target>,
        remote: Option<RemoteTaskId>,
        transition: Transition,
    ) {
        let guard = Guard::Call(self.leased.task.fence);
        let write = self.write(guard, transition);
        let give_up = self.context.call_commits_until();
        let span = traces::finalise(&self.leased, &write.transition);
        let committed = self.context.committer.commit(write.clone(), give_up).await;
        drop(span);
        match committed {
            Ok(committed) => {
                story::tell(&self.leased, &write.transition, &committed);
                // A Run may be cancelled while its call is on the wire: the id has no row then.
                // A lost lease means that an idempotent call was made again: that one may bring the same id.
                let kept = matches!(committed, Committed::LeaseLost)
                    || (matches!(committed, Committed::Applied { .. })
                        && matches!(write.transition, Transition::Track { .. }));
                if let (Some(id), false) = (remote, kept) {
                    orphan::cancel(&self.context, &self.leased, target, &id).await;
                }
            }
            Err(CommitError::RemoteTaskTaken) => {
                let message = "The server gave this task the id of another live task.";
                let verdict = david_reconciler::protocol_error(&self.snapshot(), message);
                self.commit_until(guard, verdict, give_up).await;
            }
            Err(error) => self.refused(guard, error, give_up).await,
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
