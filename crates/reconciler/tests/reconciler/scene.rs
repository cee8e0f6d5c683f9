//! A row with its surroundings, to be changed by a test and looked at by the code.

use std::time::Duration;

use david_reconciler::{
    ActionId, Authority, Call, Fence, InputKey, InputPolicy, InputRequest, InputState, InputSubject, Jitter,
    Observation, Outcome, Phase, Policy, RegistrationId, RemoteError, RemoteState, RemoteTask, RemoteTaskId,
    Repeat, Run, RunId, RunState, Snapshot, Step, Task, TaskId, Timestamp, ToolCallId, ToolName, ToolResult,
    Transition, UserId, Verdict, decide, plan,
};
use serde_json::{Value, json};

pub(crate) const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
pub(crate) const SECRET_ID: &str = "task-7f3a9c";

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) task: Task,
    pub(crate) call: Call,
    pub(crate) run: Run,
    pub(crate) authority: Authority,
    pub(crate) inputs: Vec<InputRequest>,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
    pub(crate) jitter: Jitter,
}

impl Scene {
    /// A row in `phase`, of a live Run, an hour before its deadline.
    pub(crate) fn of(phase: Phase) -> Self {
        Self {
            task: Task {
                id: TaskId(1),
                action_id: ActionId::new("act_0123456789abcdefABCDEF"),
                registration_id: RegistrationId::new("reg"),
                phase,
                fence: Fence(3),
                lapses: 0,
                attempt: 0,
                polls: 0,
                input_round: 0,
                execution_deadline: NOW.saturating_add(Duration::from_secs(3600)),
            },
            call: Call {
                tool_call_id: ToolCallId::new("call_1"),
                tool_name: ToolName::new("report"),
                repeat: Repeat::Never,
                request_timeout: Duration::from_secs(30),
                input: InputPolicy::Surface,
            },
            run: Run { id: RunId::new("run_1"), user_id: UserId::new("user_1"), state: RunState::Live },
            authority: Authority::Granted,
            inputs: Vec::new(),
            policy: Policy::default(),
            now: NOW,
            jitter: Jitter::NONE,
        }
    }

    pub(crate) fn queued() -> Self {
        Self::of(Phase::Queued)
    }

    pub(crate) fn calling() -> Self {
        Self::of(Phase::Calling { call_fence: Fence(3) })
    }

    pub(crate) fn working() -> Self {
        Self::of(Phase::Working { remote: remote() })
    }

    pub(crate) fn cancelling() -> Self {
        Self::of(Phase::Cancelling { remote: remote(), outcome: Outcome::RunCancelled })
    }

    /// A task that asks these, in round 1.
    pub(crate) fn asking(inputs: &[(&str, InputState)]) -> Self {
        Self::asked_by(InputSubject::Task(remote()), inputs)
    }

    /// A call that asks these, in round 1.
    pub(crate) fn call_asking(inputs: &[(&str, InputState)]) -> Self {
        Self::asked_by(InputSubject::Call { request_state: None }, inputs)
    }

    fn asked_by(subject: InputSubject, inputs: &[(&str, InputState)]) -> Self {
        let mut scene = Self::of(Phase::InputRequired { subject, since: NOW });
        scene.task.input_round = 1;
        scene.inputs = inputs
            .iter()
            .map(|(key, state)| InputRequest {
                key: InputKey::new(*key),
                request: question(),
                state: state.clone(),
            })
            .collect();
        scene
    }

    /// The remote task, in phases that have one.
    pub(crate) fn remote_mut(&mut self) -> Option<&mut RemoteTask> {
        match &mut self.task.phase {
            Phase::Working { remote }
            | Phase::Cancelling { remote, .. }
            | Phase::InputRequired { subject: InputSubject::Task(remote), .. } => Some(remote),
            Phase::Queued
            | Phase::Calling { .. }
            | Phase::InputRequired { subject: InputSubject::Call { .. }, .. }
            | Phase::Finalised { .. } => None,
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            task: &self.task,
            call: &self.call,
            run: &self.run,
            authority: &self.authority,
            inputs: &self.inputs,
            policy: &self.policy,
            now: self.now,
            jitter: self.jitter,
        }
    }

    pub(crate) fn plan(&self) -> Step {
        plan(&self.snapshot())
    }

    pub(crate) fn decide(&self, observation: Observation) -> Transition {
        decide(&self.snapshot(), observation)
    }
}

pub(crate) fn remote() -> RemoteTask {
    RemoteTask {
        id: RemoteTaskId::parse(SECRET_ID).unwrap(),
        status: None,
        expires_at: None,
        ttl: None,
        poll_interval: None,
    }
}

pub(crate) fn state() -> RemoteState {
    RemoteState {
        id: RemoteTaskId::parse(SECRET_ID).unwrap(),
        ttl: None,
        poll_interval: None,
        message: None,
        took: Duration::ZERO,
    }
}

pub(crate) fn question() -> Value {
    json!({ "method": "elicitation/create", "params": { "message": "Which?" } })
}

pub(crate) fn answer() -> Value {
    json!({ "action": "accept", "content": { "name": "this" } })
}

pub(crate) fn result(verdict: Verdict) -> ToolResult {
    ToolResult {
        content: vec![json!({ "text": "42", "type": "text" })],
        structured_content: Some(json!({ "answer": 42 })),
        verdict,
    }
}

pub(crate) fn error(code: i64) -> RemoteError {
    RemoteError { code, message: "no".to_owned(), data: None }
}

/// Until the row is due again, where the transition says so.
pub(crate) fn delay_of(transition: &Transition) -> Option<Duration> {
    match transition {
        Transition::Requeue { delay, .. }
        | Transition::Track { delay, .. }
        | Transition::Continue { delay, .. }
        | Transition::Retry { delay, .. }
        | Transition::Wait { delay }
        | Transition::AwaitInput { delay, .. }
        | Transition::AnswersSent { delay, .. } => Some(*delay),
        Transition::BeginCall { .. }
        | Transition::SendAnswers { .. }
        | Transition::Finish(_)
        | Transition::SettleCancel { .. }
        | Transition::RepairCancel
        | Transition::Impossible { .. } => None,
    }
}
