//! Errors of the SDK, sorted by what they say about the request: was it executed, may it pass?

use std::error::Error;

use david_reconciler::{CallReply, NotExecuted, Refusal, RemoteError, RetryAfter, Trouble, fit};
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};
use rmcp::{ErrorData, ServiceError};

use crate::credentials::CredentialError;
use crate::endpoint_policy::ForbiddenName;

use super::words::{chain, discovery_status, retry_after, root, status_in};

/// `-32602`: of tasks/get it means unknown, expired or not ours.
const INVALID_PARAMS: i32 = -32602;
/// Header mismatch, missing capability, unsupported version: refused before anything ran.
const REFUSED_BEFORE_DISPATCH: [i32; 3] = [-32020, -32021, -32022];
/// The protocol's version, or the extension, is not what it was at the handshake.
const HANDSHAKE_OUTDATED: [i32; 2] = [-32021, -32022];
/// Parameters that belong into headers, too, were not there.
const HEADER_MISMATCH: i32 = -32020;
/// The extension's methods are not known there.
const METHOD_NOT_FOUND: i32 = -32601;

type HttpError = StreamableHttpError<reqwest::Error>;

/// Why a request brought nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    kind: Kind,
    /// One sentence for people, without the task id.
    detail: String,
    retry_after: RetryAfter,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// It never left this machine whole: refused, DNS, TLS, or the handshake before it failed.
    NeverSent,
    /// The source of credentials is in trouble: nothing was sent, and it says nothing of the server.
    NoCredential,
    /// 401 or 403, or there is no credential to show.
    Unauthorised,
    /// The server's name leads to an address that the endpoint policy forbids.
    EndpointForbidden,
    /// 429.
    RateLimited,
    /// A JSON-RPC error.
    JsonRpc(ErrorData),
    /// A reply, whole but unreadable.
    Malformed,
    /// 404 within a session of the older protocol: the server has forgotten it. We do not repeat the
    /// call ourselves, nor let the SDK do it.
    SessionOver,
    /// A reply over the cap.
    TooLarge,
    /// No reply, or not a whole one: reset, time-out, 5xx.
    Lost,
}

impl Kind {
    /// Of a handshake, most failures say only that the request behind it was not sent. These say more.
    fn is_told_of_a_handshake(&self) -> bool {
        matches!(self, Self::Unauthorised | Self::RateLimited | Self::EndpointForbidden | Self::NoCredential)
    }
}

impl Failure {
    pub(super) fn timeout() -> Self {
        Self::new(Kind::Lost, "The server did not answer in time.")
    }

    pub(super) fn connect_timeout() -> Self {
        Self::new(Kind::NeverSent, "The connection to the server was not made in time.")
    }

    pub(super) fn no_credential_in_time() -> Self {
        Self::new(Kind::NoCredential, "The credential was not to be had in time.")
    }

    pub(super) fn no_tool_list() -> Self {
        Self::malformed("The server does not list its tools.")
    }

    /// The same words as of a whole reply over the cap.
    pub(super) fn too_large(max_size: usize) -> Self {
        Self::new(Kind::TooLarge, format!("the reply is over {max_size} bytes."))
    }

    /// Of our own credential: nothing was sent.
    pub(super) fn of_credential(error: &CredentialError) -> Self {
        let kind = match error {
            CredentialError::Missing(_) => Kind::Unauthorised,
            CredentialError::Unavailable(_) => Kind::NoCredential,
        };
        Self::new(kind, error.to_string())
    }

