//! Traces: the spans of a row's path, and the W3C context that goes with a call.
//!
//! Core's trace context comes with the row. A replica with an OTLP endpoint puts its own spans below it and
//! sends theirs along, so that what the server does lies below the call; one without passes Core's on as it is
//! (W3C Trace Context, "participating" and "forwarding"). Without an endpoint no span is ever made: nobody
//! is interested in them, and tracing asks once per place.
//!
//! A span is as long as it is held, and is never entered: the SDK's connection begins in the middle of a call, keeps
//! the span that is current then, and lives for hours.
//!
//! Spans carry ids of ours, and nothing that a server said.

mod exporter;

use std::collections::HashMap;

use david_reconciler::Transition;
use david_schema::{Leased, TraceContext};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

pub(crate) use exporter::Exporter;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The span of one `tools/call`, handshake included.
pub(crate) fn call(leased: &Leased) -> Span {
    let span = tracing::info_span!(
        "call",
        otel.name = "tools/call",
        otel.kind = "client",
        run.id = %leased.run.id,
        action.id = %leased.task.action_id,
        registration.id = %leased.task.registration_id,
        provider.name = %leased.call.tool_name,
        lease.fence = leased.task.fence.0,
        attempt = leased.task.attempt,
    );
    below(span, leased)
}

/// The span of one `tasks/get`; only where `--log` asks for debug lines, since there are so many.
pub(crate) fn poll(leased: &Leased) -> Span {
    let span = tracing::debug_span!(
        "poll",
        otel.name = "tasks/get",
        otel.kind = "client",
        action.id = %leased.task.action_id,
        registration.id = %leased.task.registration_id,
        lease.fence = leased.task.fence.0,
    );
    below(span, leased)
}

/// The span of the commit that ends an Action; none for any other.
pub(crate) fn finalise(leased: &Leased, transition: &Transition) -> Span {
    let Transition::Finish(finish) = transition else { return Span::none() };
    let span = tracing::info_span!(
        "finalise",
        run.id = %leased.run.id,
        action.id = %leased.task.action_id,
        registration.id = %leased.task.registration_id,
        lease.fence = leased.task.fence.0,
        transition = transition.label(),
        outcome = finish.outcome.as_str(),
    );
    below(span, leased)
}

/// What goes along with a call that is made in `span`.
pub(crate) fn context_of(span: &Span, leased: &Leased) -> Option<TraceContext> {
    if span.is_disabled() {
        return leased.trace.clone();
    }
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    let traceparent = carrier.remove(TRACEPARENT)?.into_boxed_str();
    let tracestate = carrier.remove(TRACESTATE).filter(|state| !state.is_empty()).map(String::into_boxed_str);
    Some(TraceContext { traceparent, tracestate })
}

/// The same span below the one whose context came with the row.
fn below(span: Span, leased: &Leased) -> Span {
    if let Some(trace) = leased.trace.as_ref().filter(|_| !span.is_disabled()) {
        let mut carrier = HashMap::from([(TRACEPARENT.to_owned(), trace.traceparent.to_string())]);
        if let Some(state) = &trace.tracestate {
            carrier.insert(TRACESTATE.to_owned(), state.to_string());
        }
        let parent = TraceContextPropagator::new().extract(&carrier);
        if span.set_parent(parent).is_err() {
            tracing::debug!(action.id = %leased.task.action_id, "a span could not be put below its parent");
        }
    }
    span
}
