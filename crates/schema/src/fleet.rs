//! Figures of the whole fleet, for `/metrics`: few, and cheap at any number of rows.

use std::collections::HashMap;
use std::time::Duration;

use crate::{Ledger, LedgerError};

/// The reasons of `david.v_stuck`, in the order in which it looks for them.
pub const STUCK_REASONS: [&str; 8] =
    ["paused", "server_down", "call_lost", "not_leased", "lapsing", "failing", "unanswered", "put_off"];

impl Ledger {
    /// For how long the longest due row has waited that a replica would lease; zero when nothing is due.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn oldest_due(&self) -> Result<Duration, LedgerError> {
        let oldest = self
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/oldest_due.sql").fetch_one(connection).await
            })
            .await
            .map_err(LedgerError::new("say how long rows have been due"))?;
        Ok(Duration::from_micros(oldest.and_then(|micros| u64::try_from(micros).ok()).unwrap_or(0)))
    }

    /// How many Actions have ended while their remote task is owed a cancel, counted up to 10,000.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn owed_cancels(&self) -> Result<u64, LedgerError> {
        let owed = self
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/owed_cancels.sql").fetch_one(connection).await
            })
            .await
            .map_err(LedgerError::new("count owed cancels"))?;
        Ok(u64::try_from(owed).unwrap_or(0))
    }

    /// How many rows do not get on, by the reason that `david.v_stuck` gives, within its bounds.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn stuck(&self) -> Result<HashMap<String, u64>, LedgerError> {
        let rows = self
            .run(async |connection| {
                sqlx::query_file!("../../sql/stuck_reasons.sql").fetch_all(connection).await
            })
            .await
            .map_err(LedgerError::new("count rows that do not get on"))?;
        Ok(rows.into_iter().map(|row| (row.reason, u64::try_from(row.stuck).unwrap_or(0))).collect())
    }

    /// How many connections the pool has, how many of them are idle, and how many it may have.
    pub fn connections(&self) -> Connections {
        let pool = self.pool();
        Connections {
            open: pool.size(),
            idle: u32::try_from(pool.num_idle()).unwrap_or(u32::MAX),
            most: pool.options().get_max_connections(),
        }
    }
}

/// The state of a pool of connections at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// All of them.
    pub open: u32,
    /// Those of them that nobody uses.
    pub idle: u32,
    /// All that may be open.
    pub most: u32,
}
