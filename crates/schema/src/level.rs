//! Does the database have what this binary's statements rely on?

use crate::Ledger;
use crate::migrate::{MIGRATOR, applied};

/// Why this binary cannot work with this database.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// Never migrated.
    #[error("the database has no david-tasks schema: run `david-tasks migrate` first")]
    Missing,
    /// Migrated by an older binary.
    #[error(
        "the database is at schema level {found}, this binary needs {needed}: run `david-tasks migrate` first"
    )]
    Old {
        /// Level of the database.
        found: i64,
        /// Level this binary needs.
        needed: i64,
    },
    /// It did not answer.
    #[error("the database's schema level cannot be read")]
    Database(#[source] sqlx::Error),
}

/// Checks. A newer schema is fine: migrations only add what older binaries can ignore.
///
/// # Errors
/// See [`LevelError`].
pub async fn check_level(ledger: &Ledger) -> Result<(), LevelError> {
    let known = ledger.run(applied).await.map_err(LevelError::Database)?.ok_or(LevelError::Missing)?;
    let needed = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
    let missing = MIGRATOR.iter().any(|migration| !known.contains(&migration.version));
    if missing {
        return Err(LevelError::Old { found: known.last().copied().unwrap_or_default(), needed });
    }
    Ok(())
}
