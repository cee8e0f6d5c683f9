//! Log lines, on stderr.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// What is written unless `--log` says otherwise.
pub(crate) const DEFAULT_FILTER: &str = "info,sqlx=warn";

/// Never written, whatever `--log` says: the SDK logs servers' errors with the task ids in them, and
/// its configuration with the token (DESIGN rule 14). What matters of it is told here, redacted.
const NEVER: &str = "rmcp=off";

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
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is not a filter; write it like info,david_tasks=debug"))?
        .add_directive(NEVER.parse()?);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match (format, on_terminal) {
        (LogFormat::Human, _) | (LogFormat::Auto, true) => lines.with_ansi(on_terminal).try_init(),
        (LogFormat::Json, _) | (LogFormat::Auto, false) => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))
}
