//! Arguments that several commands have.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use david_schema::operate::{Operator, Signed};

use super::output::Format;
use crate::config::DatabaseConfig;

/// A view over a million rows takes a second when its table has just been moved.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The way to the database, and how to answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    database: DatabaseConfig,

    /// Answer with JSON (docs/cli.md has the keys) instead of text.
    #[arg(long)]
    json: bool,
}

impl Common {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Human }
    }

    /// The database's URL, which may hold a password.
    pub(crate) fn url(&self) -> &str {
        &self.database.database_url
    }

    /// Prepares connections.
    pub(crate) fn prepare(&self) -> anyhow::Result<Operator> {
        Operator::open(&self.database.database_url, "david-tasks operator", STATEMENT_TIMEOUT)
            .context("the database URL cannot be read")
    }

    /// A database that answers.
    pub(crate) async fn operator(&self) -> anyhow::Result<Operator> {
        let operator = self.prepare()?;
        operator.reach().await.context("is DATABASE_URL right, and the server up?")?;
        Ok(operator)
    }
}

/// Why something is done that need not be explained, and by whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reason {
    /// Why, for whoever reads the history (up to 500 characters).
    #[arg(long, value_parser = words, value_name = "WORDS")]
    reason: Option<String>,

    #[command(flatten)]
    by: By,
}

/// Why something is done that has to be explained, and by whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct NeededReason {
    /// Why, for whoever reads the history (up to 500 characters).
    #[arg(long, value_parser = words, value_name = "WORDS")]
    reason: String,

    #[command(flatten)]
    by: By,
}

/// Who.
#[derive(Debug, Clone, Args)]
pub(crate) struct By {
    /// Who does this, where several share the database's login; it stands in the history.
    #[arg(long, env = "DAVID_TASKS_BY", value_name = "NAME")]
    by: Option<String>,
}

impl Reason {
    /// With these words where none are given.
    pub(crate) fn or(&self, otherwise: &str) -> Signed {
        Signed { reason: self.reason.clone().unwrap_or_else(|| otherwise.to_owned()), by: self.by.by.clone() }
    }
}

impl NeededReason {
    pub(crate) fn signed(&self) -> Signed {
        Signed { reason: self.reason.clone(), by: self.by.by.clone() }
    }
}

/// As the functions of migration 0008 want it.
fn words(text: &str) -> Result<String, String> {
    match text.trim().chars().count() {
        0 => Err("say why in a few words".to_owned()),
        1..=500 => Ok(text.to_owned()),
        _ => Err("500 characters at most".to_owned()),
    }
}
