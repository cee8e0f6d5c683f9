//! Log lines, on stderr; and spans, where there is somewhere to send them.

use anyhow::Context as _;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::traces::Exporter;

/// What is written unless `--log` says otherwise.
pub(crate) const DEFAULT_FILTER: &str = "info,sqlx=warn";

/// Never written, whatever `--log` says: the SDK logs servers' errors with the task ids in them, and
/// its configuration with the token (DESIGN rule 14). What matters of it is told here, redacted.
const NEVER: &str = "rmcp";

/// Whose spans are exported: what other crates put into theirs is not ours to send away.
const OURS: &str = "david_tasks";

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// `human` on a terminal, else `json`.
    Auto,
    /// A sentence with fields.
    Human,
    /// One JSON object per line.
    Json,
}

/// Starts logging, and tracing to this exporter if there is one.
pub(crate) fn init(
    format: LogFormat,
    filter: &str,
    on_terminal: bool,
    exporter: Option<&Exporter>,
) -> anyhow::Result<()> {
    let wanted = || {
        EnvFilter::try_new(filter).with_context(|| {
            format!("--log {filter:?} is not a filter; write it like info,david_tasks=debug")
        })
    };
    // Spans are for traces: a line says by its own fields what it is about.
    let lines_only = filter_fn(|line: &Metadata| line.is_event() && !line.target().starts_with(NEVER));
    let filter = wanted()?.and(lines_only);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match (format, on_terminal) {
        (LogFormat::Human, _) | (LogFormat::Auto, true) => {
            lines.with_ansi(on_terminal).with_filter(filter).boxed()
        }
        (LogFormat::Json, _) | (LogFormat::Auto, false) => {
            lines.json().flatten_event(true).with_filter(filter).boxed()
        }
    };
    let registry = tracing_subscriber::registry().with(lines);
    let started = match exporter {
        // Not with a layer that is None: it has no filter, and so every span would be made for it.
        None => registry.try_init(),
        Some(exporter) => {
            // Fewer log lines are not fewer spans, but more of them may be asked for.
            let usual = filter_fn(|span: &Metadata| *span.level() <= Level::INFO);
            let ours = filter_fn(|span: &Metadata| span.is_span() && span.target().starts_with(OURS));
            let spans = tracing_opentelemetry::layer()
                .with_tracer(exporter.tracer())
                .with_location(false)
                .with_threads(false)
                .with_target(false);
            registry.with(spans.with_filter(wanted()?.or(usual).and(ours))).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))
}
