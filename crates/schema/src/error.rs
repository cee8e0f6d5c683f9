//! What can go wrong between here and Postgres, sorted by what to do about it.

/// What a failed statement calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Deadlock or serialisation failure (`40P01`, `40001`), or a lock that did not come in time
    /// (`55P03`): nothing was written; the same again may well pass.
    Conflict,
    /// The connection broke, the server is restarting, failing over or read-only, or the pool is
    /// exhausted. If it happened at COMMIT, nobody knows whether it was written.
    Unavailable,
    /// The remote id belongs to another live row (the unique index on it).
    RemoteTaskTaken,
    /// The server refuses the data or the statement: the same again will be refused again.
    Refused,
}

/// Sorts an error of sqlx.
pub fn fault_of(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Database(db) => match db.code().as_deref() {
            Some("40001" | "40P01" | "55P03") => Fault::Conflict,
            Some("23505") if db.constraint() == Some("mcp_action_tasks_remote_task") => {
                Fault::RemoteTaskTaken
            }
            // Connection exceptions, insufficient resources, operator intervention (restart,
            // statement time-out), system errors, and a standby that is not promoted yet.
            Some(code)
                if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class))
                    || code == "25006" =>
            {
                Fault::Unavailable
            }
            Some(_) | None => Fault::Refused,
        },
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Fault::Unavailable,
        _ => Fault::Refused,
    }
}

/// A read or a release that did not happen.
#[derive(Debug, thiserror::Error)]
#[error("the database did not {what}")]
pub struct LedgerError {
    what: &'static str,
    #[source]
    source: sqlx::Error,
}

impl LedgerError {
    pub(crate) fn new(what: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self { what, source }
    }

    /// What to do about it.
    pub fn fault(&self) -> Fault {
        fault_of(&self.source)
    }
}

/// A write that did not happen, or may not have happened.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Try the same write again: it recognises itself if it was written after all (rule 2).
    #[error("the database is not available for writing")]
    Unavailable(#[source] std::sync::Arc<sqlx::Error>),
    /// The remote id belongs to another live row: `protocol_error` for this one, and the id must
    /// not be cancelled (DESIGN §3).
    #[error("the server gave this task the id of another live task")]
    RemoteTaskTaken,
    /// The database refuses this row's data for good.
    #[error("the database refuses the write")]
    Refused(#[source] std::sync::Arc<sqlx::Error>),
}
