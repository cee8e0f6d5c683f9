//! What a row's path looks like in the log: a sentence and the fields of docs/logging.md.

use david_reconciler::{CancelDebt, Transition};
use david_schema::{Committed, Leased};

/// Tells what came of one decision.
pub(crate) fn tell(leased: &Leased, transition: &Transition, committed: &Committed) {
    let task = &leased.task;
    let fence = match committed {
        Committed::Applied { fence } => fence,
        Committed::Repaired => &task.fence,
        Committed::Full => {
            return tracing::debug!(
                action.id = %task.action_id,
                registration.id = %task.registration_id,
                "as many calls are in flight as the server may have; this one waits"
            );
        }
        Committed::LeaseLost | Committed::AlreadyFinalised { .. } | Committed::Vanished => {
            return too_late(leased, transition, committed);
        }
    };
    match transition {
        Transition::Continue { .. } | Transition::Wait { .. } => tracing::trace!(
            action.id = %task.action_id,
            lease.fence = fence.0,
            transition = transition.label(),
            "looked, and there is no news"
        ),
        transition => tracing::info!(
            run.id = %leased.run.id,
            action.id = %task.action_id,
            registration.id = %task.registration_id,
            tool_call_id = %leased.call.tool_call_id,
            provider.name = %leased.call.tool_name,
            lease.fence = fence.0,
            attempt = task.attempt,
            transition = transition.label(),
            "{}",
            sentence(transition)
        ),
    }
}

fn too_late(leased: &Leased, transition: &Transition, committed: &Committed) {
    tracing::info!(
        run.id = %leased.run.id,
        action.id = %leased.task.action_id,
        lease.fence = leased.task.fence.0,
        transition = transition.label(),
        ?committed,
        "a write came too late and changed nothing"
    );
}

fn sentence(transition: &Transition) -> String {
    match transition {
        Transition::BeginCall { .. } => "the tool is about to be called".to_owned(),
        Transition::Requeue { delay, reason, .. } => {
            format!("the call is tried again in {delay:.1?}: {reason}")
        }
        Transition::Track { remote, .. } => format!("remote task {} is tracked", remote.id),
        Transition::Continue { .. } | Transition::Wait { .. } => "there is no news".to_owned(),
        Transition::Retry { delay, reason, .. } => format!("trying again in {delay:.1?}: {reason}"),
        Transition::AwaitInput { round, requests, .. } if requests.is_empty() => {
            format!("the server waits for the answers of round {round}")
        }
        Transition::AwaitInput { round, requests, .. } => {
            format!("the server asks {} questions, round {round}", requests.len())
        }
        Transition::SendAnswers { answers } => format!("{} answers are about to be sent", answers.len()),
        Transition::AnswersSent { keys, .. } => format!("{} answers were acknowledged", keys.len()),
        Transition::Finish(finish) => match (finish.debt, &finish.reason) {
            (CancelDebt::None, None) => format!("finalised as {}", finish.outcome),
            (CancelDebt::None, Some(reason)) => format!("finalised as {}: {reason}", finish.outcome),
            (CancelDebt::Owed, reason) => format!(
                "ended as {}, a remote cancel is owed: {}",
                finish.outcome,
                reason.as_deref().unwrap_or_default()
            ),
        },
        Transition::SettleCancel { reason } => format!("the remote cancel is settled: {reason}"),
        Transition::RepairCancel => "cancelled with its Run".to_owned(),
        Transition::Impossible { pair } => format!("this cannot happen: {pair}"),
    }
}
