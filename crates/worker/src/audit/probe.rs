//! Calls of the audit: the worker's own, within the audit's time.

use std::time::Duration;

use anyhow::bail;
use david_reconciler::{
    Ack, Answer, CallReply, InputKey, PollReply, Refusal, RegistrationId, RemoteState, RemoteTaskId, ToolName,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::gate::Doubt;
use super::seen;
use crate::remote::{Access, Clients, Limits, ServerFacts, Target, ToolRequest};

/// The longest that one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// Between two polls of a task.
const PAUSE: Duration = Duration::from_millis(50);

/// One server under audit.
pub(super) struct Probe {
    clients: Clients,
    target: Target,
    /// When the audit is over, whatever has been seen by then.
    ends: Instant,
    /// What the server says of itself.
    pub(super) facts: ServerFacts,
}

impl Probe {
    /// Reaches the server, or fails clearly.
    pub(super) async fn reach(url: &str, ends: Instant) -> anyhow::Result<Self> {
        let target = Target {
            registration_id: RegistrationId::new("sdk-audit"),
            url: url.to_owned(),
            credential: None,
        };
        let clients = Clients::new(Limits::default(), Access::default())?;
        match clients.facts(&target, (Instant::now() + REQUEST).min(ends)).await {
            Ok(facts) => Ok(Self { clients, target, ends, facts }),
            Err(refusal) => bail!(
                "{url} cannot be audited: {} (is it an MCP endpoint, such as http://127.0.0.1:8080/mcp?)",
                seen::refusal(&refusal)
            ),
        }
    }

    /// The same server through connections of its own.
    pub(super) fn stranger(&self) -> Result<Self, Doubt> {
        let clients = Clients::new(Limits::default(), Access::default())
            .map_err(|error| Doubt::Untried(error.to_string()))?;
        Ok(Self { clients, target: self.target.clone(), ends: self.ends, facts: self.facts.clone() })
    }

    /// Calls a tool, if the server has it: the names may mean anything there.
    pub(super) async fn call(&self, request: ToolRequest) -> Result<CallReply, Doubt> {
        if !self.facts.tools.contains(&request.tool) {
            return Err(Doubt::Untried(format!("The server has no tool {}.", request.tool)));
        }
        Ok(self.clients.call_tool(&self.target, request, self.deadline()).await)
    }

    /// Creates a task, or says why that cannot be tried here.
    pub(super) async fn create(&self, tool: &str, arguments: Value) -> Result<RemoteState, Doubt> {
        match self.call(request(tool, arguments)).await? {
            CallReply::Task { state, .. } => Ok(state),
            CallReply::Malformed { detail } => {
                Err(Doubt::Disproved(format!("The reply to tool {tool} breaks the protocol: {detail}")))
            }
            other => Err(Doubt::Untried(format!("Tool {tool} makes no task here: {}", seen::call(&other)))),
        }
    }

    pub(super) async fn poll(&self, id: &RemoteTaskId) -> PollReply {
        self.clients.get_task(&self.target, id, self.deadline()).await
    }

    pub(super) async fn cancel(&self, id: &RemoteTaskId) -> Ack {
        self.clients.cancel_task(&self.target, id, self.deadline()).await
    }

    pub(super) async fn answer(&self, id: &RemoteTaskId, answers: &[Answer]) -> Ack {
        self.clients.update_task(&self.target, id, answers, self.deadline()).await
    }

    /// Polls until the status is not `working`.
    pub(super) async fn until_news(&self, id: &RemoteTaskId) -> Result<PollReply, Doubt> {
        self.until(id, self.ends, |reply| !matches!(reply, PollReply::Working(_))).await
    }

    /// Polls until the task has ended.
    pub(super) async fn until_terminal(&self, id: &RemoteTaskId) -> Result<PollReply, Doubt> {
        let goes_on =
            |reply: &PollReply| matches!(reply, PollReply::Working(_) | PollReply::InputRequired { .. });
        self.until(id, self.ends, |reply| !goes_on(reply)).await
    }

    /// Polls until the server does not know the task, at most until `give_up`.
    pub(super) async fn until_gone(&self, id: &RemoteTaskId, give_up: Instant) -> Result<PollReply, Doubt> {
        self.until(id, give_up, |reply| matches!(reply, PollReply::Refused(Refusal::Gone { .. }))).await
    }

    async fn until(
        &self,
        id: &RemoteTaskId,
        give_up: Instant,
        enough: impl Fn(&PollReply) -> bool,
    ) -> Result<PollReply, Doubt> {
        loop {
            let reply = self.poll(id).await;
            match &reply {
                PollReply::Refused(Refusal::Malformed { .. }) => {
                    return Err(Doubt::Disproved(seen::poll(&reply)));
                }
                // It may pass, and is no news of the task.
                PollReply::Refused(Refusal::Transient(_)) => {}
                news if enough(news) => return Ok(reply),
                _ => {}
            }
            if Instant::now() >= give_up.min(self.ends) {
                let last = seen::poll(&reply);
                return Err(Doubt::Disproved(format!("The task did not get anywhere in time: {last}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn deadline(&self) -> Instant {
        (Instant::now() + REQUEST).min(self.ends)
    }
}

/// What the audit answers to every question.
pub(super) const ANSWER: &str = "audited";

pub(super) fn request(tool: &str, arguments: Value) -> ToolRequest {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    ToolRequest {
        tool: ToolName::new(tool),
        arguments,
        request_state: None,
        input_responses: Vec::new(),
        trace: None,
    }
}

/// An accepted form for every question.
pub(super) fn answers(requests: &[(InputKey, Value)]) -> Vec<Answer> {
    let response = serde_json::json!({ "action": "accept", "content": { "answer": ANSWER } });
    requests.iter().map(|(key, _)| Answer { key: key.clone(), response: response.clone() }).collect()
}
