//! A leased row with what surrounds it, in the reconciler's types.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{
    ActionId, Call, CredentialId, Fence, InputKey, InputPolicy, InputRequest, InputState, InputSubject,
    Outcome, Phase, PhaseName, Registration, RegistrationId, RegistrationState, RemoteStatus, RemoteTask,
    RemoteTaskId, Repeat, RequestState, Run, RunId, RunState, Task, TaskId, Timestamp, ToolCallId, ToolName,
    UserId,
};

/// `tools/call` may take this long when its registration is gone; nothing will be called then, the
/// value only has to be one.
const TIMEOUT_WITHOUT_REGISTRATION: Duration = Duration::from_secs(30);

/// A leased row and everything a decision about it, or a call for it, needs.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The row.
    pub task: Task,
    /// Its Action's call, for the envelope.
    pub call: Call,
    /// Its Run.
    pub run: Run,
    /// Its registration, when it still exists. Shared by the rows of a lease.
    pub registered: Option<Arc<Registered>>,
    /// What to call; none for an adopted task.
    pub request: Option<CallRequest>,
    /// The trace that the call is part of, if Core said so.
    pub trace: Option<TraceContext>,
    /// The present round of questions.
    pub inputs: Vec<InputRequest>,
    /// Set when a question or an answer is JSON to Postgres but not to us (a number beyond any
    /// float): the row must end, or it would be leased for ever (DESIGN rule 15).
    pub unreadable: Option<&'static str>,
}

/// A W3C trace context, as Core gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `00-TRACE-PARENT-FLAGS`; a CHECK has looked at its form.
    pub traceparent: Box<str>,
    /// Vendors' own words about the trace, up to 512 bytes.
    pub tracestate: Option<Box<str>>,
}

/// A registration, and where its server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Whose it is, and whether it may be used.
    pub registration: Registration,
    /// Where.
    pub endpoint: Endpoint,
    /// `tools/call` requests in flight at most, all replicas together; none is without a bound.
    pub max_calls: Option<u32>,
}

/// Where a registration's server is, and how it wants to be talked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its URL, as registered.
    pub url: String,
    /// Its bearer credential, when it has one.
    pub credential: Option<CredentialId>,
}

/// What to call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRequest {
    /// The server's name of the tool.
    pub tool: ToolName,
    /// Its arguments, a JSON object's text.
    pub arguments: String,
    /// Opaque state of a call that asked for input.
    pub request_state: Option<RequestState>,
}

/// A row that cannot be read, though the CHECKs should make that impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task}: column {column} cannot be read")]
pub struct BadRow {
    /// Which row.
    pub task: TaskId,
    /// Which column.
    pub column: &'static str,
}

/// The columns of `read_leased.sql`.
#[derive(Debug)]
pub(crate) struct LeaseRow {
    pub(crate) id: i64,
    pub(crate) action_id: String,
    pub(crate) registration_id: String,
    pub(crate) phase: String,
    pub(crate) fence: i64,
    pub(crate) call_fence: Option<i64>,
    pub(crate) lapses: i32,
    pub(crate) remote_task_id: Option<String>,
    pub(crate) remote_status: Option<String>,
    pub(crate) remote_expires_at: Option<i64>,
    pub(crate) remote_ttl_ms: Option<i64>,
    pub(crate) poll_interval_ms: Option<i64>,
    pub(crate) attempt: i32,
    pub(crate) polls: i32,
    pub(crate) input_round: i32,
    pub(crate) execution_deadline: i64,
    pub(crate) outcome: Option<String>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) tool_name: String,
    pub(crate) run_id: String,
    pub(crate) user_id: String,
    pub(crate) run_cancelled: bool,
    pub(crate) registration_owner_id: Option<String>,
    pub(crate) registration_url: Option<String>,
    pub(crate) registration_credential_id: Option<String>,
    pub(crate) registration_enabled: Option<bool>,
    pub(crate) registration_timeout_seconds: Option<i32>,
    pub(crate) registration_input_policy: Option<String>,
    pub(crate) registration_max_calls: Option<i32>,
    pub(crate) remote_tool_name: Option<String>,
    pub(crate) arguments: Option<String>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) request_state: Option<Vec<u8>>,
    pub(crate) traceparent: Option<String>,
    pub(crate) tracestate: Option<String>,
}

