//! `migrate`.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use david_schema::operate::{Migration, MigrationState};
use david_schema::{ConnectOptions, Ledger, Sessions, migrate};
use serde_json::json;

use super::Ended;
use super::arguments::Common;
use super::output::{Format, plain, print, print_json, table};

/// Settings of `david-tasks migrate`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Change nothing: say what is pending, and exit with 8 if anything is.
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    common: Common,
}

impl Arguments {
    pub(super) fn format(&self) -> Format {
        self.common.format()
    }
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    if arguments.check {
        return check(arguments).await;
    }
    let ledger = Ledger::open(&ConnectOptions {
        url: arguments.common.url().to_owned(),
        connections: 2,
        // A migration may rewrite a table.
        statement_timeout: Duration::from_secs(3600),
        acquire_timeout: Duration::from_secs(10),
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
    match arguments.format() {
        Format::Json => print_json(&json!({ "level": done.level, "applied": done.applied })),
        Format::Human => print(&format!("schema david is at level {} ({what})\n", done.level)),
    }
    .context("the database is migrated, but that cannot be written here")?;
    Ok(Ended::Done)
}

async fn check(arguments: &Arguments) -> anyhow::Result<Ended> {
    let migrations = arguments.common.operator().await?.migrations().await?;
    let wrong: Vec<&Migration> =
        migrations.iter().filter(|migration| migration.state != MigrationState::Applied).collect();
    // What this binary does not know was added by a newer one, and does not hinder it.
    let pending = wrong.iter().any(|migration| migration.state == MigrationState::Pending);
    let broken = wrong
        .iter()
        .any(|migration| matches!(migration.state, MigrationState::Different | MigrationState::Failed));
    match arguments.format() {
        Format::Json => {
            let lines: Vec<_> = migrations
                .iter()
                .map(|migration| {
                    json!({ "version": migration.version, "name": migration.name, "state": word(migration.state) })
                })
                .collect();
            print_json(&json!({ "pending": pending, "migrations": lines }))?;
        }
        Format::Human if wrong.is_empty() => print("nothing is pending\n")?,
        Format::Human => {
            let mut lines = table(&["version", "name", "state"]);
            for migration in &wrong {
                lines.add_row([
                    migration.version.to_string(),
                    plain(&migration.name),
                    word(migration.state).to_owned(),
                ]);
            }
            let next = if broken {
                "that is not this program's schema, and it does not migrate it: david-tasks doctor says what to do"
            } else if pending {
                "apply them: david-tasks migrate"
            } else {
                "nothing is pending: the database is newer"
            };
            print(&format!("{}\n{next}\n", lines.trim_fmt()))?;
        }
    }
    Ok(match (broken, pending) {
        (true, _) => Ended::Unhealthy,
        (false, true) => Ended::Pending,
        (false, false) => Ended::Done,
    })
}

pub(super) fn word(state: MigrationState) -> &'static str {
    match state {
        MigrationState::Applied => "applied",
        MigrationState::Pending => "pending",
        MigrationState::Different => "different",
        MigrationState::Failed => "failed",
        MigrationState::Unknown => "unknown",
    }
}
