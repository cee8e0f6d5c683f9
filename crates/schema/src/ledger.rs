//! A pool of connections to the database that holds the ledger.

use std::fmt;
use std::io;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};

use crate::LedgerError;

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// `postgres://…`. May hold a password; never logged.
    pub url: String,
    /// Connections at most.
    pub connections: u32,
    /// How long one statement may take. The server ends it then; a connection that leads nowhere any
    /// more is given up after twice that.
    pub statement_timeout: Duration,
    /// How long to wait for a free connection or a new one.
    pub acquire_timeout: Duration,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// Whose the sessions are.
    pub sessions: Sessions,
}

/// The URL may hold a password.
impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("application_name", &self.application_name)
            .finish_non_exhaustive()
    }
}

/// Whether a connection is one session of Postgres from its begin to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// It is: settings and prepared statements stay.
    Ours,
    /// A pooler lends another session to every transaction: nothing stays, and everything is sent within
    /// one.
    Shared,
}

/// For a pool whose statement time-out is not known here.
const PATIENCE: Duration = Duration::from_secs(20);

/// A black-holed address must not hold up a start.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);

/// The ledger: leases rows, commits decisions.
#[derive(Debug, Clone)]
pub struct Ledger {
    pool: PgPool,
    /// What every transaction begins with; none when the session has it already.
    preamble: Option<String>,
    /// How long one use of a connection may take, from its first statement to its last answer.
    patience: Duration,
}

impl Ledger {
    /// Prepares a pool; connections are made when needed, so a database that is down at start is
    /// waited for like one that goes down later.
    ///
    /// # Errors
    /// When the URL cannot be read.
    pub fn open(options: &ConnectOptions) -> Result<Self, sqlx::Error> {
        if !(options.url.starts_with("postgres://") || options.url.starts_with("postgresql://")) {
            return Err(sqlx::Error::Configuration(
                "it should look like postgres://user@host:5432/database".into(),
            ));
        }
        let limit = format!("{}ms", options.statement_timeout.as_millis());
        let connect = options.url.parse::<PgConnectOptions>()?.application_name(&options.application_name);
        // A call that is marked `calling` must still be marked after a crash (rule 1), whatever the
        // server's or the role's default is.
        let (connect, preamble) = match options.sessions {
            Sessions::Ours => {
                let settings = [
                    ("synchronous_commit", "on"),
                    ("statement_timeout", &limit),
                    ("idle_in_transaction_session_timeout", &limit),
                ];
                (connect.options(settings), None)
            }
            Sessions::Shared => {
                // Whoever had the session before may have left statements by the names that we use.
                let preamble = format!(
                    "deallocate all; set local synchronous_commit = on; set local statement_timeout = '{limit}';
                     set local idle_in_transaction_session_timeout = '{limit}'"
                );
                (connect.statement_cache_capacity(0), Some(preamble))
            }
        };
        let pool = PgPoolOptions::new()
            .max_connections(options.connections)
            .acquire_timeout(options.acquire_timeout)
            // A ping before each statement would double its cost; a broken connection shows itself
            // in the statement, and every statement here can be repeated.
            .test_before_acquire(false)
            .connect_lazy_with(connect);
        Ok(Self { pool, preamble, patience: options.statement_timeout.saturating_mul(2) })
    }

    /// Connects once, outside the pool, which would only say that it waited in vain.
    ///
    /// # Errors
    /// Why the database cannot be reached.
    pub async fn reach(&self) -> Result<(), LedgerError> {
        let options = self.pool.connect_options();
        let connected = tokio::time::timeout(REACH_TIMEOUT, PgConnection::connect_with(&options)).await;
        connected.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(LedgerError::new("answer"))?;
        Ok(())
    }

    /// Uses a pool that is there already.
    pub fn from_pool(pool: PgPool) -> Self {
        Self { pool, preamble: None, patience: PATIENCE }
    }

    /// One use of a pooled connection, bounded here as well as by the server: when the network
    /// swallows what is sent, the server's `statement_timeout` never reaches us, and TCP takes a
    /// quarter of an hour to notice. Such a connection does not go back to the pool, and nobody
    /// knows what was written.
    pub(crate) async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let worked = async {
            let Some(preamble) = &self.preamble else { return work(&mut connection).await };
            // A transaction that `work` begins is a savepoint in this one.
            let mut transaction = connection.begin().await?;
            sqlx::raw_sql(AssertSqlSafe(preamble.as_str())).execute(&mut *transaction).await?;
            let done = work(&mut transaction).await?;
            transaction.commit().await?;
            Ok(done)
        };
        match tokio::time::timeout(self.patience, worked).await {
            Ok(done) => done,
            Err(_elapsed) => {
                connection.close_on_drop();
                let words = format!("the connection gave no answer in {:?}", self.patience);
                Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, words)))
            }
        }
    }

    /// The pool, for what is not lease and commit: migrations, counts for a report.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}
