//! The first half: what to do with a row that was just leased.

use crate::backoff::before_deadline;
use crate::finish::{quarantine, without_result};
use crate::{
    Answer, Authority, CancelDebt, ErrorSource, InputPolicy, InputState, InputSubject, Outcome, Phase,
    Repeat, RunState, Snapshot, Timestamp, Transition,
};

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing needs to be seen: commit this. After [`Transition::BeginCall`] the worker calls,
    /// after [`Transition::SendAnswers`] it sends them.
    Commit(Transition),
    /// `tasks/get`.
    Poll,
    /// `tasks/cancel`.
    Cancel,
}

/// Decides what to observe, or what is already clear. The order of the questions is the order of
/// their authority: the Run first, then whether we may talk, then time, then the work.
pub fn plan(snapshot: &Snapshot<'_>) -> Step {
    match &snapshot.task.phase {
        Phase::Finalised { .. } => {
            Step::Commit(Transition::Impossible { pair: "a lease of a finalised row" })
        }
        Phase::Cancelling { .. } => plan_cancel(snapshot),
        Phase::Calling { .. } => Step::Commit(lost_call(snapshot)),
        Phase::Queued => {
            unfinished(snapshot).map_or_else(|| Step::Commit(begin_call(snapshot)), Step::Commit)
        }
        Phase::Working { .. } => unfinished(snapshot).map_or(Step::Poll, Step::Commit),
        Phase::InputRequired { subject, since } => unfinished(snapshot)
            .or_else(|| input_limits(snapshot, *since))
            .map_or_else(|| plan_input(snapshot, subject, *since), Step::Commit),
    }
}

/// Ends, or the cancel, that come before any work on an unfinished row.
fn unfinished(snapshot: &Snapshot<'_>) -> Option<Transition> {
    if snapshot.run.state == RunState::Cancelled {
        return Some(Transition::RepairCancel);
    }
    if snapshot.task.lapses >= snapshot.policy.quarantine_lapses {
        let message = format!("The row ended {} leases in a row without a commit.", snapshot.task.lapses);
        return Some(quarantine(snapshot, &message));
    }
    refused(snapshot).or_else(|| deadline(snapshot))
}

fn refused(snapshot: &Snapshot<'_>) -> Option<Transition> {
    let message = match snapshot.authority {
        Authority::Granted => return None,
        Authority::Missing => "The MCP server registration was deleted.",
        Authority::Disabled => "The MCP server registration is disabled.",
        Authority::NotOwner => "The MCP server registration belongs to another user.",
        Authority::EndpointForbidden { reason } | Authority::NoCredential { reason } => reason,
    };
    // No remote traffic, so no cancel either (DESIGN rule 11).
    let outcome = snapshot.authority.refusal()?;
    Some(without_result(snapshot, outcome, CancelDebt::None, ErrorSource::Local, message))
}

fn deadline(snapshot: &Snapshot<'_>) -> Option<Transition> {
    (snapshot.now >= snapshot.task.execution_deadline).then(|| {
        let message = "The Action's execution deadline passed.";
        without_result(snapshot, Outcome::DeadlineExceeded, CancelDebt::Owed, ErrorSource::Local, message)
    })
}

fn begin_call(snapshot: &Snapshot<'_>) -> Transition {
    Transition::BeginCall { lease: snapshot.call.request_timeout.saturating_add(snapshot.policy.call_grace) }
}

/// A row in `calling` is due only when its replica has been silent for the call's timeout and the
/// grace. Nobody can know whether the server started work (DESIGN rule 1).
fn lost_call(snapshot: &Snapshot<'_>) -> Transition {
    if snapshot.run.state == RunState::Cancelled {
        return Transition::RepairCancel;
    }
    match snapshot.call.repeat {
        // A call that kills whoever makes it must not go on to the next replica for ever. Its row
        // counts no lapse, since `calling` was committed, but every loss is an attempt (rule 16).
        Repeat::Idempotent if snapshot.task.attempt >= snapshot.policy.quarantine_lapses => {
            quarantine(snapshot, "The replicas that made the call were lost too many times in a row.")
        }
        Repeat::Idempotent => Transition::Requeue {
            delay: std::time::Duration::ZERO,
            attempt: snapshot.task.attempt.saturating_add(1),
            reason: "The replica that made the call was lost; the call is marked idempotent.".to_owned(),
        },
        Repeat::Never => without_result(
            snapshot,
            Outcome::OutcomeUnknown,
            CancelDebt::None,
            ErrorSource::Local,
            "The replica that made the call was lost, and nobody can know whether the tool ran.",
        ),
    }
}

