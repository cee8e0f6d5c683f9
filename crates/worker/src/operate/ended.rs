//! Exit codes.

use std::process::ExitCode;

/// Shown at the end of `--help`; docs/cli.md has the same table.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  done, also when there was nothing left to do
  1  failed: the database cannot be reached, for example
  2  wrong usage
  3  worker: stopped with calls still out
  4  sdk-audit: a gate is not passed
  5  there is no such Action, Run, registration or replica
  6  refused by how it stands: it has ended, or is being called
  7  doctor: there are problems; migrate --check: the schema is another program's
  8  migrations are pending (migrate --check, and every command that needs them)
  9  the role may not do that";

/// How a command ended, if it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As it should.
    Done,
    /// The arguments make no sense to the database.
    Senseless,
    /// There is no such thing.
    NotFound,
    /// How it stands does not allow it.
    Refused,
    /// `doctor` has found problems.
    Unhealthy,
    /// Migrations are pending.
    Pending,
    /// The role may not.
    NotPermitted,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(match ended {
            Ended::Done => 0,
            Ended::Senseless => 2,
            Ended::NotFound => 5,
            Ended::Refused => 6,
            Ended::Unhealthy => 7,
            Ended::Pending => 8,
            Ended::NotPermitted => 9,
        })
    }
}
