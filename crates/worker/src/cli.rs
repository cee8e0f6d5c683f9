//! The command line. Exit codes: 0 done, 1 failed, 2 wrong usage (clap's), 3 a stop whose grace
//! ended before its calls did, 4 a gate of `sdk-audit` that is not passed; those of operators' commands
//! are in `operate`.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use david_schema::causes;

use crate::audit;
use crate::config::{ConfigError, WorkerConfig};
use crate::operate::{self, Operate};
use crate::telemetry::{self, LogFormat};
use crate::traces::Exporter;
use crate::worker::{self, Stopped};

/// Durable MCP-Tasks worker: leases Actions from Postgres, drives them on remote MCP servers, and
/// finalises each exactly once.
#[derive(Debug, Parser)]
#[command(name = "david-tasks", version, max_term_width = 100, after_help = operate::EXIT_CODES)]
struct Cli {
    /// How log lines are written to stderr: human, json, or auto (human on a terminal).
    #[arg(
        long,
        global = true,
        env = "DAVID_TASKS_LOG_FORMAT",
        default_value = "auto",
        value_name = "FORMAT"
    )]
    log_format: LogFormat,

    /// Which log lines are written, as in `info,david_tasks=debug`.
    #[arg(long, global = true, env = "DAVID_TASKS_LOG", default_value = telemetry::DEFAULT_FILTER, value_name = "FILTER")]
    log: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one replica until SIGTERM or SIGINT. Run as many as you like against one database.
    Worker(Box<WorkerConfig>),
    #[command(flatten)]
    Operate(Operate),
    /// Prove, by real calls, what the MCP SDK and a server do; print the migration gate.
    SdkAudit {
        /// The server to audit; by default one is started for the purpose.
        url: Option<String>,
        /// Print one JSON object instead of lines.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the program and says how it ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("david-tasks: the runtime cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let exporter = match begin_telemetry(&cli, runtime.handle()) {
        Ok(exporter) => exporter,
        Err(error) => {
            eprintln!("david-tasks: {}", causes(error.as_ref()));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(dispatch(cli.command));
    if let Some(exporter) = exporter {
        exporter.end();
    }
    // A call past the grace is not waited for.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("david-tasks: {}", causes(error.as_ref()));
            // As clap's: starting again would not help.
            if error.is::<ConfigError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Log lines for every command, spans for a worker that has somewhere to send them.
fn begin_telemetry(cli: &Cli, runtime: &tokio::runtime::Handle) -> anyhow::Result<Option<Exporter>> {
    let exporter = match &cli.command {
        Command::Worker(config) => {
            let endpoint = config.otlp_endpoint.as_ref();
            endpoint.map(|endpoint| Exporter::new(endpoint, runtime.clone())).transpose()?
        }
        Command::Operate(_) | Command::SdkAudit { .. } => None,
    };
    telemetry::init(cli.log_format, &cli.log, std::io::stderr().is_terminal(), exporter.as_ref())?;
    Ok(exporter)
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Worker(config) => Ok(match worker::run(*config).await? {
            Stopped::Clean => ExitCode::SUCCESS,
            Stopped::GraceOver => ExitCode::from(3),
        }),
        Command::Operate(command) => Ok(operate::run(command, Cli::command()).await?.into()),
        Command::SdkAudit { url, json } => {
            let format = if json { audit::OutputFormat::Json } else { audit::OutputFormat::Lines };
            Ok(match audit::run(url, format).await? {
                audit::Verdict::Passed => ExitCode::SUCCESS,
                audit::Verdict::NotPassed => ExitCode::from(4),
            })
        }
    }
}
