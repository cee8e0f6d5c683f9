//! Three sample MCP servers, each a process of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use david_reconciler::{CallReply, RegistrationId, RemoteTaskId, ToolName};
use david_tasks::remote::{Access, Clients, Limits, Target, ToolRequest};
use david_testkit::{Replica, eventually};
use serde_json::Value;

use crate::plan::Planned;

const COUNT: usize = 3;

pub(crate) struct Servers {
    processes: Vec<Replica>,
    urls: Vec<String>,
    clients: Clients,
}

impl Servers {
    pub(crate) async fn start(testkit: &Path) -> anyhow::Result<Self> {
        let mut processes = Vec::new();
        let mut urls = Vec::new();
        for _ in 0..COUNT {
            let process = Replica::command(testkit, "").arg("mcp-server").start()?;
            urls.push(url_of(&process).await?);
            processes.push(process);
        }
        Ok(Self { processes, urls, clients: Clients::new(Limits::default(), Access::default())? })
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Makes the call of an Action that is to be adopted, as Core would.
    pub(crate) async fn create_task(&self, planned: &Planned) -> anyhow::Result<RemoteTaskId> {
        let url = self.urls.get(planned.server).context("no such server")?;
        let target =
            Target { registration_id: RegistrationId::new("demo"), url: url.clone(), credential: None };
        let request = ToolRequest {
            trace: None,
            tool: ToolName::new(planned.tool),
            arguments: planned.arguments.as_object().cloned().unwrap_or_default(),
            request_state: None,
            input_responses: Vec::new(),
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        match self.clients.call_tool(&target, request, deadline).await {
            CallReply::Task { state, .. } => Ok(state.id),
            other => anyhow::bail!("the sample server made no task: {other:?}"),
        }
    }

    /// How often each key was called, over all servers.
    pub(crate) async fn calls(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut calls = BTreeMap::new();
        for url in &self.urls {
            let ledger =
                reqwest::get(url.replace("/mcp", "/ledger")).await?.error_for_status()?.text().await?;
            let ledger: Value = serde_json::from_str(&ledger).context("a server's ledger cannot be read")?;
            let keys =
                ledger.get("keys").and_then(Value::as_object).context("a server's ledger has no keys")?;
            for (key, count) in keys {
                *calls.entry(key.clone()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        Ok(calls)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Their drop kills them.
        self.processes.clear();
    }
}

async fn url_of(process: &Replica) -> anyhow::Result<String> {
    eventually(Duration::from_secs(10), "a sample server says its URL", async || {
        let logs = process.logs();
        let url = logs.split_whitespace().find(|word| word.starts_with("http://"));
        url.map(str::to_owned).ok_or(logs.clone())
    })
    .await
}
