//! reqwest as the SDK's HTTP client, less one thing: no `GET` streams. It watches two: that a handshake
//! ends, and that a stream stays under the cap. And it adds one: the bearer token, anew to every POST.
//!
//! We never listen, and a server that ends its streams with `retry: 0` would make the SDK
//! reconnect some 850 times a second. `NeverRetry` does not stop that; having no streams does.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use crate::credentials::{Bearer, CredentialError, Token};
use crate::endpoint_policy::EndpointPolicy;

use super::Limits;
use super::failure::refuses_credential;
use super::oversized::{Oversized, request_id};
use super::resolver::Guarded;

type Error = StreamableHttpError<reqwest::Error>;
type SseStream = BoxStream<'static, Result<sse_stream::Sse, SseError>>;

/// POSTs only.
#[derive(Debug, Clone)]
pub(super) struct PostOnly {
    http: reqwest::Client,
    handshake_timeout: Duration,
    oversized: Oversized,
    bearer: Option<Bearer>,
}

impl PostOnly {
    /// One pool of connections for all servers. Redirects are not followed (they could lead
    /// anywhere), and the environment's proxies are not used (they could see everything).
    pub(super) fn new(limits: &Limits, endpoints: Option<EndpointPolicy>) -> Result<Self, reqwest::Error> {
        // An error says that the process has one already, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(limits.connect_timeout)
            .read_timeout(limits.read_timeout)
            .tcp_nodelay(true);
        if let Some(endpoints) = endpoints {
            client = client.dns_resolver(Arc::new(Guarded(endpoints)));
        }
        Ok(Self {
            http: client.build()?,
            handshake_timeout: limits.handshake_timeout,
            oversized: Oversized::default(),
            bearer: None,
        })
    }

    /// The same pool for one more client, whose request ids and credential are its own.
    pub(super) fn for_one_client(&self, bearer: Option<Bearer>) -> Self {
        Self { oversized: Oversized::default(), bearer, ..self.clone() }
    }

    /// The requests of this client that were answered by an event over the cap.
    pub(super) fn oversized(&self) -> Oversized {
        self.oversized.clone()
    }

    /// Sends with the present token; and once more with another, when the server refuses the present
    /// one and its source has another by now. A refused credential proves that nothing was executed.
    async fn authorised<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let Some(bearer) = &self.bearer else { return send(None).await };
        let header = |token: &Token| Some(token.expose().to_owned());
        let token = bearer.token().await.map_err(no_credential)?;
        match send(header(&token)).await {
            Err(refusal) if refuses_credential(&refusal) => {
                match bearer.other_than(&token).await.map_err(no_credential)? {
                    Some(other) => send(header(&other)).await,
                    None => Err(refusal),
                }
            }
            reply => reply,
        }
    }

    /// A handshake that is given up leaves its POST behind, for as long as a server may be silent; so
    /// the POST ends by itself.
    fn post_timeout(&self, message: &ClientJsonRpcMessage) -> Option<Duration> {
        match message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::DiscoverRequest(_) | ClientRequest::InitializeRequest(_) => {
                    Some(self.handshake_timeout)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// Taken out again in [`super::failure`].
fn no_credential(error: CredentialError) -> Error {
    StreamableHttpError::Io(io::Error::other(error))
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
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let (request, timeout) = (request_id(&message), self.post_timeout(&message));
        if self.bearer.is_none() && timeout.is_none() {
            // Most of what is sent: nothing to copy for a second try.
            let http = &self.http;
            let post = http.post_message_with_response_limits(
                uri,
                message,
                session_id,
                None,
                custom_headers,
                limits,
            );
            return Ok(self.oversized.watch(request, post.await?));
        }
        let post = self.authorised(move |token| {
            self.http.post_message_with_response_limits(
                Arc::clone(&uri),
                message.clone(),
                session_id.clone(),
                token,
                custom_headers.clone(),
                limits,
            )
        });
        let reply = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, post)
                .await
                .unwrap_or_else(|_elapsed| Err(StreamableHttpError::Io(io::ErrorKind::TimedOut.into())))?,
            None => post.await?,
        };
        Ok(self.oversized.watch(request, reply))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.authorised(move |token| {
            self.http.delete_session(Arc::clone(&uri), Arc::clone(&session_id), token, custom_headers.clone())
        })
        .await
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