/// One row of `registrations.sql`.
pub(crate) struct RegistrationRow {
    pub(crate) id: String,
    pub(crate) owner_id: String,
    pub(crate) url: String,
    pub(crate) credential_id: Option<String>,
    pub(crate) enabled: bool,
    pub(crate) timeout_seconds: i32,
    pub(crate) max_calls: Option<i32>,
}

impl RegistrationRow {
    pub(crate) fn read(self) -> Registered {
        Registered {
            registration: Registration {
                id: RegistrationId::new(self.id),
                owner_id: UserId::new(self.owner_id),
                state: if self.enabled { RegistrationState::Enabled } else { RegistrationState::Disabled },
                request_timeout: Duration::from_secs(u64::from(count(self.timeout_seconds))),
            },
            endpoint: Endpoint { url: self.url, credential: self.credential_id.map(CredentialId::new) },
            max_calls: self.max_calls.map(count),
        }
    }
}

/// One row of `inputs.sql`.
pub(crate) struct InputRow {
    pub(crate) task_id: i64,
    pub(crate) key: String,
    pub(crate) request: String,
    pub(crate) state: String,
    pub(crate) response: Option<String>,
    pub(crate) created_at: i64,
}

impl LeaseRow {
    /// Whether the row's present round of questions has to be read, too.
    pub(crate) fn has_inputs(&self) -> bool {
        self.input_round > 0 && matches!(self.phase.as_str(), "queued" | "input_required")
    }

    fn registration(&self) -> Option<Registered> {
        let row = RegistrationRow {
            id: self.registration_id.clone(),
            owner_id: self.registration_owner_id.clone()?,
            url: self.registration_url.clone()?,
            credential_id: self.registration_credential_id.clone(),
            enabled: self.registration_enabled?,
            timeout_seconds: self.registration_timeout_seconds?,
            max_calls: self.registration_max_calls,
        };
        Some(row.read())
    }

    /// Into the reconciler's types. `now` is the lease's, `inputs` are the row's own, `shared` the
    /// registrations of the same lease so far.
    pub(crate) fn read(
        self,
        now: Timestamp,
        inputs: &[InputRow],
        shared: &mut HashMap<String, Arc<Registered>>,
    ) -> Result<Leased, BadRow> {
        let id = TaskId(self.id);
        let bad = |column| BadRow { task: id, column };
        let since = inputs.iter().map(|input| input.created_at).max().unwrap_or(now.0);
        let (inputs, unreadable) = match inputs.iter().map(|input| input.read(id)).collect::<Result<_, _>>() {
            Ok(inputs) => (inputs, None),
            Err(bad) => (Vec::new(), Some(bad.column)),
        };

        let request_timeout = self
            .registration_timeout_seconds
            .map_or(TIMEOUT_WITHOUT_REGISTRATION, |seconds| Duration::from_secs(u64::from(count(seconds))));
        let registered = self.registration().map(|found| match shared.get(&self.registration_id) {
            Some(known) if **known == found => Arc::clone(known),
            _ => {
                let found = Arc::new(found);
                shared.insert(self.registration_id.clone(), Arc::clone(&found));
                found
            }
        });
        let request_state = match self.request_state.clone() {
            None => None,
            Some(bytes) => {
                Some(RequestState::new(String::from_utf8(bytes).map_err(|_| bad("request_state"))?))
            }
        };
        let request = self.remote_tool_name.clone().zip(self.arguments.clone()).map(|(tool, arguments)| {
            CallRequest { tool: ToolName::new(tool), arguments, request_state: request_state.clone() }
        });
        let run = Run {
            id: RunId::new(&self.run_id),
            user_id: UserId::new(&self.user_id),
            state: if self.run_cancelled { RunState::Cancelled } else { RunState::Live },
        };
        let call = Call {
            tool_call_id: ToolCallId::new(self.tool_call_id.clone().unwrap_or_default()),
            tool_name: ToolName::new(&self.tool_name),
            repeat: if self.idempotent == Some(true) { Repeat::Idempotent } else { Repeat::Never },
            request_timeout,
            input: match self.registration_input_policy.as_deref() {
                Some("fail") => InputPolicy::Fail,
                _ => InputPolicy::Surface,
            },
        };
        let task = Task {
            id,
            action_id: ActionId::new(&self.action_id),
            registration_id: RegistrationId::new(&self.registration_id),
            phase: self.phase(Timestamp(since), request_state)?,
            fence: Fence(self.fence),
            lapses: count(self.lapses),
            attempt: count(self.attempt),
            polls: count(self.polls),
            input_round: count(self.input_round),
            execution_deadline: Timestamp(self.execution_deadline),
        };
        let tracestate = self.tracestate.map(String::into_boxed_str);
        let trace = self
            .traceparent
            .map(|traceparent| TraceContext { traceparent: traceparent.into_boxed_str(), tracestate });
        Ok(Leased { task, call, run, registered, request, trace, inputs, unreadable })
    }

