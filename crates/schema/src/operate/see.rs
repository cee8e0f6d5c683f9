//! Reads: the status, one Action, its result, the migrations.

use david_reconciler::{ActionId, Outcome, RunId};

use super::{History, Operator, OperatorError, Status};
use crate::migrate::{MIGRATOR, applied_with_checksums};

/// How one migration stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationState {
    /// Applied, and the same as this binary's.
    Applied,
    /// This binary has it, the database has not.
    Pending,
    /// The database has another migration of this number.
    Different,
    /// It was begun in the database and did not go through.
    Failed,
    /// The database has it, this binary does not know it.
    Unknown,
}

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Its number.
    pub version: i64,
    /// Its name; empty for one that this binary does not know.
    pub name: String,
    /// How it stands.
    pub state: MigrationState,
}

/// An Action's Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOf {
    /// The Run.
    pub run: RunId,
    /// How many other Actions of it are unfinished.
    pub others: usize,
    /// How the Action ended, if it has.
    pub outcome: Option<Outcome>,
}

impl Operator {
    /// What an operator looks at first.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn status(&self) -> Result<Status, OperatorError> {
        let json = self
            .ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/status.sql").fetch_one(connection).await
            })
            .await
            .map_err(OperatorError::new("say how things stand"))?;
        Ok(serde_json::from_str(&json)?)
    }

    /// One Action, with its history.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn history(&self, action: &ActionId) -> Result<History, OperatorError> {
        let id = action.as_str();
        let json = self
            .ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/action.sql", id).fetch_one(connection).await
            })
            .await
            .map_err(OperatorError::new("show the Action"))?;
        Ok(serde_json::from_str(&json)?)
    }

    /// An Action's envelope as it was stored, if it has one.
    ///
    /// # Errors
    /// When the role may not read outputs, or the database does not answer.
    pub async fn envelope(&self, action: &ActionId) -> Result<Option<String>, OperatorError> {
        let id = action.as_str();
        self.ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/result.sql", id).fetch_optional(connection).await
            })
            .await
            .map_err(OperatorError::new("show the result"))
    }

    /// The Run of an Action, and what else of it is unfinished; none when there is no such Action.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn run_of(&self, action: &ActionId) -> Result<Option<RunOf>, OperatorError> {
        let id = action.as_str();
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/unfinished_of_run.sql", id).fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("show the Run"))?;
        let own = rows.iter().find(|row| row.action_id == id);
        Ok(own.map(|own| RunOf {
            run: RunId::new(&own.run_id),
            others: rows.len() - 1,
            outcome: own.outcome.as_deref().and_then(Outcome::parse),
        }))
    }

    /// Every migration that this binary or the database has, in order.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn migrations(&self) -> Result<Vec<Migration>, OperatorError> {
        let known = self
            .ledger
            .run(applied_with_checksums)
            .await
            .map_err(OperatorError::new("say which migrations it has"))?;
        let mut all: Vec<Migration> = MIGRATOR
            .iter()
            .map(|ours| {
                let state = match known.iter().find(|(version, ..)| *version == ours.version) {
                    None => MigrationState::Pending,
                    Some((_, false, _)) => MigrationState::Failed,
                    Some((_, true, checksum)) if checksum[..] != ours.checksum[..] => {
                        MigrationState::Different
                    }
                    Some(_) => MigrationState::Applied,
                };
                Migration { version: ours.version, name: ours.description.to_string(), state }
            })
            .collect();
        let unknown =
            known.iter().filter(|(version, ..)| MIGRATOR.iter().all(|ours| ours.version != *version));
        all.extend(unknown.map(|(version, ..)| Migration {
            version: *version,
            name: String::new(),
            state: MigrationState::Unknown,
        }));
        all.sort_by_key(|migration| migration.version);
        Ok(all)
    }
}
