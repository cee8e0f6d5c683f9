//! Which requests were answered by an event over the cap.
//!
//! The SDK ends such a stream and tells the request no more than that its reply is lost. A lost poll is
//! asked for again, and would be as large again; so the stream is watched, and what it says is kept
//! until the request asks.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt as _, TryStreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpPostResponse};

use super::words::says_event_too_large;

/// The requests of one client: ids are its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Oversized(Arc<Mutex<HashSet<RequestId>>>);

impl Oversized {
    /// Whether that is what became of the request, which is forgotten thereby.
    pub(super) fn take(&self, id: &RequestId) -> bool {
        self.lock().remove(id)
    }

    /// Watches the reply to a request, if it is a stream.
    pub(super) fn watch(
        &self,
        request: Option<RequestId>,
        reply: StreamableHttpPostResponse,
    ) -> StreamableHttpPostResponse {
        match (reply, request) {
            (StreamableHttpPostResponse::Sse(stream, session), Some(id)) => {
                let seen = self.clone();
                let watched = stream.inspect_err(move |error| {
                    if is_event_too_large(error) {
                        seen.lock().insert(id.clone());
                    }
                });
                StreamableHttpPostResponse::Sse(watched.boxed(), session)
            }
            (reply, _) => reply,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        // Nothing panics while it is held; should it, the set is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id under which a message expects a reply.
pub(super) fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// The SDK's error is a private type, so this reads its words.
fn is_event_too_large(error: &SseError) -> bool {
    matches!(error, SseError::Body(cause) if says_event_too_large(&cause.to_string()))
}
