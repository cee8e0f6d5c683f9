//! Calls of the audit: the worker's own, with a limit.

use std::time::Duration;

use anyhow::bail;
use david_reconciler::{
    Ack, Answer, CallReply, InputKey, NotExecuted, PollReply, Refusal, RegistrationId, RemoteState,
    RemoteStatus, RemoteTaskId, ToolName,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::gate::Doubt;
use crate::remote::{Clients, Limits, Target, ToolRequest};

/// Between two polls of a task.
const PAUSE: Duration = Duration::from_millis(100);

/// One server under audit.
pub(super) struct Probe {
    clients: Clients,
    target: Target,
    limit: Duration,
}

impl Probe {
    pub(super) fn new(url: &str, limit: Duration) -> anyhow::Result<Self> {
        let target = Target { registration_id: RegistrationId::new("sdk-audit"), url: url.to_owned() };
        Ok(Self { clients: Clients::new(Limits::default())?, target, limit })
    }

    /// The same server through connections of its own.
    pub(super) fn stranger(&self) -> Result<Self, Doubt> {
        Self::new(&self.target.url, self.limit).map_err(|error| Doubt::Untried(format!("{error:#}")))
    }

    /// Fails early and clearly when there is no server.
    pub(super) async fn reach(&self) -> anyhow::Result<()> {
        match self.call("work", serde_json::json!({ "seconds": 0 })).await {
            CallReply::NotExecuted { proof: NotExecuted::NeverSent, detail, .. } => {
                bail!(
                    "{} cannot be audited: {detail} (is it an MCP endpoint, such as http://127.0.0.1:8080/mcp?)",
                    self.target.url
                )
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> CallReply {
        self.send(request(tool, arguments)).await
    }

    pub(super) async fn send(&self, request: ToolRequest) -> CallReply {
        self.clients.call_tool(&self.target, request, Instant::now() + self.limit).await
    }

    /// Creates a task, or says why that cannot be tried here.
    pub(super) async fn create(&self, tool: &str, arguments: Value) -> Result<RemoteState, Doubt> {
        match self.call(tool, arguments).await {
            CallReply::Task { state, .. } => Ok(state),
            CallReply::Result(_) => {
                Err(Doubt::Untried(format!("The server's tool {tool} answers at once, without a task.")))
            }
            other => Err(Doubt::Untried(format!("The server has no usable tool {tool}: {other:?}"))),
        }
    }

    pub(super) async fn poll(&self, id: &RemoteTaskId) -> PollReply {
        self.clients.get_task(&self.target, id, Instant::now() + self.limit).await
    }

    pub(super) async fn cancel(&self, id: &RemoteTaskId) -> Ack {
        self.clients.cancel_task(&self.target, id, Instant::now() + self.limit).await
    }

    pub(super) async fn answer(&self, id: &RemoteTaskId, keys: &[InputKey]) -> Ack {
        self.clients.update_task(&self.target, id, &answers(keys), Instant::now() + self.limit).await
    }

    /// Polls until the status is not `working`.
    pub(super) async fn until_news(&self, id: &RemoteTaskId) -> Result<PollReply, Doubt> {
        self.until(id, |reply| !matches!(reply, PollReply::Working(_))).await
    }

    /// Polls until the task has ended.
    pub(super) async fn until_terminal(&self, id: &RemoteTaskId) -> Result<PollReply, Doubt> {
        self.until(id, |reply| !matches!(reply, PollReply::Working(_) | PollReply::InputRequired { .. }))
            .await
    }

    async fn until(
        &self,
        id: &RemoteTaskId,
        enough: impl Fn(&PollReply) -> bool,
    ) -> Result<PollReply, Doubt> {
        let give_up = Instant::now() + self.limit;
        loop {
            let reply = self.poll(id).await;
            match &reply {
                PollReply::Refused(Refusal::Malformed { detail }) => {
                    return Err(Doubt::Disproved(detail.clone()));
                }
                reply if enough(reply) => break,
                _ if Instant::now() > give_up => {
                    return Err(Doubt::Disproved(format!(
                        "The task did not get anywhere in {:?}.",
                        self.limit
                    )));
                }
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
        Ok(self.poll(id).await)
    }
}

pub(super) fn request(tool: &str, arguments: Value) -> ToolRequest {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    ToolRequest { tool: ToolName::new(tool), arguments, request_state: None, input_responses: Vec::new() }
}

/// A form that is accepted, for every question.
pub(super) fn answers(keys: &[InputKey]) -> Vec<Answer> {
    let response = serde_json::json!({ "action": "accept", "content": { "answer": "audited" } });
    keys.iter().map(|key| Answer { key: key.clone(), response: response.clone() }).collect()
}

/// The status a reply shows.
pub(super) fn status_of(reply: &PollReply) -> Option<RemoteStatus> {
    match reply {
        PollReply::Working(_) => Some(RemoteStatus::Working),
        PollReply::InputRequired { .. } => Some(RemoteStatus::InputRequired),
        PollReply::Completed { .. } => Some(RemoteStatus::Completed),
        PollReply::Failed { .. } => Some(RemoteStatus::Failed),
        PollReply::Cancelled(_) => Some(RemoteStatus::Cancelled),
        PollReply::Refused(_) | PollReply::TooLarge { .. } => None,
    }
}
