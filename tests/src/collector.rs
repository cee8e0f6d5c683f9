//! An OTLP receiver: takes spans in over HTTP, and remembers them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

/// A running receiver; it ends with the test's runtime.
#[derive(Debug, Clone)]
pub struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// When there is none.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let received = Arc::clone(&spans);
        let take = async move |body: Bytes| {
            let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
            let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            let mut spans = received.lock().unwrap_or_else(PoisonError::into_inner);
            spans.extend(scopes.flat_map(|scope| scope.spans));
            StatusCode::OK
        };
        let router = Router::new().route("/v1/traces", post(take));
        drop(tokio::spawn(async move { axum::serve(listener, router).await }));
        Ok(Self { url, spans })
    }

    /// Its base URL, for `--otlp-endpoint`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What has arrived so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
