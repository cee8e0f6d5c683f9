//! Why an operator's statement did not do what it should, sorted by what to do about it.

use sqlx::postgres::PgDatabaseError;

/// What a typed SQLSTATE means (docs/core-contract.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedKind {
    /// `DT001`: the arguments make no sense.
    Senseless,
    /// `DT002`: it was done before, and otherwise.
    Different,
    /// `DT003`: there is no such Run, Action or registration.
    NotFound,
    /// `DT004`: it has ended.
    TooLate,
    /// `DT005`: a call may be on the wire.
    NotNow,
    /// `42501`: the role may not do that.
    NotPermitted,
    /// A view or function is not there: the schema is older than this binary.
    NoSchema,
}

/// A clear no of the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What it means.
    pub kind: RefusedKind,
    /// What the database says.
    pub message: String,
    /// What it says to do, in SQL.
    pub hint: Option<String>,
}

/// An operator's statement that did not go through.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// A clear no.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The database did not answer, or something is wrong with it.
    #[error("the database did not {what}")]
    Database {
        /// Completes the sentence.
        what: &'static str,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// What a view showed is not what it should be.
    #[error("what the database shows cannot be read")]
    Unreadable(#[from] serde_json::Error),
}

impl OperatorError {
    pub(super) fn new(what: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| match refused(&source) {
            Some(refused) => Self::Refused(refused),
            None => Self::Database { what, source },
        }
    }
}

fn refused(error: &sqlx::Error) -> Option<Refused> {
    let error = error.as_database_error()?;
    let kind = kind_of(error.code().as_deref()?)?;
    let hint = error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::hint);
    Some(Refused { kind, message: error.message().to_owned(), hint: hint.map(str::to_owned) })
}

fn kind_of(code: &str) -> Option<RefusedKind> {
    Some(match code {
        "DT001" => RefusedKind::Senseless,
        "DT002" => RefusedKind::Different,
        "DT003" => RefusedKind::NotFound,
        "DT004" => RefusedKind::TooLate,
        "DT005" => RefusedKind::NotNow,
        "42501" => RefusedKind::NotPermitted,
        // Schema, table, function, column.
        "3F000" | "42P01" | "42883" | "42703" => RefusedKind::NoSchema,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_typed_sqlstate_has_its_meaning_and_all_others_have_none() {
        for (code, kind) in [
            ("DT001", RefusedKind::Senseless),
            ("DT002", RefusedKind::Different),
            ("DT003", RefusedKind::NotFound),
            ("DT004", RefusedKind::TooLate),
            ("DT005", RefusedKind::NotNow),
            ("42501", RefusedKind::NotPermitted),
            ("42P01", RefusedKind::NoSchema),
            ("42883", RefusedKind::NoSchema),
        ] {
            assert_eq!(kind_of(code), Some(kind), "{code}");
        }
        for code in ["40P01", "57014", "08006", "XX000", "DT999"] {
            assert_eq!(kind_of(code), None, "{code}");
        }
    }
}
