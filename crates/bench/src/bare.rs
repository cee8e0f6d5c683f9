//! The bare SDK: what a poll or a call costs without anything durable around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, GetTaskParams, Implementation,
    ProtocolVersion, TASKS_EXTENSION_ID,
};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::{Value, json};

/// A connected client of the SDK.
pub(crate) struct Bare(RunningService<RoleClient, ClientConfig>);

fn http() -> reqwest::Result<reqwest::Client> {
    // An error says that the process has one already, which serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        Self::connect_with(http()?, url).await
    }

    async fn connect_with(http: reqwest::Client, url: &str) -> anyhow::Result<Self> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
        config.max_concurrent_requests = 4096;
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new())].into());
        let us = Implementation::new("bare", "1");
        let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        let client = ClientConfig::new(capabilities, us).serve_with_lifecycle(transport, mode).await?;
        Ok(Self(client))
    }

    /// So many of them, which share their connections, each used once.
    pub(crate) async fn several(url: &str, count: usize, concurrency: usize) -> anyhow::Result<Vec<Self>> {
        let http = http()?;
        let connects = (0..count).map(|_| async {
            let client = Self::connect_with(http.clone(), url).await?;
            client.0.call_tool_once(call("sync", json!({ "seconds": 0 }))).await?;
            Ok(client)
        });
        let clients: Vec<anyhow::Result<_>> =
            futures::stream::iter(connects).buffered(concurrency).collect().await;
        clients.into_iter().collect()
    }

    /// Makes tasks, `concurrency` at a time; their ids, and when each was made.
    pub(crate) async fn create(
        &self,
        arguments: Vec<Value>,
        concurrency: usize,
    ) -> anyhow::Result<Vec<(String, std::time::SystemTime)>> {
        let calls = arguments.into_iter().map(|arguments| async move {
            match self.0.call_tool_once(call("work", arguments)).await? {
                CallToolResponse::Task(created) => {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "compared with the database's clock on the same machine"
                    )]
                    let now = std::time::SystemTime::now();
                    Ok((created.task.task_id.clone(), now))
                }
                other => bail!("the server made no task: {other:?}"),
            }
        });
        let made: Vec<anyhow::Result<_>> = futures::stream::iter(calls).buffered(concurrency).collect().await;
        made.into_iter().collect()
    }

    /// Polls tasks round and round, `concurrency` at a time, for `time`: polls per second.
    pub(crate) async fn polls(
        &self,
        ids: &[String],
        concurrency: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let ids: Arc<[String]> = ids.into();
        self.rate(concurrency, time, |peer, number| {
            let id = ids.get(number % ids.len()).cloned().unwrap_or_default();
            async move { peer.get_task(GetTaskParams::new(id)).await.map(|_| ()) }
        })
        .await
    }

    /// Calls a tool that answers at once: calls per second.
    pub(crate) async fn calls(&self, concurrency: usize, time: Duration) -> anyhow::Result<f64> {
        self.rate(concurrency, time, |peer, _| async move {
            peer.call_tool_once(call("sync", json!({ "seconds": 0 }))).await.map(|_| ())
        })
        .await
    }

    async fn rate<F, R>(&self, concurrency: usize, time: Duration, request: F) -> anyhow::Result<f64>
    where
        F: Fn(rmcp::Peer<RoleClient>, usize) -> R,
        R: Future<Output = Result<(), rmcp::ServiceError>>,
    {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let began = Instant::now();
        let loops = (0..concurrency).map(|_| async {
            while began.elapsed() < time {
                request(self.0.peer().clone(), next.fetch_add(1, Ordering::Relaxed)).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, rmcp::ServiceError>(())
        });
        futures::future::try_join_all(loops).await.context("the server did not answer the bare SDK")?;
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        Ok(done.into_inner() as f64 / began.elapsed().as_secs_f64())
    }
}

fn call(tool: &str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool.to_owned())
        .with_arguments(arguments.as_object().cloned().unwrap_or_default())
}