    fn malformed(detail: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, detail)
    }

    /// Of a handshake: whatever went wrong, the request behind it was not sent.
    pub(super) fn of_connect(error: &ClientInitializeError) -> Self {
        // The SDK's words may hold a whole reply.
        let detail = || fit(&format!("The connection to the server failed: {}.", chain(error)));
        match error {
            ClientInitializeError::TransportError { error, .. } => {
                match Self::of_transport(error.error.as_ref()) {
                    failure if failure.kind.is_told_of_a_handshake() => failure,
                    failure => Self { kind: Kind::NeverSent, ..failure },
                }
            }
            ClientInitializeError::JsonRpcError(error) if REFUSED_BEFORE_DISPATCH.contains(&error.code.0) => {
                Self::new(Kind::JsonRpc(error.clone()), detail())
            }
            // Not the chain: the SDK puts the whole body into it.
            ClientInitializeError::JsonRpcError(error)
                if let Some(status) = discovery_status(&error.message) =>
            {
                Self::new(
                    Kind::NeverSent,
                    format!("The server answered the handshake with HTTP status {status}."),
                )
            }
            _ => Self::new(Kind::NeverSent, detail()),
        }
    }

    /// Of a request.
    pub(super) fn of_request(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::new(
                Kind::JsonRpc(error.clone()),
                format!("The server answered with error {}: {}", error.code.0, error.message),
            ),
            ServiceError::TransportSend(error) => Self::of_transport(error.error.as_ref()),
            ServiceError::UnexpectedResponse => {
                Self::malformed("The reply is not of the kind that was asked for.")
            }
            other => Self::new(Kind::Lost, format!("The reply was lost: {other}.")),
        }
    }

    fn of_transport(error: &(dyn Error + Send + Sync + 'static)) -> Self {
        let mut source: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(current) = source {
            if let Some(error) = current.downcast_ref::<HttpError>() {
                return Self::of_http(error);
            }
            if current.is::<AuthRequiredError>() || current.is::<InsufficientScopeError>() {
                return Self::new(Kind::Unauthorised, "The server refuses the credential.");
            }
            if let Some(error) = current.downcast_ref::<reqwest::Error>() {
                return Self::of_reqwest(error);
            }
            source = current.source();
        }
        Self::new(Kind::Lost, format!("The reply was lost: {}.", chain(error)))
    }

    fn of_http(error: &HttpError) -> Self {
        match error {
            StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
                Self::new(Kind::Unauthorised, "The server refuses the credential.")
            }
            StreamableHttpError::HttpStatus(status) => Self {
                retry_after: status.retry_after.as_deref().and_then(retry_after),
                ..Self::of_status(status.status)
            },
            StreamableHttpError::Client(error) => Self::of_reqwest(error),
            StreamableHttpError::Io(error) if let Some(error) = credential_error(error) => {
                Self::of_credential(error)
            }
            StreamableHttpError::ResponseBodyTooLarge { max_size } => Self::too_large(*max_size),
            StreamableHttpError::UnexpectedServerResponse(text) => match status_in(text) {
                Some(status) => Self::of_status(status),
                None => Self::malformed("The reply is not a JSON-RPC message."),
            },
            StreamableHttpError::UnexpectedContentType(_) => {
                Self::malformed("The reply is neither JSON nor an event stream.")
            }
            StreamableHttpError::Deserialize(_) => Self::malformed("The reply is not the JSON it should be."),
            StreamableHttpError::SessionExpired => {
                Self::new(Kind::SessionOver, "The server has forgotten the session (HTTP status 404).")
            }
            other => Self::new(Kind::Lost, format!("The reply was lost: {}.", chain(other))),
        }
    }

    /// A status without a JSON-RPC message. Those that are neither a refused credential nor trouble
    /// that may pass (400, 404, 405, a redirect that we do not follow) are not answers of the protocol,
    /// so they are malformed. A `tools/call` that is so refused was hardly executed, but that is no
    /// proof: DESIGN §6 lists what is. It was answered all the same, and not by a lost reply; so it
    /// ends as `protocol_error`, and is never made again.
    fn of_status(status: u16) -> Self {
        let kind = match status {
            401 | 403 => Kind::Unauthorised,
            429 => Kind::RateLimited,
            408 | 500..=599 => Kind::Lost,
            _ => Kind::Malformed,
        };
        Self::new(kind, format!("The server answered with HTTP status {status}."))
    }

    fn of_reqwest(error: &reqwest::Error) -> Self {
        if let Some(forbidden) = find::<ForbiddenName>(error) {
            return Self::new(Kind::EndpointForbidden, forbidden.to_string());
        }
        if error.is_connect() || error.is_builder() {
            return Self::new(Kind::NeverSent, format!("The server cannot be reached: {}.", root(error)));
        }
        if error.is_timeout() {
            return Self::timeout();
        }
        Self::new(Kind::Lost, format!("The connection to the server broke: {}.", root(error)))
    }

    fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None }
    }

    /// Whether the client, which the server no longer understands, has to be made anew. The SDK would
    /// go on with it for ever.
    pub(super) fn wants_another_handshake(&self) -> bool {
        match &self.kind {
            Kind::SessionOver => true,
            Kind::JsonRpc(error) => HANDSHAKE_OUTDATED.contains(&error.code.0),
            Kind::NeverSent
            | Kind::NoCredential
            | Kind::EndpointForbidden
            | Kind::Unauthorised
            | Kind::RateLimited
            | Kind::Malformed
            | Kind::TooLarge
            | Kind::Lost => false,
        }
    }

    /// Whether the server gave no answer at all, neither a refusal nor an unreadable one.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self.kind, Kind::NeverSent | Kind::Lost)
    }

    /// What happened, one sentence.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether the tool list is worth reading again.
    pub(super) fn is_header_mismatch(&self) -> bool {
        matches!(&self.kind, Kind::JsonRpc(error) if error.code.0 == HEADER_MISMATCH)
    }

    /// What it means for a `tools/call`.
    ///
    /// `-32021` is taken for proof that nothing ran, though a server made with this SDK checks only
    /// after it ran the tool (rmcp's handler/server.rs): we declare the extension with every request,
    /// so no server has a reason to send it.
    pub(super) fn of_call(self) -> CallReply {
        let Self { kind, detail, retry_after } = self;
        let not_executed = |proof, detail| CallReply::NotExecuted { proof, detail, retry_after };
        match kind {
            Kind::NeverSent | Kind::NoCredential => not_executed(NotExecuted::NeverSent, detail),
            Kind::Unauthorised => not_executed(NotExecuted::Unauthorised, detail),
            Kind::EndpointForbidden => not_executed(NotExecuted::EndpointForbidden, detail),
            Kind::RateLimited => not_executed(NotExecuted::RateLimited, detail),
            Kind::JsonRpc(error) if REFUSED_BEFORE_DISPATCH.contains(&error.code.0) => {
                not_executed(NotExecuted::Unsupported, detail)
            }
            Kind::JsonRpc(error) => CallReply::Rejected(RemoteError {
                code: i64::from(error.code.0),
                message: error.message.into_owned(),
                data: error.data,
            }),
            Kind::Malformed | Kind::SessionOver => CallReply::Malformed { detail },
            Kind::TooLarge => CallReply::TooLarge { detail },
            Kind::Lost => CallReply::Unknown { detail },
        }
    }

    /// What it means for a request about a task, where repeating does no harm.
    pub(super) fn of_task(self) -> Refused {
        let Self { kind, detail, retry_after } = self;
        Refused::Refusal(match kind {
            Kind::TooLarge => return Refused::TooLarge(detail),
            Kind::Unauthorised => Refusal::Unauthorised { detail },
            Kind::EndpointForbidden => Refusal::EndpointForbidden { detail },
            Kind::JsonRpc(error) if error.code.0 == INVALID_PARAMS => {
                Refusal::Gone { message: error.message.into_owned() }
            }
            Kind::JsonRpc(error)
                if error.code.0 == METHOD_NOT_FOUND || REFUSED_BEFORE_DISPATCH.contains(&error.code.0) =>
            {
                Refusal::Malformed { detail }
            }
            Kind::Malformed | Kind::SessionOver => Refusal::Malformed { detail },
            // An error without a meaning of its own may be a server in trouble: its HTTP status, 500
            // perhaps, is lost.
            Kind::JsonRpc(_) | Kind::NeverSent | Kind::NoCredential | Kind::RateLimited | Kind::Lost => {
                Refusal::Transient(Trouble { detail, retry_after })
            }
        })
    }
}

