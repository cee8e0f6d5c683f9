//! A decision as the row it makes.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{
    CancelDebt, Fence, InputState, InputSubject, Outcome, Phase, PhaseName, RemoteTask, Timestamp, Transition,
};

use crate::Leased;
use crate::lease::micros;

/// One decision to be committed.
#[derive(Debug, Clone)]
pub struct Write {
    /// The row as it was leased.
    pub leased: Arc<Leased>,
    /// What must still hold for the row to be written.
    pub guard: Guard,
    /// What was decided.
    pub transition: Transition,
}

impl Write {
    /// Roughly how much it sends to the database, in bytes: what came from a server.
    pub fn weight(&self) -> usize {
        match &self.transition {
            Transition::Finish(finish) => finish.envelope.as_str().len(),
            Transition::AwaitInput { requests, .. } => requests
                .iter()
                .map(|(key, request)| key.as_str().len() + request.to_string().len())
                .fold(0, usize::saturating_add),
            _ => 0,
        }
    }
}

/// What must still hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The lease is still ours.
    Fence(Fence),
    /// The row still waits for the call that was begun under this fence, whoever leased it since:
    /// what came of a call must not be lost to a lease that lapsed meanwhile (DESIGN rule 2).
    Call(Fence),
}

/// 9999-12-31: later than any deadline, and Postgres can still print it.
const END_OF_TIME: Timestamp = Timestamp(253_402_214_400_000_000);

/// The longest delay that is stored, a year: beyond any that makes sense, and safe to add to now().
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Does the row stay leased to the replica that writes?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Kept,
    GivenUp,
}

/// The columns a commit writes; see `write_tasks.sql`.
#[derive(Debug, Clone)]
pub(crate) struct NewRow {
    pub(crate) phase: PhaseName,
    pub(crate) due_in: i64,
    pub(crate) call_fence: Option<Fence>,
    pub(crate) hold: Hold,
    pub(crate) remote: Option<RemoteTask>,
    pub(crate) attempt: u32,
    pub(crate) polls: u32,
    pub(crate) polled: bool,
    pub(crate) last_error: Option<String>,
    pub(crate) input_round: u32,
    pub(crate) outcome: Option<Outcome>,
}

impl NewRow {
    /// The row after `transition`; none when that writes through a function of the database.
    pub(crate) fn of(write: &Write) -> Option<Self> {
        let leased = &write.leased;
        let task = &leased.task;
        let stays = Self {
            phase: task.phase.name(),
            due_in: 0,
            call_fence: match (&task.phase, write.guard) {
                (Phase::Calling { call_fence, .. }, Guard::Fence(_) | Guard::Call(_)) => Some(*call_fence),
                (_, Guard::Call(fence)) => Some(fence),
                (_, Guard::Fence(_)) => None,
            },
            hold: Hold::GivenUp,
            remote: task.phase.remote().cloned(),
            attempt: task.attempt,
            polls: task.polls,
            polled: false,
            last_error: None,
            input_round: task.input_round,
            outcome: None,
        };
        Some(match &write.transition {
            Transition::RepairCancel => return None,
            Transition::BeginCall { lease } => Self {
                phase: PhaseName::Calling,
                due_in: delay(*lease),
                call_fence: Some(task.fence),
                hold: Hold::Kept,
                ..stays
            },
            Transition::Requeue { delay: wait, attempt, reason } => Self {
                phase: PhaseName::Queued,
                due_in: delay(*wait),
                attempt: *attempt,
                last_error: Some(reason.clone()),
                ..stays
            },
            Transition::Track { remote, delay: wait } => Self {
                phase: PhaseName::Working,
                due_in: delay(*wait),
                remote: Some(bounded(remote)),
                attempt: 0,
                ..stays
            },
            Transition::Continue { remote, delay: wait } => Self {
                phase: PhaseName::Working,
                due_in: delay(*wait),
                remote: Some(bounded(remote)),
                attempt: 0,
                polls: task.polls.saturating_add(1),
                polled: true,
                ..stays
            },
            Transition::Retry { delay: wait, attempt, reason } => Self {
                due_in: delay(*wait),
                attempt: *attempt,
                last_error: Some(reason.clone()),
                outcome: outcome_of(&task.phase),
                ..stays
            },
            Transition::Wait { delay: wait } => Self { due_in: delay(*wait), ..stays },
            Transition::AwaitInput { subject, round, delay: wait, .. } => Self {
                phase: PhaseName::InputRequired,
                due_in: delay(*wait),
                remote: match subject {
                    InputSubject::Task(remote) => Some(bounded(remote)),
                    InputSubject::Call { .. } => None,
                },
                attempt: 0,
                polls: task.polls.saturating_add(1),
                polled: true,
                input_round: *round,
                ..stays
            },
            // Still ours while `tasks/update` is on the wire; the lease lasts as it was.
            Transition::SendAnswers { .. } => Self { due_in: delay(SEND_LEASE), hold: Hold::Kept, ..stays },
            Transition::AnswersSent { delay: wait, .. } => Self { due_in: delay(*wait), attempt: 0, ..stays },
            Transition::Finish(finish) => Self {
                phase: match finish.debt {
                    CancelDebt::None => PhaseName::Finalised,
                    CancelDebt::Owed => PhaseName::Cancelling,
                },
                attempt: 0,
                last_error: finish.reason.clone(),
                outcome: Some(finish.outcome),
                ..stays
            },
            Transition::SettleCancel { reason } => Self {
                phase: PhaseName::Finalised,
                last_error: Some(reason.clone()),
                outcome: outcome_of(&task.phase),
                ..stays
            },
            Transition::Impossible { pair } => Self {
                due_in: delay(IMPOSSIBLE_DELAY),
                attempt: task.attempt.saturating_add(1),
                last_error: Some(format!("impossible: {pair}")),
                outcome: outcome_of(&task.phase),
                ..stays
            },
        })
    }
}

