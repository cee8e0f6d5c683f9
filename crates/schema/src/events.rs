//! History lines: one per transition worth telling.

use david_reconciler::{EventName, Fence, Phase, Transition};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::write::NewRow;
use crate::{ReplicaId, Write};

/// Columns of `insert_events.sql`, an array each.
#[derive(Debug, Default)]
pub(crate) struct Events {
    task: Vec<i64>,
    action: Vec<String>,
    run: Vec<String>,
    registration: Vec<String>,
    tool_call: Vec<String>,
    provider: Vec<String>,
    event: Vec<&'static str>,
    transition: Vec<&'static str>,
    phase: Vec<&'static str>,
    outcome: Vec<Option<&'static str>>,
    fence: Vec<i64>,
    detail: Vec<Option<String>>,
}

impl Events {
    /// Adds what `write` has to tell.
    pub(crate) fn tell(&mut self, write: &Write, row: &NewRow, fence: Fence) {
        // The lease before this one ended without a commit; this is the first since.
        if write.leased.task.lapses > 0 || is_lost_call(write) {
            self.push(write, row, fence, EventName::Recovered);
        }
        for &event in write.transition.events() {
            self.push(write, row, fence, event);
        }
    }

    fn push(&mut self, write: &Write, row: &NewRow, fence: Fence, event: EventName) {
        let leased = &write.leased;
        self.task.push(leased.task.id.0);
        self.action.push(leased.task.action_id.to_string());
        self.run.push(leased.run.id.to_string());
        self.registration.push(leased.task.registration_id.to_string());
        self.tool_call.push(leased.call.tool_call_id.to_string());
        self.provider.push(leased.call.tool_name.to_string());
        self.event.push(event.as_str());
        self.transition.push(write.transition.label());
        self.phase.push(row.phase.as_str());
        self.outcome.push(row.outcome.map(|outcome| outcome.as_str()));
        self.fence.push(fence.0);
        self.detail.push(detail(&write.transition, row));
    }

    /// Writes them.
    pub(crate) async fn insert(
        self,
        connection: &mut PgConnection,
        replica: ReplicaId,
    ) -> Result<(), sqlx::Error> {
        if self.task.is_empty() {
            return Ok(());
        }
        let replica: Uuid = replica.0;
        sqlx::query_file!(
            "../../sql/insert_events.sql",
            &self.task,
            &self.action,
            &self.run,
            &self.registration,
            &self.tool_call,
            &self.provider,
            &self.event as &[&str],
            &self.transition as &[&str],
            &self.phase as &[&str],
            &self.outcome as &[Option<&str>],
            &self.fence,
            replica,
            &self.detail as &[Option<String>],
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// Whether a call is made again because the lease that made it ended without a word. Such a row counts no
/// lapse, since `calling` was committed.
fn is_lost_call(write: &Write) -> bool {
    let task = &write.leased.task;
    matches!(write.transition, Transition::Requeue { .. })
        && matches!(&task.phase, Phase::Calling { call_fence } if *call_fence != task.fence)
}

/// A task is told apart by its id's fingerprint, never by the id (rule 14).
fn detail(transition: &Transition, row: &NewRow) -> Option<String> {
    match transition {
        Transition::Track { remote, .. } => Some(format!("remote task {}", remote.id.fingerprint())),
        _ => row.last_error.clone(),
    }
}
