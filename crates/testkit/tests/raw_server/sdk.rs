//! Through the SDK's client.

use std::collections::BTreeMap;
use std::time::Duration;

use david_testkit::{RawServer, Reply, eventually};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
    GetTaskParams, Implementation, ProtocolVersion, TASKS_EXTENSION_ID, TaskStatus,
};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::json;

const SOON: Duration = Duration::from_secs(5);

async fn connect(server: &RawServer, mode: ClientLifecycleMode) -> RunningService<RoleClient, ClientConfig> {
    // Fails when another test has installed it already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut capabilities = ClientCapabilities::default();
    capabilities.extensions = Some(BTreeMap::from([(TASKS_EXTENSION_ID.to_owned(), Default::default())]));
    ClientConfig::new(capabilities, Implementation::new("test", "1"))
        .serve_with_lifecycle(
            StreamableHttpClientTransport::with_client(
                http,
                StreamableHttpClientTransportConfig::with_uri(server.url()),
            ),
            mode,
        )
        .await
        .unwrap()
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

#[tokio::test]
async fn without_instructions_it_is_a_correct_server_with_one_working_task() {
    let server = RawServer::start().await.unwrap();
    let client = connect(&server, discover()).await;
    assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
    let CallToolResponse::Task(created) =
        client.call_tool_once(CallToolRequestParams::new("work")).await.unwrap()
    else {
        panic!("no task")
    };
    assert_eq!(created.task.task_id, RawServer::TASK_ID);
    let got = client.peer().get_task(GetTaskParams::new("any-id")).await.unwrap();
    assert_eq!((got.task.status(), got.task.task.task_id.as_str()), (TaskStatus::Working, "any-id"));
    client.peer().cancel_task(CancelTaskParams::new("any-id")).await.unwrap();
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["server/discover", "tools/list", "tools/call", "tasks/get", "tasks/cancel"]);
    let get = &server.requests_of("tasks/get")[0];
    assert_eq!((get.header("mcp-method"), get.header("mcp-name")), (Some("tasks/get"), Some("any-id")));
}

#[tokio::test]
async fn the_older_handshake_works_as_well() {
    let server = RawServer::start().await.unwrap();
    server.on("tools/call", Reply::Result(json!({ "content": [] })));
    let client = connect(&server, ClientLifecycleMode::Initialize).await;
    client.call_tool_once(CallToolRequestParams::new("work")).await.unwrap();
    server.wait_for("notifications/initialized", 1, SOON).await.unwrap();
}

#[tokio::test]
async fn an_event_stream_delivers_a_result() {
    let server = RawServer::start().await.unwrap();
    let event = r#"data: {"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}"#;
    server.on(
        "tools/call",
        Reply::Sse { chunks: vec![format!("{event}\n\n")], end: david_testkit::raw_server::SseEnd::Close },
    );
    let client = connect(&server, discover()).await;
    let answer = client.call_tool_once(CallToolRequestParams::new("work")).await.unwrap();
    assert!(matches!(answer, CallToolResponse::Complete(_)));
}

#[tokio::test]
async fn a_call_that_the_client_gives_up_is_no_longer_in_flight_and_nothing_is_sent_about_it() {
    let server = RawServer::start().await.unwrap();
    server.on("tools/call", Reply::Hang);
    let client = connect(&server, discover()).await;
    let call = client.call_tool_once(CallToolRequestParams::new("work"));
    tokio::select! {
        answer = call => panic!("answered: {answer:?}"),
        arrived = server.wait_for("tools/call", 1, SOON) => drop(arrived.unwrap()),
    }
    eventually(SOON, "the call is given up", async || match server.in_flight("tools/call") {
        0 => Ok(()),
        some => Err(format!("{some} in flight")),
    })
    .await
    .unwrap();
    client.cancel().await.unwrap();
    assert_eq!(server.requests().len(), 2, "{:?}", server.requests());
}
