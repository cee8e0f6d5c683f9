//! What can go wrong between here and Postgres, sorted by what to do about it.

/// What a failed statement calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Deadlock or serialisation failure (`40P01`, `40001`), a lock that did not come in time (`55P03`), or
    /// a statement that took too long or too much memory (`57014`, `53200`): nothing was written; the same
    /// again, or row by row, may well pass.
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
        sqlx::Error::Database(db) => fault_of_code(db.code().as_deref(), db.constraint()),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Fault::Unavailable,
        _ => Fault::Refused,
    }
}

/// Only what is wrong with the *data* is refused for good, since an Action is ended for it. A session or a
/// deployment that is not as it should be (a revoked grant, a pooler in between, a migration under way) is
/// trouble that may pass.
fn fault_of_code(code: Option<&str>, constraint: Option<&str>) -> Fault {
    let class = code.and_then(|code| code.get(..2));
    match (code, class) {
        // A statement over its time or out of memory may be one heavy row's fault: alone, it holds up nobody.
        (Some("40001" | "40P01" | "55P03" | "57014" | "53200"), _) => Fault::Conflict,
        (Some("23505"), _) if constraint == Some("mcp_action_tasks_remote_task") => Fault::RemoteTaskTaken,
        // Data, constraints, and limits of the program.
        (_, Some("22" | "23" | "54")) => Fault::Refused,
        _ => Fault::Unavailable,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bad_data_is_refused_for_good_and_a_heavy_statement_goes_alone() {
        for (code, fault) in [
            ("40P01", Fault::Conflict),
            ("40001", Fault::Conflict),
            ("55P03", Fault::Conflict),
            ("57014", Fault::Conflict),
            ("53200", Fault::Conflict),
            ("22021", Fault::Refused),
            ("23514", Fault::Refused),
            ("54000", Fault::Refused),
            ("23505", Fault::Refused),
            ("25P03", Fault::Unavailable),
            ("25006", Fault::Unavailable),
            ("26000", Fault::Unavailable),
            ("42501", Fault::Unavailable),
            ("42P01", Fault::Unavailable),
            ("57P01", Fault::Unavailable),
            ("08006", Fault::Unavailable),
            ("XX000", Fault::Unavailable),
        ] {
            assert_eq!(fault_of_code(Some(code), None), fault, "{code}");
        }
        let taken = fault_of_code(Some("23505"), Some("mcp_action_tasks_remote_task"));
        assert_eq!(taken, Fault::RemoteTaskTaken);
        assert_eq!(fault_of_code(None, None), Fault::Unavailable);
    }
}
