//! Does what lies between here and Postgres lend one session to several connections?

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::Operator;
use crate::LedgerError;

/// What a connection is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lends {
    /// A session of its own.
    Sessions,
    /// Another session for every transaction, perhaps.
    Transactions,
}

/// A session that is busy elsewhere must not be taken for one that is ours alone.
const TRIES: usize = 5;

const TIMEOUT: Duration = Duration::from_secs(10);

impl Operator {
    /// Makes two connections and looks whether they ever share a process of Postgres, which only a pooler of
    /// transactions or statements brings about.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn lends(&self) -> Result<Lends, LedgerError> {
        let looked = tokio::time::timeout(TIMEOUT, self.look());
        looked
            .await
            .unwrap_or(Err(sqlx::Error::PoolTimedOut))
            .map_err(LedgerError::new("say whose its sessions are"))
    }

    async fn look(&self) -> Result<Lends, sqlx::Error> {
        let options = self.ledger.pool().connect_options();
        let mut first = PgConnection::connect_with(&options).await?;
        let mut second = PgConnection::connect_with(&options).await?;
        let mut lends = Lends::Sessions;
        for _ in 0..TRIES {
            let before = process(&mut first).await?;
            // In a transaction the second one keeps what it is lent, so the first, if it had the same, needs another.
            second.execute(sqlx::raw_sql("begin")).await?;
            let other = process(&mut second).await?;
            let after = process(&mut first).await?;
            second.execute(sqlx::raw_sql("rollback")).await?;
            if before == other || before != after {
                lends = Lends::Transactions;
                break;
            }
        }
        // Nothing depends on whether the goodbye arrives.
        drop(tokio::join!(first.close(), second.close()));
        Ok(lends)
    }
}

/// By the simple protocol, which works whoever had the session before.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    connection.fetch_one(sqlx::raw_sql("select pg_backend_pid()")).await?.try_get(0)
}
