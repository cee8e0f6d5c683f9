//! What one transaction writes, gathered as the arrays its statements take.

use david_reconciler::{Fence, InputSubject, Transition};
use sqlx::PgConnection;

use crate::events::Events;
use crate::settle::LockedRow;
use crate::write::{Hold, NewRow, millis};
use crate::{ReplicaId, Write};

/// What the Action's status becomes, if it changes.
pub(crate) fn action_status(transition: &Transition) -> Option<&'static str> {
    match transition {
        Transition::BeginCall { .. } => Some("processing"),
        Transition::Finish(finish) => Some(finish.outcome.action_status().as_str()),
        _ => None,
    }
}

/// Everything one transaction writes, as the arrays its statements take.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    tasks: Tasks,
    actions: (Vec<String>, Vec<&'static str>),
    outputs: (Vec<String>, Vec<&'static str>, Vec<String>),
    inputs: (Vec<i64>, Vec<i32>, Vec<String>, Vec<String>),
    marks: (Vec<i64>, Vec<i32>, Vec<String>, Vec<&'static str>),
    states: (Vec<String>, Vec<Option<Vec<u8>>>),
    events: Events,
}

/// Columns of `write_tasks.sql`.
#[derive(Debug, Default)]
struct Tasks {
    id: Vec<i64>,
    guard: Vec<i64>,
    phase: Vec<&'static str>,
    due_in: Vec<i64>,
    fence: Vec<i64>,
    call_fence: Vec<Option<i64>>,
    kept: Vec<bool>,
    remote_task_id: Vec<Option<String>>,
    remote_status: Vec<Option<&'static str>>,
    remote_expires_at: Vec<Option<i64>>,
    remote_ttl_ms: Vec<Option<i64>>,
    poll_interval_ms: Vec<Option<i64>>,
    attempt: Vec<i32>,
    polls: Vec<i32>,
    polled: Vec<bool>,
    last_error: Vec<Option<String>>,
    input_round: Vec<i32>,
    outcome: Vec<Option<&'static str>>,
    call_slot: Vec<Option<i32>>,
}

impl Changes {
    /// Adds one row's part.
    pub(crate) fn add(
        &mut self,
        write: &Write,
        new: &NewRow,
        row: &LockedRow,
        fence: Fence,
        slot: Option<i32>,
    ) {
        let leased = &write.leased;
        self.tasks.push(row, new, fence, slot);
        self.events.tell(write, new, fence);
        if let Some(status) = action_status(&write.transition) {
            self.actions.0.push(leased.task.action_id.to_string());
            self.actions.1.push(status);
        }
        match &write.transition {
            Transition::Finish(finish) => {
                self.outputs.0.push(leased.task.action_id.to_string());
                self.outputs.1.push(finish.outcome.as_str());
                self.outputs.2.push(finish.envelope.as_str().to_owned());
            }
            Transition::AwaitInput { subject, round, requests, .. } => {
                for (key, request) in requests {
                    self.inputs.0.push(leased.task.id.0);
                    self.inputs.1.push(int(*round));
                    self.inputs.2.push(key.to_string());
                    self.inputs.3.push(request.to_string());
                }
                if let InputSubject::Call { request_state } = subject {
                    self.states.0.push(leased.task.action_id.to_string());
                    self.states
                        .1
                        .push(request_state.as_ref().map(|state| state.as_str().as_bytes().to_vec()));
                }
            }
            Transition::SendAnswers { answers } => {
                for answer in answers {
                    self.mark(write, answer.key.as_str(), "sending");
                }
            }
            Transition::AnswersSent { keys, .. } => {
                for key in keys {
                    self.mark(write, key.as_str(), "sent");
                }
            }
            Transition::BeginCall { .. }
            | Transition::Requeue { .. }
            | Transition::Track { .. }
            | Transition::Continue { .. }
            | Transition::Retry { .. }
            | Transition::Wait { .. }
            | Transition::SettleCancel { .. }
            | Transition::RepairCancel
            | Transition::Impossible { .. } => {}
        }
    }

    fn mark(&mut self, write: &Write, key: &str, state: &'static str) {
        self.marks.0.push(write.leased.task.id.0);
        self.marks.1.push(int(write.leased.task.input_round));
        self.marks.2.push(key.to_owned());
        self.marks.3.push(state);
    }

    /// Writes it all.
    pub(crate) async fn write(
        self,
        connection: &mut PgConnection,
        replica: ReplicaId,
    ) -> Result<(), sqlx::Error> {
        self.tasks.write(&mut *connection).await?;
        let (ids, statuses) = self.actions;
        if !ids.is_empty() {
            sqlx::query_file!("../../sql/write_actions.sql", &ids, &statuses as &[&str])
                .execute(&mut *connection)
                .await?;
        }
        let (ids, outcomes, envelopes) = self.outputs;
        if !ids.is_empty() {
            sqlx::query_file!("../../sql/insert_outputs.sql", &ids, &outcomes as &[&str], &envelopes)
                .execute(&mut *connection)
                .await?;
        }
        let (tasks, rounds, keys, requests) = self.inputs;
        if !tasks.is_empty() {
            sqlx::query_file!("../../sql/insert_inputs.sql", &tasks, &rounds, &keys, &requests)
                .execute(&mut *connection)
                .await?;
        }
        let (tasks, rounds, keys, states) = self.marks;
        if !tasks.is_empty() {
            sqlx::query_file!("../../sql/mark_inputs.sql", &tasks, &rounds, &keys, &states as &[&str])
                .execute(&mut *connection)
                .await?;
        }
        let (actions, states) = self.states;
        if !actions.is_empty() {
            sqlx::query_file!("../../sql/save_request_states.sql", &actions, &states as &[Option<Vec<u8>>])
                .execute(&mut *connection)
                .await?;
        }
        self.events.insert(connection, replica).await
    }
}

impl Tasks {
    fn push(&mut self, row: &LockedRow, new: &NewRow, fence: Fence, slot: Option<i32>) {
        let remote = new.remote.as_ref();
        self.id.push(row.id);
        self.guard.push(row.fence);
        self.phase.push(new.phase.as_str());
        self.due_in.push(new.due_in);
        self.fence.push(fence.0);
        self.call_fence.push(new.call_fence.map(|fence| fence.0).or(row.call_fence));
        self.kept.push(new.hold == Hold::Kept);
        self.remote_task_id.push(remote.map(|remote| remote.id.expose().to_owned()));
        self.remote_status.push(remote.and_then(|remote| remote.status).map(|status| status.as_str()));
        self.remote_expires_at.push(remote.and_then(|remote| remote.expires_at).map(|at| at.0));
        self.remote_ttl_ms.push(remote.and_then(|remote| remote.ttl).map(millis));
        self.poll_interval_ms.push(remote.and_then(|remote| remote.poll_interval).map(millis));
        self.attempt.push(int(new.attempt));
        self.polls.push(int(new.polls));
        self.polled.push(new.polled);
        self.last_error.push(new.last_error.clone());
        self.input_round.push(int(new.input_round));
        self.outcome.push(new.outcome.map(|outcome| outcome.as_str()));
        self.call_slot.push(slot);
    }

    async fn write(self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.id.is_empty() {
            return Ok(());
        }
        let expected = self.id.len();
        let done = sqlx::query_file!(
            "../../sql/write_tasks.sql",
            &self.id,
            &self.guard,
            &self.phase as &[&str],
            &self.due_in,
            &self.fence,
            &self.call_fence as &[Option<i64>],
            &self.kept,
            &self.remote_task_id as &[Option<String>],
            &self.remote_status as &[Option<&str>],
            &self.remote_expires_at as &[Option<i64>],
            &self.remote_ttl_ms as &[Option<i64>],
            &self.poll_interval_ms as &[Option<i64>],
            &self.attempt,
            &self.polls,
            &self.polled,
            &self.last_error as &[Option<String>],
            &self.input_round,
            &self.outcome as &[Option<&str>],
            &self.call_slot as &[Option<i32>],
        )
        .execute(connection)
        .await?
        .rows_affected();
        // The rows are locked and were compared, so all of them must have been written.
        if done != expected as u64 {
            return Err(sqlx::Error::Protocol(format!("wrote {done} of {expected} locked task rows")));
        }
        Ok(())
    }
}

/// A counter for an integer column, saturating.
fn int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
