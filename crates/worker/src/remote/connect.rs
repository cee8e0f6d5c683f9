//! Making a client: the discover lifecycle, and the older handshake where a server clearly says
//! that it knows no other.

use std::collections::BTreeMap;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, ProtocolVersion, TASKS_EXTENSION_ID,
};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient};

use crate::credentials::Bearer;

use super::failure::status_of;
use super::oversized::Oversized;
use super::progress::{Handler, Listeners};
use super::transport::PostOnly;
use super::words::discovery_status;
use super::{Limits, Target};

/// A connected client. The SDK closes it when it is dropped.
#[derive(Debug)]
pub(super) struct Client {
    service: RunningService<RoleClient, Handler>,
    listeners: Listeners,
    oversized: Oversized,
    bearer: Option<Bearer>,
}

impl Client {
    /// What it shows with every request.
    pub(super) fn bearer(&self) -> Option<&Bearer> {
        self.bearer.as_ref()
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(super) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    pub(super) fn oversized(&self) -> &Oversized {
        &self.oversized
    }
}

/// Connects. The caller bounds the time.
pub(super) async fn connect(
    http: &PostOnly,
    target: &Target,
    bearer: Option<&Bearer>,
    limits: &Limits,
) -> Result<Client, Box<ClientInitializeError>> {
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    match serve(http, target, bearer, limits, discover).await {
        // Such a server has no tasks, but its tools may well answer at once.
        Err(error) if knows_no_discovery(&error) => {
            serve(http, target, bearer, limits, ClientLifecycleMode::Initialize).await
        }
        result => result,
    }
    .map_err(Box::new)
}

async fn serve(
    http: &PostOnly,
    target: &Target,
    bearer: Option<&Bearer>,
    limits: &Limits,
    mode: ClientLifecycleMode,
) -> Result<Client, ClientInitializeError> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(target.url.clone());
    config.max_concurrent_requests = limits.max_concurrent_requests;
    config.max_json_response_size = limits.response_bytes;
    config.max_sse_event_size = limits.response_bytes;
    // Recovery posts an interrupted tools/call a second time, by itself.
    config.reinit_on_expired_session = false;
    let http = http.for_one_client(bearer.cloned());
    let oversized = http.oversized();
    let transport = StreamableHttpClientTransport::with_client(http, config);

    let mut capabilities = ClientCapabilities::default();
    capabilities.extensions = Some(BTreeMap::from([(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new())]));
    let us = Implementation::new("david-tasks", env!("CARGO_PKG_VERSION"));
    let listeners = Listeners::default();
    let handler = Handler { config: ClientConfig::new(capabilities, us), listeners: listeners.clone() };
    let service = handler.serve_with_lifecycle(transport, mode).await?;
    Ok(Client { service, listeners, oversized, bearer: bearer.cloned() })
}

/// Only a plain "no such method", 404 or 405 means an older server; anything else may be a current
/// one in trouble, and falling back would hide its tasks.
fn knows_no_discovery(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            error.code == ErrorCode::METHOD_NOT_FOUND
                || matches!(discovery_status(&error.message), Some(404 | 405))
        }
        ClientInitializeError::TransportError { error, .. } => {
            matches!(status_of(error.error.as_ref()), Some(404 | 405))
        }
        _ => false,
    }
}
