//! What a refused request means for a task that goes on: another try, or the end of patience.

use std::time::Duration;

use crate::backoff::retry_delay;
use crate::finish::without_result;
use crate::sentence::sentence;
use crate::{CancelDebt, ErrorSource, Outcome, Refusal, RemoteTask, RetryAfter, Snapshot, Transition};

/// How far before its expiry a task may be forgotten and still count as expired.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Failures in a row after which a task past its TTL is given up though the server may come back.
const ATTEMPTS_PAST_TTL: u32 = 3;

/// Decides about a row in `working`, or in `input_required` with a remote task.
pub(super) fn decide(snapshot: &Snapshot<'_>, known: &RemoteTask, refusal: Refusal) -> Transition {
    let policy = snapshot.policy;
    let attempt = snapshot.task.attempt.saturating_add(1);
    let past_ttl = known.expires_at.is_some_and(|at| snapshot.now >= at);
    let end = |outcome, debt, source, message: &str| without_result(snapshot, outcome, debt, source, message);
    match refusal {
        // Unknown, expired or not ours: the TTL tells which it was (DESIGN rule 12). Our clock and the
        // server's may differ by what a lease takes to arrive.
        Refusal::Gone { message } => {
            let expired = known.expires_at.is_some_and(|at| snapshot.now.saturating_add(CLOCK_SLACK) >= at);
            let (outcome, what) = if expired {
                (Outcome::TaskExpired, "The remote task expired")
            } else {
                (
                    Outcome::TaskMissing,
                    "The server does not know the task any more, before its time to live was over",
                )
            };
            end(outcome, CancelDebt::None, ErrorSource::Remote, &format!("{what}: {message}"))
        }
        Refusal::Unauthorised { detail } if attempt >= policy.unauthorised_attempts => {
            end(Outcome::Unauthorised, CancelDebt::None, ErrorSource::Remote, &detail)
        }
        // Not even a cancel may be sent there.
        Refusal::EndpointForbidden { detail } => {
            end(Outcome::EndpointForbidden, CancelDebt::None, ErrorSource::Local, &detail)
        }
        Refusal::Transient(trouble) if attempt >= policy.give_up_attempts => {
            end(Outcome::RemoteUnreachable, CancelDebt::None, ErrorSource::Local, &trouble.detail)
        }
        Refusal::Transient(trouble) if past_ttl && attempt >= ATTEMPTS_PAST_TTL => end(
            Outcome::RemoteUnreachable,
            CancelDebt::None,
            ErrorSource::Local,
            &format!("The task's time to live is over and the server does not answer: {}", trouble.detail),
        ),
        // The id is ours and in the row, so what may still run there is worth a cancel.
        Refusal::Malformed { detail } if attempt >= policy.malformed_attempts => end(
            Outcome::ProtocolError,
            CancelDebt::Owed,
            ErrorSource::Remote,
            &format!("The server's replies about the task cannot be read: {detail}"),
        ),
        Refusal::Unauthorised { detail } | Refusal::Malformed { detail } => {
            retry(snapshot, attempt, &detail, None)
        }
        Refusal::Transient(trouble) => retry(snapshot, attempt, &trouble.detail, trouble.retry_after),
    }
}

/// Another try, of any request about a task.
pub(super) fn retry(
    snapshot: &Snapshot<'_>,
    attempt: u32,
    reason: &str,
    retry_after: RetryAfter,
) -> Transition {
    Transition::Retry {
        delay: retry_delay(snapshot, attempt, retry_after),
        attempt,
        reason: sentence(snapshot, reason),
    }
}
