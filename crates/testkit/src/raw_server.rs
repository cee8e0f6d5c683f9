//! `RawServer`: an MCP server that answers exactly what a test tells it to, however wrong.
//!
//! Below the SDK on purpose: what it sends, no SDK would. Without instructions it is correct; it makes one task,
//! [`RawServer::TASK_ID`], which works for ever.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::wait::eventually;
use reply::Body;
use traffic::Traffic;

pub use reply::{Answer, Reply, SseEnd};
pub use traffic::Recorded;

mod defaults;
mod reply;
mod traffic;

/// A running server on loopback. Dropping it closes all its connections.
#[derive(Debug)]
pub struct RawServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    script: Mutex<HashMap<String, Script>>,
    traffic: Traffic,
}

/// The replies to one method.
#[derive(Debug, Default)]
struct Script {
    next: VecDeque<Reply>,
    always: Option<Reply>,
}

impl RawServer {
    /// The id of the task that `tools/call` makes by default.
    pub const TASK_ID: &str = "raw-task-1";

    /// Starts a server on a free port.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_on(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Starts a server on the address of one that was dropped.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn start_on(address: SocketAddr) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Ok(Self { address, shared, accepting })
    }

    /// The MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, `method` is answered with `reply` whenever no [pushed](Self::push) one is left.
    pub fn on(&self, method: &str, reply: Reply) -> &Self {
        self.shared.script(method, |script| script.always = Some(reply));
        self
    }

    /// Adds to the replies that `method` gets first, in order, each once.
    pub fn push(&self, method: &str, reply: Reply) -> &Self {
        self.shared.script(method, |script| script.next.push_back(reply));
        self
    }

    /// All requests so far, in order of arrival; notifications and plain HTTP requests, too.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.traffic.requests()
    }

    /// The requests of one method.
    #[must_use]
    pub fn requests_of(&self, method: &str) -> Vec<Recorded> {
        self.shared.traffic.of(method)
    }

    /// How many requests of `method` are unanswered right now.
    #[must_use]
    pub fn in_flight(&self, method: &str) -> usize {
        self.shared.traffic.in_flight(method).0
    }

    /// How many requests of `method` were unanswered at the same time at most.
    #[must_use]
    pub fn peak(&self, method: &str) -> usize {
        self.shared.traffic.in_flight(method).1
    }

    /// Waits until at least `count` requests of `method` have arrived, and returns them.
    ///
    /// # Errors
    /// When they have not after `timeout`; the message says what did arrive.
    pub async fn wait_for(
        &self,
        method: &str,
        count: usize,
        timeout: Duration,
    ) -> anyhow::Result<Vec<Recorded>> {
        eventually(timeout, &format!("{count} {method} have arrived"), async || {
            let requests = self.requests_of(method);
            if requests.len() < count {
                return Err(format!(
                    "{} of them; all methods: {}",
                    requests.len(),
                    self.shared.traffic.methods()
                ));
            }
            Ok(requests)
        })
        .await
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn script<T>(&self, method: &str, change: impl FnOnce(&mut Script) -> T) -> T {
        let mut scripts = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        change(scripts.entry(method.to_owned()).or_default())
    }

    async fn answer(&self, request: Request<Incoming>) -> std::io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let mut message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = message["method"].as_str().map(str::to_owned);
        let request = Recorded {
            id: message.get_mut("id").map(Value::take).unwrap_or_default(),
            params: if method.is_some() { message["params"].take() } else { message },
            method: method.unwrap_or_else(|| head.method.as_str().to_owned()),
            headers: head.headers,
            at: Instant::now(),
        };
        let _flight = self.traffic.enter(&request);
        let reply =
            self.script(&request.method, |script| script.next.pop_front().or_else(|| script.always.clone()));
        reply::carry_out(reply.unwrap_or(Reply::Default), &request).await
    }
}

/// Connections live in a set of this task: they end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => drop(connections.spawn(serve(stream, shared.clone()))),
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| shared.answer(request));
    // The error is the test's own `Reset`, or a client that has left.
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(%error, "connection ended");
    }
}
