//! reqwest as the SDK's HTTP client, less one thing: no `GET` streams.
//!
//! We never listen, and a server that ends its streams with `retry: 0` would make the SDK
//! reconnect some 850 times a second. `NeverRetry` does not stop that; having no streams does.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use super::Limits;

type Error = StreamableHttpError<reqwest::Error>;
type SseStream = BoxStream<'static, Result<sse_stream::Sse, SseError>>;

/// POSTs only.
#[derive(Debug, Clone)]
pub(super) struct PostOnly(reqwest::Client);

impl PostOnly {
    /// One pool of connections for all servers. Redirects are not followed (they could lead
    /// anywhere), and the environment's proxies are not used (they could see everything).
    pub(super) fn new(limits: &Limits) -> Result<Self, reqwest::Error> {
        // An error says that the process has one already, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(limits.connect_timeout)
            .read_timeout(limits.read_timeout)
            .tcp_nodelay(true)
            .build()?;
        Ok(Self(client))
    }
}

impl StreamableHttpClient for PostOnly {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.0.post_message(uri, message, session_id, auth_header, custom_headers).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.0
            .post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.0.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<SseStream, Error> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
