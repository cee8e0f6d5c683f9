//! What a check tells.

use serde::Serialize;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Something does not work, or a promise does not hold.
    Error,
    /// It works, and will cause trouble.
    Warning,
    /// To be known. It does not change the exit code.
    Notice,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// One word for programs; docs/cli.md has them all.
    pub(super) check: &'static str,
    /// The setting, role, table, registration, credential or file it is about.
    pub(super) subject: Option<String>,
    /// What was found, a sentence.
    pub(super) what: String,
    /// Why that matters.
    pub(super) why: String,
    /// A command or SQL that mends it.
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, check: &'static str, what: impl Into<String>) -> Self {
        Self { severity, check, subject: None, what: what.into(), why: String::new(), fix: String::new() }
    }

    pub(super) fn of(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    pub(super) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}

/// A name as it stands in SQL.
pub(super) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
