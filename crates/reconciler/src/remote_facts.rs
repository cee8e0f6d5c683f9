//! What a row keeps of what a server says about its task.

use std::time::Duration;

use crate::{RemoteState, RemoteStatus, RemoteTask, Timestamp};

/// A time to live beyond this is unlimited in all but name. The instant it leads to may have been cut
/// to what can be stored, so a shorter one cannot be counted from it.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The task after news of it. `known` is none for a task that was just created.
pub(crate) fn learn(
    known: Option<&RemoteTask>,
    state: &RemoteState,
    status: RemoteStatus,
    now: Timestamp,
) -> RemoteTask {
    RemoteTask {
        id: state.id.clone(),
        status: Some(status),
        expires_at: expiry(known, state.ttl, now.saturating_sub(state.took)),
        ttl: state.ttl,
        poll_interval: state.poll_interval,
    }
}

/// `ttlMs` counts from the task's creation, whose server-side instant is not to be trusted. It was made
/// after we asked for it, so counted from there the expiry is never too late: a server that forgets the
/// task then is not taken for one that lost it. A later change shifts it by the difference (PROTOCOL 5).
fn expiry(known: Option<&RemoteTask>, ttl: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
    let ttl = ttl?;
    let Some((at, before)) = known.and_then(|known| Some((known.expires_at?, known.ttl))) else {
        return Some(now.saturating_add(ttl));
    };
    Some(match before {
        Some(before) if before == ttl => at,
        Some(before) if before > CENTURY => now.saturating_add(ttl),
        Some(before) => at.saturating_sub(before).saturating_add(ttl),
        // Adopted: Core named the expiry, and knows better when the task was created.
        None => at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RemoteTaskId;

    fn known(expires_at: Option<i64>, ttl: Option<u64>) -> RemoteTask {
        RemoteTask {
            id: RemoteTaskId::parse("t").unwrap(),
            status: None,
            expires_at: expires_at.map(Timestamp),
            ttl: ttl.map(Duration::from_micros),
            poll_interval: None,
        }
    }

    fn after(known: Option<RemoteTask>, ttl: Option<u64>) -> Option<i64> {
        expiry(known.as_ref(), ttl.map(Duration::from_micros), Timestamp(1000)).map(|at| at.0)
    }

    #[test]
    fn the_ttl_counts_from_when_it_was_first_heard() {
        assert_eq!(after(None, Some(50)), Some(1050));
        assert_eq!(after(Some(known(None, None)), Some(50)), Some(1050));
    }

    #[test]
    fn the_ttl_of_a_new_task_counts_from_when_it_was_asked_for() {
        let state = RemoteState {
            id: RemoteTaskId::parse("t").unwrap(),
            ttl: Some(Duration::from_micros(50)),
            poll_interval: None,
            message: None,
            took: Duration::from_micros(300),
        };
        let learned = learn(None, &state, RemoteStatus::Working, Timestamp(1000));
        assert_eq!(learned.expires_at, Some(Timestamp(750)));
    }

    #[test]
    fn the_same_ttl_again_does_not_move_the_expiry() {
        assert_eq!(after(Some(known(Some(700), Some(50))), Some(50)), Some(700));
    }

    #[test]
    fn a_changed_ttl_shifts_the_expiry_by_the_difference() {
        assert_eq!(after(Some(known(Some(700), Some(50))), Some(80)), Some(730));
        assert_eq!(after(Some(known(Some(700), Some(50))), Some(20)), Some(670));
    }

    #[test]
    fn unlimited_means_no_expiry() {
        assert_eq!(after(Some(known(Some(700), Some(50))), None), None);
    }

    #[test]
    fn the_expiry_of_an_adopted_task_is_kept() {
        assert_eq!(after(Some(known(Some(700), None)), Some(80)), Some(700));
    }

    #[test]
    fn an_endless_ttl_that_becomes_a_short_one_is_counted_from_now() {
        let endless = expiry(None, Some(Duration::MAX), Timestamp(900));
        let known = RemoteTask { ttl: Some(Duration::MAX), expires_at: endless, ..known(None, None) };
        assert_eq!(after(Some(known), Some(50)), Some(1050));
    }

    #[test]
    fn any_ttl_saturates() {
        let longest = Some(Duration::from_millis(u64::MAX));
        assert_eq!(expiry(None, longest, Timestamp(1000)), Some(Timestamp(i64::MAX)));
    }
}
