//! `/metrics`, `/healthz` and `/readyz`, over plain HTTP.
//!
//! Served from before the database is reached until the process ends, so that a replica that waits, or that
//! stops, says so. Nothing secret is served, and nobody is asked who he is: the address is for the inside.

mod readiness;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::{Metrics, Moment};
use crate::pulse::Pulse;

pub(crate) use readiness::Readiness;

/// OpenMetrics, which Prometheus asks for first.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is served.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) moment: Moment,
    pub(crate) pulse: Pulse,
    pub(crate) readiness: Arc<Readiness>,
}

/// Serves it on `address` until the process ends.
///
/// # Errors
/// When the address cannot be listened on.
pub(crate) async fn serve(address: SocketAddr, shown: Shown) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("--listen {address} is not to be had: is something else there?"))?;
    let address = listener.local_addr().context("--listen has no address")?;
    tracing::info!(listen.address = %address, "serving /metrics, /healthz and /readyz");
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(shown);
    // It never returns; a connection that breaks is nobody's trouble but its own.
    drop(tokio::spawn(async move { axum::serve(listener, router).await }));
    Ok(())
}

async fn metrics(State(shown): State<Shown>) -> Response {
    match shown.metrics.text(&shown.moment) {
        Ok(text) => ([(CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(std::fmt::Error) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A process that is stopping has no loops any more in the end; that is as it should be.
async fn healthz(State(shown): State<Shown>) -> Response {
    match shown.pulse.trouble().filter(|_| !shown.readiness.is_stopping()) {
        None => said(StatusCode::OK, "alive".to_owned()),
        Some(trouble) => said(StatusCode::SERVICE_UNAVAILABLE, trouble),
    }
}

async fn readyz(State(shown): State<Shown>) -> Response {
    match shown.readiness.look().await {
        Ok(()) => said(StatusCode::OK, "ready".to_owned()),
        Err(reason) => said(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

fn said(status: StatusCode, mut words: String) -> Response {
    words.push('\n');
    (status, words).into_response()
}
