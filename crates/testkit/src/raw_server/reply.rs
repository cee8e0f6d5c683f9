//! `Reply`: what a raw server does with a request, from correct to hostile.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use serde_json::{Value, json};

use super::defaults;
use super::traffic::Recorded;

/// What to do with a request.
///
/// In the texts of `Status`, `RawBody`, `Sse` and `Drip` each `$ID` is replaced by the request's JSON-RPC id.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A JSON-RPC response with this `result` and the request's id.
    Result(Value),
    /// A JSON-RPC error response with the request's id.
    Error {
        /// The JSON-RPC error code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data, left out if `None`.
        data: Option<Value>,
    },
    /// An HTTP status with headers and body.
    Status(u16, Vec<(String, String)>, String),
    /// Status 200 with any bytes.
    RawBody {
        /// The `content-type` header.
        content_type: String,
        /// The body.
        body: Vec<u8>,
    },
    /// No answer; the connection stays open.
    Hang,
    /// Status 200 and the first half of a correct response, then the connection is cut.
    CloseEarly,
    /// The connection is closed without a byte of an answer.
    Reset,
    /// Status 202 without a body.
    Accepted202,
    /// The method's default result under an id nobody used.
    WrongId,
    /// The method's default result under `id: null`.
    NullId,
    /// A `text/event-stream` of these chunks, verbatim: `"data: {…}\n\n"`, `"retry: 0\n\n"`.
    Sse {
        /// The chunks.
        chunks: Vec<String>,
        /// What comes after the last.
        end: SseEnd,
    },
    /// A JSON body, one byte at a time.
    Drip {
        /// The body.
        body: String,
        /// The pause before each byte.
        pause: Duration,
    },
    /// The same, later.
    Delay(Duration, Box<Reply>),
    /// Whatever the function says, see [`Reply::with`].
    With(Answer),
    /// What a correct server would do.
    Default,
}

/// How an event stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SseEnd {
    /// Properly.
    Close,
    /// Never.
    Hang,
    /// With the connection cut.
    Cut,
}

/// A function from request to reply.
#[derive(Clone)]
pub struct Answer(Arc<dyn Fn(&Recorded) -> Reply + Send + Sync>);

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer(fn)")
    }
}

impl Reply {
    /// A reply that depends on the request.
    pub fn with(answer: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        Self::With(Answer(Arc::new(answer)))
    }

    /// A JSON-RPC error without data.
    #[must_use]
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error { code, message: message.to_owned(), data: None }
    }

    /// An HTTP status without headers and body.
    #[must_use]
    pub fn status(code: u16) -> Self {
        Self::Status(code, Vec::new(), String::new())
    }

    /// Status 200 with this text as `application/json`.
    #[must_use]
    pub fn json_text(body: &str) -> Self {
        Self::RawBody { content_type: JSON.to_owned(), body: body.as_bytes().to_vec() }
    }
}

const JSON: &str = "application/json";

pub(super) type Body = BoxBody<Bytes, io::Error>;

/// Carries out `reply`. An error closes the connection on the spot.
pub(super) async fn carry_out(mut reply: Reply, request: &Recorded) -> io::Result<Response<Body>> {
    loop {
        reply = match reply {
            Reply::Delay(time, then) => {
                tokio::time::sleep(time).await;
                *then
            }
            Reply::With(answer) => (answer.0)(request),
            Reply::Default => defaults::reply(request),
            other => break respond(other, request).await,
        };
    }
}

async fn respond(reply: Reply, request: &Recorded) -> io::Result<Response<Body>> {
    let id = &request.id;
    let text = |text: &str| with_id(text.as_bytes(), id);
    match reply {
        Reply::Result(result) => json_rpc(id, "result", &result),
        Reply::Error { code, message, data } => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            json_rpc(id, "error", &error)
        }
        Reply::Status(code, headers, body) => {
            let mut response = Response::builder().status(code);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(full(text(&body))).map_err(io::Error::other)
        }
        Reply::RawBody { content_type, body } => ok(&content_type, full(with_id(&body, id))),
        Reply::Accepted202 => {
            Response::builder().status(202).body(full(Bytes::new())).map_err(io::Error::other)
        }
        Reply::WrongId => json_rpc(&json!(4_294_967_295_u32), "result", &defaults::result(request)),
        Reply::NullId => json_rpc(&Value::Null, "result", &defaults::result(request)),
        Reply::CloseEarly => {
            let whole =
                json!({ "jsonrpc": "2.0", "id": id, "result": defaults::result(request) }).to_string();
            let half = Bytes::copy_from_slice(&whole.as_bytes()[..whole.len() / 2]);
            ok(JSON, chunks(vec![half], SseEnd::Cut))
        }
        Reply::Sse { chunks: texts, end } => {
            ok("text/event-stream", chunks(texts.iter().map(|chunk| text(chunk)).collect(), end))
        }
        Reply::Drip { body, pause } => {
            let bytes = stream::iter(text(&body)).then(move |byte| async move {
                tokio::time::sleep(pause).await;
                Ok(Frame::data(Bytes::copy_from_slice(&[byte])))
            });
            ok(JSON, BodyExt::boxed(StreamBody::new(Box::pin(bytes))))
        }
        Reply::Reset => Err(io::ErrorKind::ConnectionReset.into()),
        Reply::Hang | Reply::Delay(..) | Reply::With(_) | Reply::Default => std::future::pending().await,
    }
}

fn json_rpc(id: &Value, kind: &str, value: &Value) -> io::Result<Response<Body>> {
    let message = json!({ "jsonrpc": "2.0", "id": id, kind: value });
    ok(JSON, full(message.to_string().into()))
}

fn ok(content_type: &str, body: Body) -> io::Result<Response<Body>> {
    Response::builder().header("content-type", content_type).body(body).map_err(io::Error::other)
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

fn chunks(chunks: Vec<Bytes>, end: SseEnd) -> Body {
    let chunks = stream::iter(chunks).map(|chunk| Ok(Frame::data(chunk)));
    let end = stream::once(async move {
        match end {
            SseEnd::Close => None,
            SseEnd::Hang => std::future::pending().await,
            // What was sent so far must leave before the connection does.
            SseEnd::Cut => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
    })
    .filter_map(std::future::ready);
    BodyExt::boxed(StreamBody::new(chunks.chain(end)))
}

fn with_id(text: &[u8], id: &Value) -> Bytes {
    const MARK: &[u8] = b"$ID";
    let id = id.to_string();
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(id.as_bytes());
        rest = &rest[at + MARK.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced.into()
}
