//! Throwing away what is over.

use std::time::Duration;

use crate::lease::micros;
use crate::{Ledger, LedgerError};

/// What one batch threw away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Finalised tasks, with their arguments and questions.
    pub tasks: u64,
    /// Outputs that Core acknowledged; all, when an operator asked for that.
    pub outputs: u64,
    /// Lines of history whose task is gone.
    pub events: u64,
}

impl Pruned {
    /// All of it.
    pub fn total(self) -> u64 {
        self.tasks + self.outputs + self.events
    }
}

impl std::ops::AddAssign for Pruned {
    fn add_assign(&mut self, more: Self) {
        self.tasks += more.tasks;
        self.outputs += more.outputs;
        self.events += more.events;
    }
}

impl Ledger {
    /// Throws away one batch of what ended longer ago than `keep`; `batch` bounds each kind. None when another
    /// replica is at it.
    ///
    /// # Errors
    /// When the database does not answer, or this role may not prune.
    pub async fn prune(&self, keep: Duration, batch: u32) -> Result<Option<Pruned>, LedgerError> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        let row = self
            .run(async |connection| {
                sqlx::query_file!("../../sql/prune.sql", micros(keep), batch).fetch_optional(connection).await
            })
            .await
            .map_err(LedgerError::new("prune"))?;
        Ok(row.map(|row| Pruned {
            tasks: row.tasks.unsigned_abs(),
            outputs: row.outputs.unsigned_abs(),
            events: row.events.unsigned_abs(),
        }))
    }
}
