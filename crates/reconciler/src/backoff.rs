//! Delays: the polling ladder, retries, and the jitter on both. All arithmetic saturates: a server
//! may name any `u64` of milliseconds.

use std::time::Duration;

use crate::{InputSubject, Phase, RetryAfter, Snapshot, Timestamp};

/// A factor of 0.9 to 1.1, drawn by the caller: −100 … 100 thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(i16);

impl Jitter {
    /// No spread at all.
    pub const NONE: Self = Self(0);

    /// `thousandths` is clamped to −100 … 100.
    pub fn thousandths(thousandths: i16) -> Self {
        Self(thousandths.clamp(-100, 100))
    }

    fn spread(self, delay: Duration) -> Duration {
        let factor = u32::from((1000 + self.0).unsigned_abs());
        delay.saturating_mul(factor) / 1000
    }
}

/// The shortest delay that is not deliberately zero.
pub(crate) const SHORTEST: Duration = Duration::from_millis(50);

/// Until the next poll of a task that goes on. `polls` have been made, `floor` is the interval the
/// server asks for, `expires_at` is when its TTL passes.
pub(crate) fn poll_delay(
    snapshot: &Snapshot<'_>,
    polls: u32,
    floor: Option<Duration>,
    expires_at: Option<Timestamp>,
) -> Duration {
    let policy = snapshot.policy;
    let step = match polls {
        0 => 1,
        1 => 2,
        2 => 3,
        _ => 5,
    };
    let ladder = policy.poll_base.saturating_mul(step).min(policy.poll_cap);
    before_expiry(snapshot, at_least(snapshot, ladder, floor), expires_at)
}

/// Until a task that waits for input is looked at again.
pub(crate) fn input_delay(
    snapshot: &Snapshot<'_>,
    floor: Option<Duration>,
    expires_at: Option<Timestamp>,
) -> Duration {
    before_expiry(snapshot, at_least(snapshot, snapshot.policy.input_poll, floor), expires_at)
}

/// The longer of `own` and what the server asks for, spread. The latter is a floor, so jitter may
/// lengthen but not undercut it.
fn at_least(snapshot: &Snapshot<'_>, own: Duration, floor: Option<Duration>) -> Duration {
    let asked = floor.unwrap_or_default().min(snapshot.policy.poll_interval_ceiling);
    snapshot.jitter.spread(own.max(asked)).max(asked)
}

/// Until the next try after `attempt` failures in a row, the present one counted.
pub(crate) fn retry_delay(snapshot: &Snapshot<'_>, attempt: u32, retry_after: RetryAfter) -> Duration {
    let policy = snapshot.policy;
    let doublings = attempt.saturating_sub(1).min(31);
    let own = policy.retry_base.saturating_mul(1 << doublings).min(policy.retry_cap);
    let spread = snapshot.jitter.spread(own);
    let own = match &snapshot.task.phase {
        Phase::Working { remote } | Phase::InputRequired { subject: InputSubject::Task(remote), .. } => {
            last_look(snapshot, spread, remote.expires_at)
        }
        Phase::Queued
        | Phase::Calling { .. }
        | Phase::InputRequired { subject: InputSubject::Call { .. }, .. }
        | Phase::Cancelling { .. }
        | Phase::Finalised { .. } => spread,
    };
    // What the server asks for is a floor, so neither jitter nor the TTL may undercut it.
    let asked = retry_after.unwrap_or_default().min(policy.retry_after_ceiling);
    before_deadline(snapshot, own.max(asked))
}

fn before_expiry(snapshot: &Snapshot<'_>, delay: Duration, expires_at: Option<Timestamp>) -> Duration {
    before_deadline(snapshot, last_look(snapshot, delay, expires_at))
}

/// One poll is made shortly before the TTL passes, however long the delay would be (DESIGN rule 12).
/// Not at once: a server that moves its TTL with every reply would be polled without a pause.
fn last_look(snapshot: &Snapshot<'_>, delay: Duration, expires_at: Option<Timestamp>) -> Duration {
    match expires_at.map(|at| at.saturating_sub(snapshot.policy.expiry_margin)) {
        Some(at) if at > snapshot.now => delay.min(at.since(snapshot.now).max(snapshot.policy.poll_base)),
        Some(_) | None => delay,
    }
}

/// The deadline is acted upon when it passes, not a retry later. It means nothing any more to a row
/// whose Action has ended.
pub(crate) fn before_deadline(snapshot: &Snapshot<'_>, delay: Duration) -> Duration {
    match snapshot.task.phase {
        Phase::Cancelling { .. } | Phase::Finalised { .. } => delay.max(SHORTEST),
        Phase::Queued | Phase::Calling { .. } | Phase::Working { .. } | Phase::InputRequired { .. } => {
            delay.min(snapshot.task.execution_deadline.since(snapshot.now)).max(SHORTEST)
        }
    }
}