    fn phase(&self, since: Timestamp, request_state: Option<RequestState>) -> Result<Phase, BadRow> {
        let bad = |column| BadRow { task: TaskId(self.id), column };
        let remote = || self.remote()?.ok_or(bad("remote_task_id"));
        let outcome = || self.outcome.as_deref().and_then(Outcome::parse).ok_or(bad("outcome"));
        Ok(match PhaseName::parse(&self.phase).ok_or(bad("phase"))? {
            PhaseName::Queued => Phase::Queued,
            PhaseName::Calling => {
                Phase::Calling { call_fence: Fence(self.call_fence.ok_or(bad("call_fence"))?) }
            }
            PhaseName::Working => Phase::Working { remote: remote()? },
            PhaseName::InputRequired => Phase::InputRequired {
                subject: match self.remote()? {
                    Some(remote) => InputSubject::Task(remote),
                    None => InputSubject::Call { request_state },
                },
                since,
            },
            PhaseName::Cancelling => Phase::Cancelling { remote: remote()?, outcome: outcome()? },
            PhaseName::Finalised => Phase::Finalised { outcome: outcome()? },
        })
    }

    fn remote(&self) -> Result<Option<RemoteTask>, BadRow> {
        let bad = |column| BadRow { task: TaskId(self.id), column };
        let Some(id) = &self.remote_task_id else {
            return Ok(None);
        };
        let millis = |value: i64| Duration::from_millis(u64::try_from(value).unwrap_or(0));
        Ok(Some(RemoteTask {
            id: RemoteTaskId::parse(id.as_str()).map_err(|_| bad("remote_task_id"))?,
            status: match self.remote_status.as_deref() {
                None => None,
                Some(word) => Some(RemoteStatus::parse(word).ok_or(bad("remote_status"))?),
            },
            expires_at: self.remote_expires_at.map(Timestamp),
            ttl: self.remote_ttl_ms.map(millis),
            poll_interval: self.poll_interval_ms.map(millis),
        }))
    }
}

impl InputRow {
    fn read(&self, task: TaskId) -> Result<InputRequest, BadRow> {
        let bad = |column| BadRow { task, column };
        let json = |text: &str, column| serde_json::from_str(text).map_err(|_| bad(column));
        let response = || json(self.response.as_deref().ok_or(bad("response"))?, "response");
        Ok(InputRequest {
            key: InputKey::new(&self.key),
            request: json(&self.request, "request")?,
            state: match self.state.as_str() {
                "pending" => InputState::Pending,
                "answered" => InputState::Answered(response()?),
                "sending" => InputState::Sending(response()?),
                "sent" => InputState::Sent,
                _ => return Err(bad("state")),
            },
        })
    }
}

/// A counter's CHECK says it is not negative.
fn count(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}
