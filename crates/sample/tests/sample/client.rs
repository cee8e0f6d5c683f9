//! The SDK's client, connected the way the worker connects.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, CreateTaskResult,
    DetailedTask, GetTaskParams, Implementation, ProtocolVersion, TASKS_EXTENSION_ID, TaskPayload,
};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::Value;

pub(crate) type Client = RunningService<RoleClient, ClientConfig>;

/// Whether the client says it understands tasks.
pub(crate) enum Tasks {
    Declared,
    Undeclared,
}

pub(crate) async fn connect(url: &str, tasks: Tasks) -> Client {
    // Fails when another test has installed it already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
    let mut capabilities = ClientCapabilities::default();
    if let Tasks::Declared = tasks {
        capabilities.extensions = Some(BTreeMap::from([(TASKS_EXTENSION_ID.to_owned(), Default::default())]));
    }
    ClientConfig::new(capabilities, Implementation::new("test", "1"))
        .serve_with_lifecycle(
            StreamableHttpClientTransport::with_client(http, config),
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        )
        .await
        .unwrap()
}

pub(crate) fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
}

pub(crate) async fn call(
    client: &Client,
    tool: &'static str,
    arguments: Value,
) -> Result<CallToolResponse, ServiceError> {
    client.peer().call_tool_once(request(tool, arguments)).await
}

pub(crate) async fn create(client: &Client, tool: &'static str, arguments: Value) -> CreateTaskResult {
    match call(client, tool, arguments).await.unwrap() {
        CallToolResponse::Task(created) => created,
        other => panic!("{tool} should make a task: {other:?}"),
    }
}

pub(crate) async fn get(client: &Client, id: &str) -> Result<DetailedTask, ServiceError> {
    client.peer().get_task(GetTaskParams::new(id)).await.map(|got| got.task)
}

/// Polls until `wanted` says yes.
pub(crate) async fn poll(client: &Client, id: &str, wanted: impl Fn(&DetailedTask) -> bool) -> DetailedTask {
    let polling = async {
        loop {
            let task = get(client, id).await.unwrap();
            if wanted(&task) {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), polling).await.expect("the task does not get there")
}

pub(crate) async fn finish(client: &Client, id: &str) -> TaskPayload {
    poll(client, id, |task| task.status().is_terminal()).await.payload
}

/// Polls until the server does not know the task, and returns the error's code.
pub(crate) async fn forgotten(client: &Client, id: &str) -> i32 {
    let polling = async {
        loop {
            match get(client, id).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => return code(&error),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), polling).await.expect("the server does not forget")
}

pub(crate) fn code(error: &ServiceError) -> i32 {
    match error {
        ServiceError::McpError(error) => error.code.0,
        other => panic!("not a JSON-RPC error: {other:?}"),
    }
}