/// `tasks/update` must end within its poll time-out, which the worker's settings keep below this.
const SEND_LEASE: Duration = Duration::from_secs(30);

/// A pair that cannot occur must not spin.
const IMPOSSIBLE_DELAY: Duration = Duration::from_secs(60);

impl Leased {
    /// Makes it the row as it is after `transition`, for a replica that goes on with it: committed after
    /// [`Transition::BeginCall`] and [`Transition::SendAnswers`], in memory only after
    /// [`Transition::Continue`] and [`Transition::Retry`] of a held row (DESIGN §7).
    pub fn advance(&mut self, transition: &Transition) {
        match transition {
            // Written, so that earlier lapses are told and over.
            Transition::BeginCall { .. } => {
                self.task.lapses = 0;
                self.task.phase = Phase::Calling { call_fence: self.task.fence };
            }
            Transition::SendAnswers { answers } => {
                self.task.lapses = 0;
                for answer in answers {
                    for input in self.inputs.iter_mut().filter(|input| input.key == answer.key) {
                        input.state = InputState::Sending(answer.response.clone());
                    }
                }
            }
            Transition::Continue { remote, .. } => {
                self.task.phase = Phase::Working { remote: bounded(remote) };
                self.task.attempt = 0;
                self.task.polls = self.task.polls.saturating_add(1);
            }
            Transition::Retry { attempt, .. } => self.task.attempt = *attempt,
            Transition::Requeue { .. }
            | Transition::Track { .. }
            | Transition::Wait { .. }
            | Transition::AwaitInput { .. }
            | Transition::AnswersSent { .. }
            | Transition::Finish(_)
            | Transition::SettleCancel { .. }
            | Transition::RepairCancel
            | Transition::Impossible { .. } => {}
        }
    }
}

fn outcome_of(phase: &Phase) -> Option<Outcome> {
    match phase {
        Phase::Cancelling { outcome, .. } | Phase::Finalised { outcome } => Some(*outcome),
        Phase::Queued | Phase::Calling { .. } | Phase::Working { .. } | Phase::InputRequired { .. } => None,
    }
}

fn delay(wait: Duration) -> i64 {
    micros(wait.min(LONGEST_DELAY))
}

/// What a server says may not make a row Postgres cannot store.
fn bounded(remote: &RemoteTask) -> RemoteTask {
    RemoteTask {
        expires_at: remote.expires_at.map(|at| at.min(END_OF_TIME).max(Timestamp(0))),
        ..remote.clone()
    }
}

/// Milliseconds for a bigint column, saturating.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
