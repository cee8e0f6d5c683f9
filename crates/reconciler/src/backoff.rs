//! Delays: the polling ladder, retries, and the jitter on both. All arithmetic saturates: a server
//! may name any `u64` of milliseconds.

use std::time::Duration;

use crate::{Phase, RetryAfter, Snapshot, Timestamp};

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
    let wanted = ladder.max(floor.unwrap_or_default().min(policy.poll_interval_ceiling));
    before_expiry(snapshot, snapshot.jitter.spread(wanted), expires_at)
}

/// Until a task that waits for input is looked at again.
pub(crate) fn input_delay(
    snapshot: &Snapshot<'_>,
    floor: Option<Duration>,
    expires_at: Option<Timestamp>,
) -> Duration {
    let policy = snapshot.policy;
    let wanted = policy.input_poll.max(floor.unwrap_or_default().min(policy.poll_interval_ceiling));
    before_expiry(snapshot, snapshot.jitter.spread(wanted), expires_at)
}

/// Until the next try after `attempt` failures in a row, the present one counted.
pub(crate) fn retry_delay(snapshot: &Snapshot<'_>, attempt: u32, retry_after: RetryAfter) -> Duration {
    let policy = snapshot.policy;
    let doublings = attempt.saturating_sub(1).min(31);
    let own = policy.retry_base.saturating_mul(1 << doublings).min(policy.retry_cap);
    let spread = snapshot.jitter.spread(own);
    // What the server asks for is a floor, so jitter may not undercut it.
    let asked = retry_after.unwrap_or_default().min(policy.retry_after_ceiling);
    before_deadline(snapshot, spread.max(asked))
}

/// One poll is made shortly before the TTL passes (DESIGN rule 12).
fn before_expiry(snapshot: &Snapshot<'_>, delay: Duration, expires_at: Option<Timestamp>) -> Duration {
    let last_look = expires_at.map(|at| at.saturating_sub(snapshot.policy.expiry_margin));
    let delay = match last_look {
        Some(at) if at > snapshot.now => delay.min(at.since(snapshot.now)),
        Some(_) | None => delay,
    };
    before_deadline(snapshot, delay)
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
