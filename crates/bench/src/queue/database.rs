//! A database with the product's schema, and rows in it by the million.

use std::time::Duration;

use david_schema::{ConnectOptions, Ledger, Sessions};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::stand::Stand;

pub(crate) struct Database {
    name: &'static str,
    /// What is measured, connected as the product connects.
    pub(crate) ledger: Ledger,
    /// For everything else.
    pub(crate) pool: PgPool,
}

/// Each has a task, an Action, a call and a Run of its own, as `david.submit_action` makes them for an adopted
/// task, only faster.
const ROWS: [&str; 4] = [
    "insert into david.runs (id, user_id) select 'run_' || n, 'user' from generate_series(1, $1) n where $2 > 0",
    "insert into david.actions (id, run_id, tool_name, function_args)
     select 'act_' || n, 'run_' || n, 'work', '{}' from generate_series(1, $1) n where $2 > 0",
    "insert into david.mcp_action_calls (action_id, remote_tool_name)
     select 'act_' || n, 'work' from generate_series(1, $1) n where $2 > 0",
    "insert into david.mcp_action_tasks (id, action_id, registration_id, phase, due_at,
                                         remote_task_id, remote_status, poll_interval_ms)
     overriding system value
     select n, 'act_' || n, 'reg', 'working',
            case when n % $2 = 0 then now() - interval '1 minute' + n * interval '1 microsecond'
                 else now() + interval '2 hours' + n * interval '1 millisecond' end,
            'remote-' || n, 'working', 1000
       from generate_series(1, $1) n",
];

impl Database {
    pub(crate) async fn create(stand: &Stand, name: &'static str, connections: u32) -> anyhow::Result<Self> {
        let url = stand.create_database(name).await?;
        let pool = PgPoolOptions::new().max_connections(8).connect(&url).await?;
        david_schema::migrate(&pool).await?;
        sqlx::query(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             values ('reg', 'user', 'reg', 'http://127.0.0.1/', 'http://127.0.0.1/', 'reg')",
        )
        .execute(&pool)
        .await?;
        let ledger = Ledger::open(&ConnectOptions {
            url,
            connections,
            statement_timeout: Duration::from_secs(60),
            acquire_timeout: Duration::from_secs(60),
            application_name: "david-bench".to_owned(),
            sessions: Sessions::Ours,
        })?;
        Ok(Self { name, ledger, pool })
    }

    /// Makes `count` rows that work, anew. Every `stride`th is due now, the others in some hours.
    pub(crate) async fn fill(&self, count: i64, stride: i64) -> anyhow::Result<()> {
        sqlx::raw_sql(
            "truncate david.runs, david.mcp_task_events cascade;
             alter table david.mcp_action_tasks disable trigger place_task",
        )
        .execute(&self.pool)
        .await?;
        // All at once, which foreign keys would not have; they and the trigger find nothing to say here.
        futures::future::try_join_all(ROWS.map(async |rows| {
            let mut connection = self.pool.acquire().await?;
            sqlx::raw_sql("set session_replication_role = replica").execute(&mut *connection).await?;
            sqlx::query(rows).bind(count).bind(stride).execute(&mut *connection).await?;
            sqlx::raw_sql("reset session_replication_role").execute(&mut *connection).await
        }))
        .await?;
        sqlx::raw_sql("alter table david.mcp_action_tasks enable always trigger place_task")
            .execute(&self.pool)
            .await?;
        self.settle().await
    }

    /// Nothing left to be cleaned up or to be written out that is not of the next measurement.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        for statement in ["vacuum analyze", "checkpoint"] {
            sqlx::query(statement).execute(&self.pool).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop(self, stand: &Stand) -> anyhow::Result<()> {
        self.ledger.pool().close().await;
        self.pool.close().await;
        stand.drop_database(self.name).await
    }
}
