//! One test's surroundings.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use david_sample::{Ledger, Options, Server};
use david_testkit::replica::ReplicaCommand;
use david_testkit::{Replica, TestDb, eventually};
use serde_json::{Value, json};
use sqlx::Row as _;

use crate::{Action, Submission};

/// Whose Runs and registrations they are.
pub const USER: &str = "user_e2e";

/// The sample server's registration.
pub const REGISTRATION: &str = "reg_sample";

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database, a server, and a way to start replicas.
pub struct World {
    /// The database.
    pub db: TestDb,
    /// The sample server, registered as [`REGISTRATION`].
    pub server: Server,
    next: AtomicU32,
}

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
    /// A fresh one.
    ///
    /// # Errors
    /// When Postgres or the server does not start.
    pub async fn new() -> anyhow::Result<Self> {
        let db = TestDb::create().await?;
        let poll_interval = Duration::from_millis(50);
        let server = Server::start(Options { poll_interval, ..Options::default() }).await?;
        let world = Self { db, server, next: AtomicU32::new(0) };
        world.register(REGISTRATION, &world.server.url()).await?;
        Ok(world)
    }

    /// Registers a server for the user, with a time limit of two seconds per call.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn register(&self, id: &str, url: &str) -> anyhow::Result<()> {
        sqlx::query(
            "insert into david.mcp_server_registrations
                    (id, owner_id, name, url, normalized_url, identity_key, timeout_seconds)
             values ($1, $2, $1, $3, $3, $1, 2)",
        )
        .bind(id)
        .bind(USER)
        .bind(url)
        .execute(&self.db.pool)
        .await?;
        Ok(())
    }

    /// What the sample server counted.
    pub fn ledger(&self) -> Ledger {
        self.server.ledger()
    }

    /// A replica of `executable`, not started yet, quick in everything a test would wait for.
    pub fn replica(&self, executable: &str) -> ReplicaCommand {
        self.replica_at(executable, &self.db.url)
    }

    /// The same, with another way to the database.
    pub fn replica_at(&self, executable: &str, database_url: &str) -> ReplicaCommand {
        Replica::command(Path::new(executable), database_url)
            .arg("worker")
            .env("DAVID_TASKS_TRUSTED_HOSTS", "127.0.0.1")
            .env("DAVID_TASKS_LEASE_TERM", "8s")
            .env("DAVID_TASKS_POLL_TIMEOUT", "2s")
            .env("DAVID_TASKS_CALL_GRACE", "2s")
            .env("DAVID_TASKS_POLL_BASE", "100ms")
            .env("DAVID_TASKS_RETRY_BASE", "50ms")
            .env("DAVID_TASKS_RETRY_CAP", "200ms")
            .env("DAVID_TASKS_IDLE_INTERVAL", "20ms")
    }

    /// Submits an Action in a Run of its own.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn submit(&self, submission: Submission) -> anyhow::Result<Action> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let action = Action { id: format!("act_{number:022}"), run: format!("run_{number:022}") };
        let mut arguments = submission.arguments;
        if let Some(object) = arguments.as_object_mut() {
            object.insert("key".to_owned(), json!(action.id));
        }
        sqlx::query("insert into david.runs (id, user_id, status) values ($1, $2, 'pending_action')")
            .bind(&action.run)
            .bind(USER)
            .execute(&self.db.pool)
            .await?;
        sqlx::query(
            "select david.submit_action($1, $2, $3, $4, $4, $5::json, p_tool_call_id => 'call_1',
                                        p_idempotent => $6, p_remote_task_id => $7)",
        )
        .bind(&action.id)
        .bind(&action.run)
        .bind(submission.registration)
        .bind(submission.tool)
        .bind(arguments.to_string())
        .bind(submission.idempotent)
        .bind(submission.remote_task_id)
        .execute(&self.db.pool)
        .await?;
        Ok(action)
    }

    /// Cancels a Run the way Core does: by plain UPDATE.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn cancel(&self, action: &Action) -> anyhow::Result<()> {
        sqlx::query("update david.runs set status = 'cancelled', cancelled_at = now() where id = $1")
            .bind(&action.run)
            .execute(&self.db.pool)
            .await?;
        Ok(())
    }

    /// Lets time pass: every lease lapses, and every delay is over.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn let_leases_lapse(&self) -> anyhow::Result<()> {
        sqlx::query("update david.mcp_action_tasks set due_at = now() where phase <> 'finalised'")
            .execute(&self.db.pool)
            .await?;
        Ok(())
    }

    /// Lets the leases of a replica that is dead lapse.
    ///
    /// # Errors
    /// When the database refuses, or the replica never said who it was.
    pub async fn let_leases_lapse_of(&self, replica: &Replica) -> anyhow::Result<()> {
        let logs = replica.logs();
        let id = logs.split("\"replica.id\":\"").nth(1).and_then(|rest| rest.split('"').next());
        sqlx::query(
            "update david.mcp_action_tasks set due_at = now() where leased_by = $1::uuid and phase <> 'finalised'",
        )
        .bind(id.with_context(|| format!("the replica did not say who it is:\n{logs}"))?)
        .execute(&self.db.pool)
        .await?;
        Ok(())
    }

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

    /// The Actions in `phase`.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn in_phase(&self, phase: &str) -> anyhow::Result<Vec<String>> {
        let ids = sqlx::query_scalar("select action_id from david.mcp_action_tasks where phase = $1");
        Ok(ids.bind(phase).fetch_all(&self.db.pool).await?)
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

    /// Waits for a replica to end by itself.
    ///
    /// # Errors
    /// When it goes on.
    pub async fn until_dead(&self, replica: &Replica) -> anyhow::Result<std::process::ExitStatus> {
        replica.wait_exit(PATIENCE).await
    }
}
