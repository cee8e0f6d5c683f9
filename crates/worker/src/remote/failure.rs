//! Errors of the SDK, sorted by what they say about the request: was it executed, may it pass?

use std::error::Error;
use std::time::Duration;

use david_reconciler::{CallReply, NotExecuted, Refusal, RemoteError, RetryAfter, Trouble};
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};
use rmcp::{ErrorData, ServiceError};

/// `-32602`: of tasks/get it means unknown, expired or not ours.
const INVALID_PARAMS: i32 = -32602;
/// Header mismatch, missing capability, unsupported version: refused before anything ran.
const REFUSED_BEFORE_DISPATCH: [i32; 3] = [-32020, -32021, -32022];
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
    /// 401 or 403.
    Unauthorised,
    /// 429.
    RateLimited,
    /// A JSON-RPC error.
    JsonRpc(ErrorData),
    /// A reply, whole but unreadable.
    Malformed,
    /// A reply over the cap.
    TooLarge,
    /// No reply, or not a whole one: reset, time-out, 5xx.
    Lost,
}

impl Failure {
    pub(super) fn timeout() -> Self {
        Self::new(Kind::Lost, "The server did not answer in time.")
    }

    pub(super) fn connect_timeout() -> Self {
        Self::new(Kind::NeverSent, "The connection to the server was not made in time.")
    }

    fn malformed(detail: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, detail)
    }

    /// Of a handshake: whatever went wrong, the request behind it was not sent.
    pub(super) fn of_connect(error: &ClientInitializeError) -> Self {
        let detail = || format!("The connection to the server failed: {}.", chain(error));
        match error {
            ClientInitializeError::TransportError { error, .. } => {
                match Self::of_transport(error.error.as_ref()) {
                    failure if matches!(failure.kind, Kind::Unauthorised | Kind::RateLimited) => failure,
                    failure => Self { kind: Kind::NeverSent, ..failure },
                }
            }
            ClientInitializeError::JsonRpcError(error) if REFUSED_BEFORE_DISPATCH.contains(&error.code.0) => {
                Self::new(Kind::JsonRpc(error.clone()), detail())
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
            StreamableHttpError::ResponseBodyTooLarge { max_size } => {
                Self::new(Kind::TooLarge, format!("the reply is over {max_size} bytes."))
            }
            StreamableHttpError::UnexpectedServerResponse(text) => match status_in(text) {
                Some(status) => Self::of_status(status),
                None => Self::malformed("The reply is not a JSON-RPC message."),
            },
            StreamableHttpError::UnexpectedContentType(_) => {
                Self::malformed("The reply is neither JSON nor an event stream.")
            }
            StreamableHttpError::Deserialize(_) => Self::malformed("The reply is not the JSON it should be."),
            // The old session is gone and its call was not taken; we do not repeat it ourselves.
            StreamableHttpError::SessionExpired => Self::of_status(404),
            other => Self::new(Kind::Lost, format!("The reply was lost: {}.", chain(other))),
        }
    }

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

    /// What it means for a `tools/call`.
    pub(super) fn of_call(self) -> CallReply {
        let Self { kind, detail, retry_after } = self;
        let not_executed = |proof, detail| CallReply::NotExecuted { proof, detail, retry_after };
        match kind {
            Kind::NeverSent => not_executed(NotExecuted::NeverSent, detail),
            Kind::Unauthorised => not_executed(NotExecuted::Unauthorised, detail),
            Kind::RateLimited => not_executed(NotExecuted::RateLimited, detail),
            Kind::JsonRpc(error) if REFUSED_BEFORE_DISPATCH.contains(&error.code.0) => {
                not_executed(NotExecuted::Unsupported, detail)
            }
            Kind::JsonRpc(error) => CallReply::Rejected(RemoteError {
                code: i64::from(error.code.0),
                message: error.message.into_owned(),
                data: error.data,
            }),
            Kind::Malformed => CallReply::Malformed { detail },
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
            Kind::JsonRpc(error) if error.code.0 == INVALID_PARAMS => {
                Refusal::Gone { message: error.message.into_owned() }
            }
            Kind::JsonRpc(error)
                if error.code.0 == METHOD_NOT_FOUND || REFUSED_BEFORE_DISPATCH.contains(&error.code.0) =>
            {
                Refusal::Malformed { detail }
            }
            Kind::Malformed => Refusal::Malformed { detail },
            // An error without a meaning of its own may be a server in trouble: its HTTP status, 500
            // perhaps, is lost.
            Kind::JsonRpc(_) | Kind::NeverSent | Kind::RateLimited | Kind::Lost => {
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

/// Statuses other than 429 and 5xx reach us only as text: `HTTP 404 Not Found: …`.
fn status_in(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("HTTP ")?.get(..3)?;
    digits.parse().ok()
}

/// Seconds or an HTTP date.
fn retry_after(value: &str) -> RetryAfter {
    if let Ok(seconds) = value.trim().parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a server's date is turned into a delay; no stored instant is involved"
    )]
    let now = std::time::SystemTime::now();
    Some(at.duration_since(now).unwrap_or_default())
}

/// An error and its sources, as one sentence.
fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    words
}

/// The innermost cause: reqwest's own words repeat the URL.
fn root(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
