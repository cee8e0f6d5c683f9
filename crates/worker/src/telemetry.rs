//! Log lines, on stderr.

use anyhow::Context as _;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// What is written unless `--log` says otherwise.
pub(crate) const DEFAULT_FILTER: &str = "info,sqlx=warn";

/// Never written, whatever `--log` says: the SDK logs servers' errors with the task ids in them, and
/// its configuration with the token (DESIGN rule 14). What matters of it is told here, redacted.
const NEVER: &str = "rmcp";

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

/// Starts logging.
pub(crate) fn init(format: LogFormat, filter: &str, on_terminal: bool) -> anyhow::Result<()> {
    let wanted = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is not a filter; write it like info,david_tasks=debug"))?;
    let filter = wanted.and(filter_fn(|line| !line.target().starts_with(NEVER)));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry();
    let started = match (format, on_terminal) {
        (LogFormat::Human, _) | (LogFormat::Auto, true) => {
            registry.with(lines.with_ansi(on_terminal).with_filter(filter)).try_init()
        }
        (LogFormat::Json, _) | (LogFormat::Auto, false) => {
            registry.with(lines.json().flatten_event(true).with_filter(filter)).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))
}
