//! What came of `tools/call`. Repeating it repeats work, so only proof that it was not executed
//! (or Core's word that repeating is harmless) brings the row back to `queued` (DESIGN §6).

use std::time::Duration;

use serde_json::Value;

use crate::backoff::{before_deadline, poll_delay, retry_delay};
use crate::finish::{with_result, without_result};
use crate::input::excess;
use crate::remote_facts::learn;
use crate::sentence::sentence;
use crate::{
    CallReply, CancelDebt, ErrorSource, InputKey, InputPolicy, InputSubject, NotExecuted, Outcome,
    RemoteState, RemoteStatus, Repeat, RequestState, RetryAfter, RunState, Snapshot, Transition,
};

/// Decides about a row in `calling`.
pub(super) fn decide(snapshot: &Snapshot<'_>, reply: CallReply) -> Transition {
    // Whatever the server did: a cancelled Run yields no result. An id that came is cancelled by
    // the worker, which holds it.
    if snapshot.run.state == RunState::Cancelled {
        return Transition::RepairCancel;
    }
    let remote = |outcome, message: &str| {
        without_result(snapshot, outcome, CancelDebt::None, ErrorSource::Remote, message)
    };
    match reply {
        CallReply::Result(result) => with_result(snapshot, &result),
        CallReply::Task { state, status } => track(snapshot, &state, status),
        CallReply::InputRequired { requests, request_state } => asks(snapshot, requests, request_state),
        CallReply::Rejected(error) => remote(
            Outcome::CallRejected,
            &format!("The server rejected the call: {} (code {}).", error.message, error.code),
        ),
        CallReply::NotExecuted { proof, detail, retry_after } => {
            not_executed(snapshot, proof, &detail, retry_after)
        }
        CallReply::Unknown { detail } => match snapshot.call.repeat {
            Repeat::Idempotent => or_else_again(
                snapshot,
                snapshot.policy.give_up_attempts,
                Outcome::RemoteUnreachable,
                ErrorSource::Local,
                &detail,
                None,
            ),
            Repeat::Never => without_result(
                snapshot,
                Outcome::OutcomeUnknown,
                CancelDebt::None,
                ErrorSource::Local,
                &format!("The call's reply was lost, and nobody can know whether the tool ran: {detail}"),
            ),
        },
        // It was answered, so it was executed or refused; a repeat would not read better.
        CallReply::Malformed { detail } => remote(
            Outcome::ProtocolError,
            &format!("The server's reply to the call cannot be read: {detail}"),
        ),
        CallReply::TooLarge { detail } => {
            remote(Outcome::ResultTooLarge, &format!("The tool's result is too large: {detail}"))
        }
    }
}

/// The server asks before it calls the tool (PROTOCOL 16). Nothing runs there, so nothing is owed.
fn asks(
    snapshot: &Snapshot<'_>,
    requests: Vec<(InputKey, Value)>,
    request_state: Option<RequestState>,
) -> Transition {
    let end = |message: &str| {
        without_result(snapshot, Outcome::InputUnsupported, CancelDebt::None, ErrorSource::Local, message)
    };
    let policy = snapshot.policy;
    let round = snapshot.task.input_round.saturating_add(1);
    match snapshot.input_policy() {
        InputPolicy::Fail => end("The server asks for input, which is not surfaced here."),
        InputPolicy::Surface if round > policy.input_rounds => {
            end("The server asked for input too many times.")
        }
        InputPolicy::Surface if let Some(reason) = excess(0, &requests) => {
            without_result(snapshot, Outcome::ProtocolError, CancelDebt::None, ErrorSource::Remote, &reason)
        }
        InputPolicy::Surface => {
            // Nobody answers no question: the server only wants its state back.
            let wanted = if requests.is_empty() { policy.retry_base } else { policy.input_timeout };
            Transition::AwaitInput {
                subject: InputSubject::Call { request_state },
                round,
                requests,
                delay: before_deadline(snapshot, wanted),
            }
        }
    }
}

fn track(snapshot: &Snapshot<'_>, state: &RemoteState, status: RemoteStatus) -> Transition {
    let remote = learn(None, state, status, snapshot.now);
    let delay = match status {
        RemoteStatus::Working => poll_delay(snapshot, 0, remote.poll_interval, remote.expires_at),
        // There is news already; it is only to be had by asking.
        RemoteStatus::InputRequired
        | RemoteStatus::Completed
        | RemoteStatus::Failed
        | RemoteStatus::Cancelled => Duration::ZERO,
    };
    Transition::Track { remote, delay }
}

fn not_executed(
    snapshot: &Snapshot<'_>,
    proof: NotExecuted,
    detail: &str,
    retry_after: RetryAfter,
) -> Transition {
    let policy = snapshot.policy;
    let (limit, outcome, source) = match proof {
        NotExecuted::NeverSent => (policy.give_up_attempts, Outcome::RemoteUnreachable, ErrorSource::Local),
        NotExecuted::RateLimited => {
            (policy.give_up_attempts, Outcome::RemoteUnreachable, ErrorSource::Remote)
        }
        NotExecuted::Unauthorised => {
            (policy.unauthorised_attempts, Outcome::Unauthorised, ErrorSource::Remote)
        }
        NotExecuted::Unsupported => (policy.malformed_attempts, Outcome::ProtocolError, ErrorSource::Remote),
        // A name that once led to a forbidden place is not trusted to lead elsewhere later.
        NotExecuted::EndpointForbidden => (1, Outcome::EndpointForbidden, ErrorSource::Local),
    };
    or_else_again(snapshot, limit, outcome, source, detail, retry_after)
}

/// Back to `queued`, until `limit` failures in a row make it `outcome`.
fn or_else_again(
    snapshot: &Snapshot<'_>,
    limit: u32,
    outcome: Outcome,
    source: ErrorSource,
    reason: &str,
    retry_after: RetryAfter,
) -> Transition {
    let attempt = snapshot.task.attempt.saturating_add(1);
    if attempt >= limit {
        return without_result(snapshot, outcome, CancelDebt::None, source, reason);
    }
    Transition::Requeue {
        delay: retry_delay(snapshot, attempt, retry_after),
        attempt,
        reason: sentence(snapshot, reason),
    }
}
