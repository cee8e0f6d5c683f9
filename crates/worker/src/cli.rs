//! The command line. Exit codes: 0 done, 1 failed, 2 wrong usage (clap's), 3 a stop whose grace
//! ended before its calls did, 4 a gate of `sdk-audit` that is not passed.

use std::io::IsTerminal;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use david_schema::{ConnectOptions, Ledger, Sessions, causes, migrate};

use crate::audit;
use crate::config::{DatabaseConfig, WorkerConfig};
use crate::telemetry::{self, LogFormat};
use crate::worker::{self, Stopped};

/// Durable MCP-Tasks worker: leases Actions from Postgres, drives them on remote MCP servers, and
/// finalises each exactly once.
#[derive(Debug, Parser)]
#[command(name = "david-tasks", version, max_term_width = 100)]
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
    /// Bring the database to the schema this binary needs. Safe to repeat and to run concurrently.
    Migrate(DatabaseConfig),
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
    if let Err(error) = telemetry::init(cli.log_format, &cli.log, std::io::stderr().is_terminal()) {
        eprintln!("david-tasks: {error:#}");
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("david-tasks: the runtime cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(dispatch(cli.command));
    // A call past the grace is not waited for.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("david-tasks: {}", causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Worker(config) => Ok(match worker::run(*config).await? {
            Stopped::Clean => ExitCode::SUCCESS,
            Stopped::GraceOver => ExitCode::from(3),
        }),
        Command::Migrate(database) => run_migrate(&database).await,
        Command::SdkAudit { url, json } => {
            let format = if json { audit::OutputFormat::Json } else { audit::OutputFormat::Lines };
            Ok(match audit::run(url, format).await? {
                audit::Verdict::Passed => ExitCode::SUCCESS,
                audit::Verdict::NotPassed => ExitCode::from(4),
            })
        }
    }
}

async fn run_migrate(database: &DatabaseConfig) -> anyhow::Result<ExitCode> {
    let ledger = Ledger::open(&ConnectOptions {
        url: database.database_url.clone(),
        connections: 2,
        // A migration may rewrite a table.
        statement_timeout: std::time::Duration::from_secs(3600),
        acquire_timeout: std::time::Duration::from_secs(10),
        application_name: "david-tasks migrate".to_owned(),
        sessions: Sessions::Ours,
    })
    .context("the database URL cannot be read")?;
    ledger.reach().await.context("nothing was migrated (is DATABASE_URL right, and the server up?)")?;
    let done = migrate(ledger.pool()).await.context("nothing was migrated")?;
    let what = match done.applied {
        0 => "nothing to do".to_owned(),
        applied => format!("{applied} migrations applied"),
    };
    // Whether it can be told or not, it is done.
    writeln!(std::io::stdout(), "schema david is at level {} ({what})", done.level)
        .context("the database is migrated, but that cannot be written here")?;
    Ok(ExitCode::SUCCESS)
}
