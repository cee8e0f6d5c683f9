//! The second half: what an observation means for the row.
//!
//! Each phase takes the observations of the requests that are made in it. Every other pair is
//! named here, one by one: should a change of the worker ever make one possible, it shows up as
//! `impossible` in the log and loses nothing, and a new phase or observation does not compile
//! until somebody has thought about it.

mod ack;
mod call;
mod poll;
mod refusal;

use crate::{InputSubject, Observation, Phase, Snapshot, Transition};

/// Decides. Total: whatever was observed, something sensible is committed.
pub fn decide(snapshot: &Snapshot<'_>, observation: Observation) -> Transition {
    let impossible = |pair| Transition::Impossible { pair };
    match (&snapshot.task.phase, observation) {
        (Phase::Calling { .. }, Observation::Call(reply)) => call::decide(snapshot, reply),

        (Phase::Working { remote }, Observation::Poll(reply)) => poll::decide(snapshot, remote, reply),
        (Phase::InputRequired { subject: InputSubject::Task(remote), .. }, Observation::Poll(reply)) => {
            poll::decide(snapshot, remote, reply)
        }

        (Phase::InputRequired { subject: InputSubject::Task(remote), .. }, Observation::Update(ack)) => {
            ack::of_update(snapshot, remote, ack)
        }

        (Phase::Cancelling { .. }, Observation::Cancel(ack)) => ack::of_cancel(snapshot, ack),

        (Phase::Queued, Observation::Call(_)) => impossible("a call's reply without a begun call"),
        (Phase::Queued, Observation::Poll(_)) => impossible("a poll before the call"),
        (Phase::Queued, Observation::Update(_)) => impossible("an update before the call"),
        (Phase::Queued, Observation::Cancel(_)) => impossible("a remote cancel before the call"),
        (Phase::Calling { .. }, Observation::Poll(_)) => impossible("a poll during the call"),
        (Phase::Calling { .. }, Observation::Update(_)) => impossible("an update during the call"),
        (Phase::Calling { .. }, Observation::Cancel(_)) => impossible("a remote cancel during the call"),
        (Phase::Working { .. }, Observation::Call(_)) => impossible("a second call"),
        (Phase::Working { .. }, Observation::Update(_)) => {
            impossible("an update of a task that does not ask")
        }
        (Phase::Working { .. }, Observation::Cancel(_)) => impossible("a remote cancel before the local one"),
        (Phase::InputRequired { .. }, Observation::Call(_)) => {
            impossible("a reply to a call that waits for input")
        }
        (Phase::InputRequired { .. }, Observation::Cancel(_)) => {
            impossible("a remote cancel before the local one")
        }
        (Phase::InputRequired { subject: InputSubject::Call { .. }, .. }, Observation::Poll(_)) => {
            impossible("a poll of a call that has no task")
        }
        (Phase::InputRequired { subject: InputSubject::Call { .. }, .. }, Observation::Update(_)) => {
            impossible("an update of a call that has no task")
        }
        (Phase::Cancelling { .. }, Observation::Call(_)) => impossible("a call after the local end"),
        (Phase::Cancelling { .. }, Observation::Poll(_)) => impossible("a poll after the local end"),
        (Phase::Cancelling { .. }, Observation::Update(_)) => impossible("an update after the local end"),
        (Phase::Finalised { .. }, Observation::Call(_)) => impossible("a call of a finalised row"),
        (Phase::Finalised { .. }, Observation::Poll(_)) => impossible("a poll of a finalised row"),
        (Phase::Finalised { .. }, Observation::Update(_)) => impossible("an update of a finalised row"),
        (Phase::Finalised { .. }, Observation::Cancel(_)) => impossible("a remote cancel of a finalised row"),
    }
}