fn plan_cancel(snapshot: &Snapshot<'_>) -> Step {
    let settle = |reason: &str| Step::Commit(Transition::SettleCancel { reason: reason.to_owned() });
    if snapshot.task.lapses >= snapshot.policy.quarantine_lapses {
        return settle("The remote cancel was given up: the row ended too many leases without a commit.");
    }
    match snapshot.authority {
        Authority::Granted if snapshot.task.attempt >= snapshot.policy.cancel_attempts => {
            settle("The remote cancel was given up after too many attempts.")
        }
        Authority::Granted => Step::Cancel,
        Authority::Missing
        | Authority::Disabled
        | Authority::NotOwner
        | Authority::EndpointForbidden { .. }
        | Authority::NoCredential { .. } => {
            settle("The server may not be talked to, so nothing was cancelled there.")
        }
    }
}

/// Limits on how long and how often a server may ask.
fn input_limits(snapshot: &Snapshot<'_>, since: Timestamp) -> Option<Transition> {
    let policy = snapshot.policy;
    let end = |outcome, message: &str| {
        Some(without_result(snapshot, outcome, CancelDebt::Owed, ErrorSource::Local, message))
    };
    match snapshot.input_policy() {
        InputPolicy::Fail => {
            end(Outcome::InputUnsupported, "The server asks for input, which is not surfaced here.")
        }
        InputPolicy::Surface if snapshot.task.input_round > policy.input_rounds => {
            end(Outcome::InputUnsupported, "The server asked for input too many times.")
        }
        InputPolicy::Surface
            if snapshot.now >= since.saturating_add(policy.input_timeout) && unanswered(snapshot) =>
        {
            end(Outcome::InputTimedOut, "Nobody answered the server's question in time.")
        }
        InputPolicy::Surface => None,
    }
}

fn plan_input(snapshot: &Snapshot<'_>, subject: &InputSubject, since: Timestamp) -> Step {
    match subject {
        // An answer may have been lost with a replica: only the server can tell.
        InputSubject::Task(_) if sending(snapshot) => Step::Poll,
        InputSubject::Task(_) => {
            let answers = answered(snapshot);
            if answers.is_empty() { Step::Poll } else { Step::Commit(Transition::SendAnswers { answers }) }
        }
        // Nothing runs remotely; the call is made again once every question has its answer.
        InputSubject::Call { .. } if unanswered(snapshot) => {
            let timeout = snapshot.policy.input_timeout;
            // The question may seem to come from the future, when a failover set the clock back.
            let left = since.saturating_add(timeout).since(snapshot.now).min(timeout);
            Step::Commit(Transition::Wait { delay: before_deadline(snapshot, left) })
        }
        InputSubject::Call { .. } => Step::Commit(begin_call(snapshot)),
    }
}

fn unanswered(snapshot: &Snapshot<'_>) -> bool {
    snapshot.inputs.iter().any(|input| input.state == InputState::Pending)
}

fn sending(snapshot: &Snapshot<'_>) -> bool {
    snapshot.inputs.iter().any(|input| matches!(input.state, InputState::Sending(_)))
}

fn answered(snapshot: &Snapshot<'_>) -> Vec<Answer> {
    snapshot
        .inputs
        .iter()
        .filter_map(|input| match &input.state {
            InputState::Answered(response) => {
                Some(Answer { key: input.key.clone(), response: response.clone() })
            }
            InputState::Pending | InputState::Sending(_) | InputState::Sent => None,
        })
        .collect()
}
