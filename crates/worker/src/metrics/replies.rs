//! What servers answered, by kind.

use david_reconciler::{CallReply, PollReply, Refusal};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// `tasks/get` by what came of it.
pub(crate) struct Polls {
    working: Counter,
    input_required: Counter,
    completed: Counter,
    failed: Counter,
    cancelled: Counter,
    too_large: Counter,
    gone: Counter,
    unauthorised: Counter,
    endpoint_forbidden: Counter,
    transient: Counter,
    malformed: Counter,
}

impl Polls {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let family =
            super::counters(registry, "polls", "tasks/get requests, by what came of them", "outcome", &[]);
        let of = |word| family.get_or_create_owned(&[("outcome", word)]);
        Self {
            working: of("working"),
            input_required: of("input_required"),
            completed: of("completed"),
            failed: of("failed"),
            cancelled: of("cancelled"),
            too_large: of("too_large"),
            gone: of("gone"),
            unauthorised: of("unauthorised"),
            endpoint_forbidden: of("endpoint_forbidden"),
            transient: of("transient"),
            malformed: of("malformed"),
        }
    }

    pub(crate) fn count(&self, reply: &PollReply) {
        let counter = match reply {
            PollReply::Working(_) => &self.working,
            PollReply::InputRequired { .. } => &self.input_required,
            PollReply::Completed { .. } => &self.completed,
            PollReply::Failed { .. } => &self.failed,
            PollReply::Cancelled(_) => &self.cancelled,
            PollReply::TooLarge { .. } => &self.too_large,
            PollReply::Refused(Refusal::Gone { .. }) => &self.gone,
            PollReply::Refused(Refusal::Unauthorised { .. }) => &self.unauthorised,
            PollReply::Refused(Refusal::EndpointForbidden { .. }) => &self.endpoint_forbidden,
            PollReply::Refused(Refusal::Transient(_)) => &self.transient,
            PollReply::Refused(Refusal::Malformed { .. }) => &self.malformed,
        };
        counter.inc();
    }
}

/// `tools/call` by what came of it.
pub(crate) struct Calls {
    result: Counter,
    task: Counter,
    input_required: Counter,
    rejected: Counter,
    not_executed: Counter,
    unknown: Counter,
    malformed: Counter,
    too_large: Counter,
}

impl Calls {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let family =
            super::counters(registry, "calls", "tools/call requests, by what came of them", "outcome", &[]);
        let of = |word| family.get_or_create_owned(&[("outcome", word)]);
        Self {
            result: of("result"),
            task: of("task"),
            input_required: of("input_required"),
            rejected: of("rejected"),
            not_executed: of("not_executed"),
            unknown: of("unknown"),
            malformed: of("malformed"),
            too_large: of("too_large"),
        }
    }

    pub(crate) fn count(&self, reply: &CallReply) {
        let counter = match reply {
            CallReply::Result(_) => &self.result,
            CallReply::Task { .. } => &self.task,
            CallReply::InputRequired { .. } => &self.input_required,
            CallReply::Rejected(_) => &self.rejected,
            CallReply::NotExecuted { .. } => &self.not_executed,
            CallReply::Unknown { .. } => &self.unknown,
            CallReply::Malformed { .. } => &self.malformed,
            CallReply::TooLarge { .. } => &self.too_large,
        };
        counter.inc();
    }
}
