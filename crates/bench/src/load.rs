//! The MCP server under load: the SDK's server side over a map of tasks.
//!
//! The SDK's own task manager looks through all its tasks at every request, so with ten thousand of them it
//! would be the server, and nothing else, that is measured.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult, Implementation, ServerCapabilities,
    ServerConfig, Task, TaskPayload, TaskStatus,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};

/// What the tasks ask for, in milliseconds, unless the call says otherwise.
const POLL_INTERVAL: u64 = 1000;

#[derive(Debug, Default)]
struct Tasks {
    entries: RwLock<HashMap<String, Entry>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    completes: Instant,
    poll_interval: u64,
    gets: AtomicU64,
}

#[derive(Debug, Clone, Default)]
struct Handler(Arc<Tasks>);

/// Serves until it is killed, and says where.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    let handler = Handler::default();
    let tasks = Arc::clone(&handler.0);
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let mcp: StreamableHttpService<Handler, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(handler.clone()), Default::default(), config);
    let gets = async move || json!({ "gets": tasks.gets() }).to_string();
    axum::serve(listener, Router::new().nest_service("/mcp", mcp).route("/ledger", get(gets))).await?;
    Ok(())
}

impl Tasks {
    fn gets(&self) -> BTreeMap<String, u64> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|(id, entry)| (id.clone(), entry.gets.load(Ordering::Relaxed))).collect()
    }

    fn create(&self, life: Duration, poll_interval: u64) -> Task {
        // Not to be taken for another server's.
        let id = format!("load-{:016x}", self.next.fetch_add(1, Ordering::Relaxed));
        let entry = Entry { completes: Instant::now() + life, poll_interval, gets: AtomicU64::new(0) };
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), entry);
        described(&id, poll_interval)
    }

    fn look(&self, id: &str) -> Option<DetailedTask> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(id)?;
        entry.gets.fetch_add(1, Ordering::Relaxed);
        let payload = if Instant::now() < entry.completes {
            TaskPayload::Working
        } else {
            let result = json!({ "content": [{ "type": "text", "text": "done" }], "isError": false });
            TaskPayload::Completed { result: result.as_object().cloned().unwrap_or_default() }
        };
        Some(DetailedTask::new(described(id, entry.poll_interval), payload))
    }
}

fn described(id: &str, poll_interval: u64) -> Task {
    let at = "2026-07-28T00:00:00Z";
    Task::new(id, TaskStatus::Working, at, at).with_poll_interval_ms(poll_interval)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(Implementation::new("david-load", env!("CARGO_PKG_VERSION")))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "sync" {
            return Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into());
        }
        let argument = |name| request.arguments.as_ref().and_then(|arguments| arguments.get(name));
        let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or_default();
        let interval = argument("poll_interval_ms").and_then(Value::as_u64).unwrap_or(POLL_INTERVAL);
        let task = self.0.create(Duration::from_secs_f64(seconds.max(0.0)), interval);
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.0.look(&request.task_id);
        Ok(GetTaskResult::new(task.ok_or_else(|| ErrorData::invalid_params("unknown task", None))?))
    }

    async fn cancel_task(
        &self,
        _request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}
