//! Where spans go: to an OTLP endpoint, in batches, over HTTP.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

/// What the traces' path is below an endpoint, as OTLP says.
const PATH: &str = "v1/traces";

/// How long one batch may take to be taken in.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of the process waits for the last one.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExporterError {
    /// The HTTP client, for want of trusted certificates for example.
    #[error("the HTTP client for --otlp-endpoint cannot be set up")]
    Client(#[source] reqwest::Error),
    /// The exporter.
    #[error("--otlp-endpoint cannot be used")]
    Exporter(#[source] opentelemetry_otlp::ExporterBuildError),
}

/// Exports spans for as long as the process lives.
pub(crate) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// To `endpoint`, the base URL of a collector. `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
    /// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER` and `OTEL_BSP_*` are read as OpenTelemetry says.
    ///
    /// # Errors
    /// See [`ExporterError`].
    pub(crate) fn new(endpoint: &url::Url, runtime: Handle) -> Result<Self, ExporterError> {
        let client = Client::new(runtime).map_err(ExporterError::Client)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(PATIENCE)
            .with_endpoint(format!("{}/{PATH}", endpoint.as_str().trim_end_matches('/')))
            .build()
            .map_err(ExporterError::Exporter)?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("david-tasks");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self(provider))
    }

    /// What makes spans.
    pub(crate) fn tracer(&self) -> SdkTracer {
        self.0.tracer(env!("CARGO_PKG_NAME"))
    }

    /// Sends what has gathered. The runtime must still run.
    pub(crate) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_PATIENCE) {
            tracing::warn!(error = error.to_string(), "the last spans may not have been exported");
        }
    }
}

/// Sends on the process's runtime: the exporter has a thread of its own, without one.
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    fn new(runtime: Handle) -> Result<Self, reqwest::Error> {
        // An error says that the process has one already, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .build()?;
        Ok(Self { http, runtime })
    }
}

impl HttpClient for Client {
    fn send_bytes<'client, 'sent>(
        &'client self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'client: 'sent,
        Self: 'sent,
    {
        let http = self.http.clone();
        let sending = self.runtime.spawn(async move {
            let request = reqwest::Request::try_from(request)?;
            let mut response = http.execute(request).await?;
            let headers = std::mem::take(response.headers_mut());
            let mut answer = Response::builder().status(response.status()).body(response.bytes().await?)?;
            *answer.headers_mut() = headers;
            Ok::<_, HttpError>(answer)
        });
        Box::pin(async move {
            let answer = sending.await.map_err(HttpError::from).and_then(|answer| answer);
            match &answer {
                Ok(answer) if !answer.status().is_success() => tracing::warn!(
                    http.status = answer.status().as_u16(),
                    "the OTLP endpoint did not take spans in"
                ),
                Ok(_) => {}
                // Not the error itself: it repeats the URL, in which there may be a key.
                Err(_) => tracing::warn!("the OTLP endpoint cannot be reached; spans are lost"),
            }
            answer
        })
    }
}
