//! One caller, and one word for whatever it is answered.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{
    Ack, CallReply, CredentialId, PollReply, Refusal, RegistrationId, RemoteStatus, RemoteTaskId, RetryAfter,
    ToolName, Trouble, Verdict,
};
use david_tasks::credentials::Source;
use david_tasks::remote::{Access, Clients, Limits, Target, ToolRequest};
use david_testkit::{RawServer, Reply};
use serde_json::Map;
use tokio::time::Instant;

/// The deadline of requests that are answered; nothing ever waits for it.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The deadline of requests that are not.
const PATIENCE: Duration = Duration::from_millis(300);

/// One client and its server.
pub(crate) struct Caller {
    pub(crate) clients: Clients,
    pub(crate) target: Target,
}

impl Caller {
    pub(crate) fn new(url: &str, limits: Limits) -> Self {
        let target =
            Target { registration_id: RegistrationId::new("mcp_1"), url: url.to_owned(), credential: None };
        Self { clients: Clients::new(limits, Access::default()).unwrap(), target }
    }

    /// One that has to show credential `cred_1`, and gets it from `source`.
    pub(crate) fn with_credential(server: &RawServer, source: Source) -> Self {
        let access = Access { endpoints: None, credentials: Some(Arc::new(source)), health: None };
        let target = Target { credential: Some(CredentialId::new("cred_1")), ..Self::of(server).target };
        Self { clients: Clients::new(Limits::default(), access).unwrap(), target }
    }

    pub(crate) fn of(server: &RawServer) -> Self {
        Self::new(&server.url(), Limits::default())
    }

    pub(crate) async fn poll(&self) -> PollReply {
        self.poll_id(RawServer::TASK_ID).await
    }

    pub(crate) async fn poll_id(&self, id: &str) -> PollReply {
        let id = RemoteTaskId::parse(id).unwrap();
        self.clients.get_task(&self.target, &id, Instant::now() + SOON).await
    }

    pub(crate) async fn poll_briefly(&self) -> PollReply {
        let id = RemoteTaskId::parse(RawServer::TASK_ID).unwrap();
        self.clients.get_task(&self.target, &id, Instant::now() + PATIENCE).await
    }

    pub(crate) async fn call(&self) -> CallReply {
        self.clients.call_tool(&self.target, request("work"), Instant::now() + SOON).await
    }

    pub(crate) async fn call_briefly(&self) -> CallReply {
        self.clients.call_tool(&self.target, request("work"), Instant::now() + PATIENCE).await
    }

    pub(crate) async fn cancel(&self) -> Ack {
        let id = RemoteTaskId::parse(RawServer::TASK_ID).unwrap();
        self.clients.cancel_task(&self.target, &id, Instant::now() + SOON).await
    }
}

pub(crate) fn request(tool: &str) -> ToolRequest {
    ToolRequest {
        trace: None,
        tool: ToolName::new(tool),
        arguments: Map::new(),
        request_state: None,
        input_responses: Vec::new(),
    }
}

/// Whatever one server answers to both `tasks/get` and `tools/call`, and what the caller makes of it.
pub(crate) struct Row {
    pub(crate) server_does: &'static str,
    pub(crate) reply: Reply,
    pub(crate) poll: &'static str,
    pub(crate) call: &'static str,
}

pub(crate) fn row(server_does: &'static str, reply: Reply, poll: &'static str, call: &'static str) -> Row {
    Row { server_does, reply, poll, call }
}

/// Checks all rows with one client, which must be as good as new after each of them, and which must
/// not have sent anything twice.
pub(crate) async fn check(rows: Vec<Row>) {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    for Row { server_does, reply, poll, call } in rows {
        let sent = |method| server.requests_of(method).len();
        let before = (sent("tasks/get"), sent("tools/call"));
        server.push("tasks/get", reply.clone()).push("tools/call", reply);
        let polled = match poll {
            "timeout" => caller.poll_briefly().await,
            _ => caller.poll().await,
        };
        assert_eq!(word_of_poll(&polled), poll, "{server_does}, to tasks/get: {polled:?}");
        let called = match call {
            "timeout" => caller.call_briefly().await,
            _ => caller.call().await,
        };
        assert_eq!(word_of_call(&called), call, "{server_does}, to tools/call: {called:?}");
        let after = (sent("tasks/get"), sent("tools/call"));
        assert_eq!(after, (before.0 + 1, before.1 + 1), "{server_does}: sent more than once, or never");
        assert_eq!(word_of_poll(&caller.poll().await), "working", "after {server_does}");
    }
    assert_eq!(server.requests_of("server/discover").len(), 1, "one client is enough");
}

pub(crate) fn word_of_poll(reply: &PollReply) -> String {
    match reply {
        PollReply::Working(_) => "working".to_owned(),
        PollReply::InputRequired { .. } => "input_required".to_owned(),
        PollReply::Completed { result, .. } => match result.verdict {
            Verdict::Success => "completed".to_owned(),
            Verdict::Error => "completed with isError".to_owned(),
        },
        PollReply::Failed { .. } => "failed".to_owned(),
        PollReply::Cancelled(_) => "cancelled".to_owned(),
        PollReply::TooLarge { .. } => "too large".to_owned(),
        PollReply::Refused(refusal) => word_of_refusal(refusal),
    }
}

pub(crate) fn word_of_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Gone { .. } => "gone".to_owned(),
        Refusal::Unauthorised { .. } => "unauthorised".to_owned(),
        Refusal::Malformed { .. } => "malformed".to_owned(),
        Refusal::EndpointForbidden { .. } => "endpoint forbidden".to_owned(),
        Refusal::Transient(Trouble { detail, .. }) if is_timeout(detail) => "timeout".to_owned(),
        Refusal::Transient(Trouble { retry_after, .. }) => format!("transient{}", after(*retry_after)),
    }
}

pub(crate) fn word_of_call(reply: &CallReply) -> String {
    match reply {
        CallReply::Result(result) => match result.verdict {
            Verdict::Success => "result".to_owned(),
            Verdict::Error => "result with isError".to_owned(),
        },
        CallReply::Task { status: RemoteStatus::Working, .. } => "task".to_owned(),
        CallReply::Task { status, .. } => format!("task {}", status.as_str()),
        CallReply::InputRequired { .. } => "input_required".to_owned(),
        CallReply::Rejected(error) => format!("rejected {}", error.code),
        CallReply::NotExecuted { proof, retry_after, .. } => format!("{proof:?}{}", after(*retry_after)),
        CallReply::Unknown { detail } if is_timeout(detail) => "timeout".to_owned(),
        CallReply::Unknown { .. } => "unknown".to_owned(),
        CallReply::Malformed { .. } => "malformed".to_owned(),
        CallReply::TooLarge { .. } => "too large".to_owned(),
    }
}

fn is_timeout(detail: &str) -> bool {
    detail == "The server did not answer in time."
}

fn after(retry_after: RetryAfter) -> String {
    match retry_after {
        None => String::new(),
        Some(delay) if delay > Duration::from_secs(365 * 24 * 3600) => " after years".to_owned(),
        Some(delay) => format!(" after {delay:?}"),
    }
}
