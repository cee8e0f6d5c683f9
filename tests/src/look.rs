//! Looking at what became of Actions, and waiting until it is so.

use std::time::Duration;

use anyhow::Context as _;
use david_testkit::{Replica, eventually};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Postgres, Row as _, Type};

use crate::Action;
use crate::world::{World, id_of};

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// How an Action stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The task's phase.
    pub phase: String,
    /// Its outcome.
    pub outcome: Option<String>,
    /// The Action's status.
    pub status: String,
    /// How many outputs it has.
    pub outputs: i64,
    /// The envelope, when there is one.
    pub envelope: Option<Value>,
    /// Its events, in order.
    pub events: Vec<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

impl World {
    /// How an Action stands.
    ///
    /// # Errors
    /// When it is gone.
    pub async fn standing(&self, action: &Action) -> anyhow::Result<Standing> {
        let row = sqlx::query(
            "select t.phase, t.outcome, t.last_error, a.status,
                    (select count(*) from david.tool_outputs o where o.action_id = a.id) as outputs,
                    (select max(o.envelope::text) from david.tool_outputs o where o.action_id = a.id) as envelope,
                    array(select e.event from david.mcp_task_events e where e.action_id = a.id order by e.id) as events
               from david.actions a
               join david.mcp_action_tasks t on t.action_id = a.id
              where a.id = $1",
        )
        .bind(&action.id)
        .fetch_one(&self.db.pool)
        .await
        .with_context(|| format!("{} is gone", action.id))?;
        let envelope: Option<String> = row.try_get("envelope")?;
        Ok(Standing {
            phase: row.try_get("phase")?,
            outcome: row.try_get("outcome")?,
            status: row.try_get("status")?,
            outputs: row.try_get("outputs")?,
            envelope: envelope.map(|text| serde_json::from_str(&text)).transpose()?,
            events: row.try_get("events")?,
            last_error: row.try_get("last_error")?,
        })
    }

    /// An expression over an Action: its row `a`, its task's `t`, its output's `o` if there is one.
    ///
    /// # Errors
    /// When the Action is gone or the expression is not of that type.
    pub async fn of<T>(&self, action: &Action, expression: &str) -> anyhow::Result<T>
    where
        T: Send + Unpin + Type<Postgres> + for<'r> sqlx::Decode<'r, Postgres>,
    {
        let query = format!(
            "select {expression}
               from david.actions a
               join david.mcp_action_tasks t on t.action_id = a.id
               left join david.tool_outputs o on o.action_id = a.id
              where a.id = $1"
        );
        let value = sqlx::query_scalar(AssertSqlSafe(query)).bind(&action.id).fetch_one(&self.db.pool).await;
        value.with_context(|| format!("{expression} of {}", action.id))
    }

    /// The Actions in `phase`.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn in_phase(&self, phase: &str) -> anyhow::Result<Vec<String>> {
        let ids = sqlx::query_scalar("select action_id from david.mcp_action_tasks where phase = $1");
        Ok(ids.bind(phase).fetch_all(&self.db.pool).await?)
    }

    /// The Actions whose call this replica has begun and not ended.
    ///
    /// # Errors
    /// When the database does not answer, or the replica never said who it was.
    pub async fn in_call_of(&self, replica: &Replica) -> anyhow::Result<Vec<String>> {
        let ids = sqlx::query_scalar(
            "select action_id from david.mcp_action_tasks where phase = 'calling' and leased_by = $1::uuid",
        );
        Ok(ids.bind(id_of(replica)?).fetch_all(&self.db.pool).await?)
    }

    /// Everything that stands in the schema's tables, as text.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn everything_written(&self) -> anyhow::Result<String> {
        let tables: Vec<String> =
            sqlx::query_scalar("select tablename::text from pg_tables where schemaname = 'david'")
                .fetch_all(&self.db.pool)
                .await?;
        let mut written = String::new();
        for table in tables {
            let rows = format!("select coalesce(string_agg(t::text, chr(10)), '') from david.{table} t");
            let rows: String = sqlx::query_scalar(AssertSqlSafe(rows)).fetch_one(&self.db.pool).await?;
            written.push_str(&rows);
        }
        Ok(written)
    }

    /// How many Actions have ended, remote cancel included.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn ended(&self) -> anyhow::Result<usize> {
        Ok(self.in_phase("finalised").await?.len())
    }

    /// Waits until the Action is in `phase`.
    ///
    /// # Errors
    /// When it does not get there; says how it stands instead.
    pub async fn until_phase(&self, action: &Action, phase: &str) -> anyhow::Result<Standing> {
        eventually(PATIENCE, &format!("{} is {phase}", action.id), async || {
            let standing = self.standing(action).await.map_err(|error| format!("{error:#}"))?;
            if standing.phase == phase { Ok(standing) } else { Err(format!("{standing:?}")) }
        })
        .await
    }

    /// Waits until the Action has ended, remote cancel included.
    ///
    /// # Errors
    /// When it does not end; says how it stands instead.
    pub async fn until_ended(&self, action: &Action) -> anyhow::Result<Standing> {
        self.until_phase(action, "finalised").await
    }

    /// Waits until all of them have ended, and returns how they stand, in the same order.
    ///
    /// # Errors
    /// When one does not end; says which do not.
    pub async fn until_all_ended(&self, actions: &[Action]) -> anyhow::Result<Vec<Standing>> {
        eventually(PATIENCE * 2, "every Action has ended", async || {
            let open: i64 =
                sqlx::query_scalar("select count(*) from david.mcp_action_tasks where phase <> 'finalised'")
                    .fetch_one(&self.db.pool)
                    .await
                    .map_err(|error| error.to_string())?;
            if open == 0 { Ok(()) } else { Err(format!("{open} have not")) }
        })
        .await?;
        let mut standings = Vec::with_capacity(actions.len());
        for action in actions {
            standings.push(self.standing(action).await?);
        }
        Ok(standings)
    }

    /// Waits for a replica to end by itself.
    ///
    /// # Errors
    /// When it goes on.
    pub async fn until_dead(&self, replica: &Replica) -> anyhow::Result<std::process::ExitStatus> {
        replica.wait_exit(PATIENCE).await
    }
}