/// [`Failure::of_task`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refused {
    Refusal(Refusal),
    TooLarge(String),
}

/// Whether a reply says that the credential is not good, or not good enough.
pub(super) fn refuses_credential(error: &HttpError) -> bool {
    Failure::of_http(error).kind == Kind::Unauthorised
}

fn credential_error(error: &std::io::Error) -> Option<&CredentialError> {
    error.get_ref()?.downcast_ref()
}

/// The first error of this type among the causes.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        cause = current.source();
    }
    None
}

/// The HTTP status of a transport error, where there is one.
pub(super) fn status_of(error: &(dyn Error + Send + Sync + 'static)) -> Option<u16> {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = source {
        match current.downcast_ref::<HttpError>() {
            Some(StreamableHttpError::HttpStatus(status)) => return Some(status.status),
            Some(StreamableHttpError::UnexpectedServerResponse(text)) => return status_in(text),
            Some(StreamableHttpError::SessionExpired) => return Some(404),
            Some(_) | None => source = current.source(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ErrorCode;

    fn error(code: i32) -> Failure {
        Failure::of_request(&ServiceError::McpError(ErrorData::new(ErrorCode(code), "no", None)))
    }

    /// DESIGN §6: exactly these return a call to `queued`.
    #[test]
    fn only_proof_that_nothing_ran_lets_a_call_be_made_again() {
        let proven = |failure: Failure| matches!(failure.of_call(), CallReply::NotExecuted { .. });
        let again: Vec<u16> = (100..600).filter(|status| proven(Failure::of_status(*status))).collect();
        assert_eq!(again, [401, 403, 429]);
        let again: Vec<i32> = (-33_000..-31_999).filter(|code| proven(error(*code))).collect();
        assert_eq!(again, [-32022, -32021, -32020]);
        assert!(proven(Failure::connect_timeout()));
        assert!(!proven(Failure::timeout()));
        assert!(!proven(Failure::of_request(&ServiceError::TransportClosed)));
        assert!(!proven(Failure::of_request(&ServiceError::UnexpectedResponse)));
    }

    #[test]
    fn only_one_code_says_that_a_task_is_gone() {
        let gone = |code| matches!(error(code).of_task(), Refused::Refusal(Refusal::Gone { .. }));
        assert_eq!((-33_000..-31_999).filter(|code| gone(*code)).collect::<Vec<_>>(), [-32602]);
    }

    #[test]
    fn a_lost_reply_about_a_task_is_asked_for_again() {
        for failure in [Failure::timeout(), Failure::connect_timeout(), Failure::of_status(503)] {
            assert!(matches!(failure.of_task(), Refused::Refusal(Refusal::Transient(_))));
        }
    }

    #[test]
    fn only_a_header_mismatch_is_worth_reading_the_tool_list() {
        assert!(error(-32020).is_header_mismatch());
        assert!(!error(-32021).is_header_mismatch() && !Failure::timeout().is_header_mismatch());
    }
}
