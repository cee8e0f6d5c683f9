//! What operators type: one command per file, over the views and functions that `david_schema::operate` knows.
//!
//! ```text
//! see      status, watch, show          (advice.rs, reason.rs)
//! steer    cancel, retry, pause, resume, fail, give-up, release, prune
//! set up   migrate, doctor, dev, completions, man
//! ```
//!
//! docs/cli.md is the contract: exit codes, JSON keys, an example of each.

mod advice;
mod arguments;
mod cancel;
mod completions;
mod dev;
mod doctor;
mod ended;
mod fail;
mod give_up;
mod man;
mod migrate;
mod output;
mod pause;
mod prune;
mod reason;
mod refusal;
mod release;
mod resume;
mod retry;
mod show;
mod status;
mod watch;

use clap::Subcommand;

pub(crate) use ended::{EXIT_CODES, Ended};
pub(crate) use output::print;

/// The operator's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Operate {
    /// Bring the database to the schema this binary needs. Safe to repeat and to run concurrently.
    Migrate(migrate::Arguments),
    /// Show what waits, who works, what is wrong and what to do about it, on one screen.
    Status(status::Arguments),
    /// Show the status again and again: redrawn on a terminal, else what changes, line by line.
    Watch(watch::Arguments),
    /// Show one Action: how it stands and why, its history, what to do.
    Show(show::Arguments),
    /// Cancel an Action's Run, for good.
    Cancel(cancel::Arguments),
    /// Make an unfinished Action due now and forget its failures.
    Retry(retry::Arguments),
    /// Stop a server: nothing of it is leased until it is resumed.
    Pause(pause::Arguments),
    /// End a server's pause.
    Resume(resume::Arguments),
    /// End an Action as failed (outcome quarantined); its remote task is cancelled.
    Fail(fail::Arguments),
    /// Give up a remote cancel that is still owed; the remote task may run on.
    GiveUp(give_up::Arguments),
    /// Take the leases of a replica that hangs or is gone. Never those of calls.
    Release(release::Arguments),
    /// Delete what ended long ago, in batches.
    Prune(prune::Arguments),
    /// Look whether database, role, way, servers and credentials are as a worker needs them.
    Doctor(Box<doctor::Arguments>),
    /// Run a whole world of your own in a folder: Postgres, a sample MCP server, one worker.
    Dev(dev::Arguments),
    /// Print a shell's completions for this program.
    Completions(completions::Arguments),
    /// Print a manual page, or write them all.
    Man(man::Arguments),
}

/// Runs one of them. `program` is the whole command line, for completions and manual pages.
pub(crate) async fn run(command: Operate, program: clap::Command) -> anyhow::Result<Ended> {
    let json = command.wants_json();
    let ended = match command {
        Operate::Migrate(arguments) => migrate::run(&arguments).await,
        Operate::Status(arguments) => status::run(&arguments).await,
        Operate::Watch(arguments) => watch::run(&arguments).await,
        Operate::Show(arguments) => show::run(&arguments).await,
        Operate::Cancel(arguments) => cancel::run(&arguments).await,
        Operate::Retry(arguments) => retry::run(&arguments).await,
        Operate::Pause(arguments) => pause::run(&arguments).await,
        Operate::Resume(arguments) => resume::run(&arguments).await,
        Operate::Fail(arguments) => fail::run(&arguments).await,
        Operate::GiveUp(arguments) => give_up::run(&arguments).await,
        Operate::Release(arguments) => release::run(&arguments).await,
        Operate::Prune(arguments) => prune::run(&arguments).await,
        Operate::Doctor(arguments) => doctor::run(&arguments).await,
        Operate::Dev(arguments) => dev::run(&arguments).await,
        Operate::Completions(arguments) => completions::run(&arguments, program),
        Operate::Man(arguments) => man::run(&arguments, program),
    };
    ended.or_else(|error| refusal::tell(error, json))
}

impl Operate {
    fn wants_json(&self) -> output::Format {
        match self {
            Self::Migrate(arguments) => arguments.format(),
            Self::Status(arguments) => arguments.common.format(),
            Self::Watch(arguments) => arguments.common.format(),
            Self::Show(arguments) => arguments.common.format(),
            Self::Cancel(arguments) => arguments.common.format(),
            Self::Retry(arguments) => arguments.common.format(),
            Self::Pause(arguments) => arguments.common.format(),
            Self::Resume(arguments) => arguments.common.format(),
            Self::Fail(arguments) => arguments.common.format(),
            Self::GiveUp(arguments) => arguments.common.format(),
            Self::Release(arguments) => arguments.common.format(),
            Self::Prune(arguments) => arguments.common.format(),
            Self::Doctor(arguments) => arguments.common.format(),
            Self::Dev(_) | Self::Completions(_) | Self::Man(_) => output::Format::Human,
        }
    }
}
