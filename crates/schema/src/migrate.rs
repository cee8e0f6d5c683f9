//! Brings a database to the level this binary needs. The same files work with `sqlx migrate run`.

use sqlx::migrate::Migrator;
use sqlx::{PgConnection, PgPool};

pub(crate) static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// Oldest supported Postgres, as `server_version_num`.
pub(crate) const OLDEST_SERVER: i32 = 140_000;

/// The SQLSTATE of a lock_timeout.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Migrations applied just now.
    pub applied: usize,
    /// The level the database is at.
    pub level: i64,
}

/// Why nothing was migrated. Every migration is a transaction: none is ever half applied.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Somebody else's schema.
    #[error(
        "schema david holds things that david-tasks did not create ({objects} tables, functions and types). Use an empty database, or rename that \
         schema first (alter schema david rename to …); nothing was changed"
    )]
    ForeignSchema {
        /// How many tables, views, sequences, functions and types are there.
        objects: i64,
    },
    /// The database cannot hold every string a server may send.
    #[error(
        "the database's encoding is {encoding}, UTF8 is needed: create database … encoding 'UTF8' template template0"
    )]
    Encoding {
        /// What it is.
        encoding: String,
    },
    /// Too old.
    #[error("the server is Postgres {version}, 14 or newer is needed")]
    OldServer {
        /// What it is.
        version: String,
    },
    /// A migration of this database is not one this binary knows, or was changed.
    #[error("the migrations in the database do not match this binary's; nothing was changed")]
    Mismatch(#[source] sqlx::migrate::MigrateError),
    /// Somebody else holds a table.
    #[error(
        "a table was in use for longer than a migration waits, so that nobody has to wait behind it; that migration was not applied. What holds \
         it: select * from david.v_blockers; then try again"
    )]
    Busy(#[source] sqlx::Error),
    /// The database did not answer, or refused.
    #[error("the database cannot be migrated")]
    Database(#[source] sqlx::Error),
}

impl MigrateError {
    /// Whether the role may not do that.
    pub fn is_forbidden(&self) -> bool {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = source {
            if let Some(sqlx::Error::Database(error)) = error.downcast_ref() {
                return error.code().as_deref() == Some("42501");
            }
            source = error.source();
        }
        false
    }
}

/// Applies what is missing. Several callers may try at once: an advisory lock lets one through.
///
/// # Errors
/// See [`MigrateError`]; the database is as it was, or at the level of the last whole migration.
pub async fn migrate(pool: &PgPool) -> Result<Migrated, MigrateError> {
    refuse_unfit_server(pool).await.map_err(MigrateError::Database)??;

    let read = async || applied(&mut *pool.acquire().await?).await;
    let before = read().await.map_err(MigrateError::Database)?;
    if before.is_none() {
        let objects = foreign_objects(pool).await.map_err(MigrateError::Database)?;
        if objects > 0 {
            return Err(MigrateError::ForeignSchema { objects });
        }
    }

    MIGRATOR.run(pool).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(source)
        | sqlx::migrate::MigrateError::ExecuteMigration(source, _) => {
            let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
            if code.as_deref() == Some(LOCK_NOT_AVAILABLE) {
                MigrateError::Busy(source)
            } else {
                MigrateError::Database(source)
            }
        }
        other => MigrateError::Mismatch(other),
    })?;

    let after = read().await.map_err(MigrateError::Database)?.unwrap_or_default();
    Ok(Migrated {
        applied: after.len().saturating_sub(before.map_or(0, |known| known.len())),
        level: after.last().copied().unwrap_or_default(),
    })
}

/// The versions recorded in the database; none when it has no record.
pub(crate) async fn applied(connection: &mut PgConnection) -> Result<Option<Vec<i64>>, sqlx::Error> {
    let recorded =
        sqlx::query_file_scalar!("../../sql/has_migrations.sql").fetch_one(&mut *connection).await?;
    if !recorded {
        return Ok(None);
    }
    let levels = sqlx::query_file!("../../sql/schema_level.sql").fetch_all(connection).await?;
    Ok(Some(levels.into_iter().filter(|level| level.success).map(|level| level.version).collect()))
}

/// The migrations recorded in the database, with whether each went through and the hash of what was applied;
/// empty when it has no record.
pub(crate) async fn applied_with_checksums(
    connection: &mut PgConnection,
) -> Result<Vec<(i64, bool, Vec<u8>)>, sqlx::Error> {
    let recorded =
        sqlx::query_file_scalar!("../../sql/has_migrations.sql").fetch_one(&mut *connection).await?;
    if !recorded {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_file!("../../sql/operate/migrations.sql").fetch_all(connection).await?;
    Ok(rows.into_iter().map(|row| (row.version, row.success, row.checksum)).collect())
}

async fn foreign_objects(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_file_scalar!("../../sql/foreign_objects.sql").fetch_one(pool).await
}

async fn refuse_unfit_server(pool: &PgPool) -> Result<Result<(), MigrateError>, sqlx::Error> {
    let server = sqlx::query_file!("../../sql/server.sql").fetch_one(pool).await?;
    Ok(if server.version_number < OLDEST_SERVER {
        Err(MigrateError::OldServer { version: server.version })
    } else if server.encoding != "UTF8" {
        Err(MigrateError::Encoding { encoding: server.encoding })
    } else {
        Ok(())
    })
}
