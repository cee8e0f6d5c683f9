//! One test's surroundings.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use david_sample::{Ledger, Options, Server};
use david_testkit::replica::ReplicaCommand;
use david_testkit::{RawServer, Replica, TestDb};
use serde_json::{Value, json};

use crate::{Action, Submission};

/// Whose Runs and registrations they are.
pub const USER: &str = "user_e2e";

/// The sample server's registration.
pub const REGISTRATION: &str = "reg_sample";

/// The bearer credential of [`World::raw_server_with_credential`].
pub const CREDENTIAL: &str = "cred_e2e";

/// A raw server's registration, see [`World::raw_server`].
pub const RAW: &str = "reg_raw";

/// A database, a server, and a way to start replicas.
pub struct World {
    /// The database.
    pub db: TestDb,
    /// The sample server, registered as [`REGISTRATION`].
    pub server: Server,
    next: AtomicU32,
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

    /// A server that answers what the test tells it to, registered as [`RAW`].
    ///
    /// # Errors
    /// When it does not start or the database refuses.
    pub async fn raw_server(&self) -> anyhow::Result<RawServer> {
        let server = RawServer::start().await?;
        self.register(RAW, &server.url()).await?;
        Ok(server)
    }

    /// Registers a server for the user, with a time limit of two seconds per call.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn register(&self, id: &str, url: &str) -> anyhow::Result<()> {
        self.register_for(USER, id, url).await
    }

    /// Registers a server for anybody.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn register_for(&self, owner: &str, id: &str, url: &str) -> anyhow::Result<()> {
        sqlx::query(
            "insert into david.mcp_server_registrations
                    (id, owner_id, name, url, normalized_url, identity_key, timeout_seconds)
             values ($1, $2, $1, $3, $3, $1, 2)",
        )
        .bind(id)
        .bind(owner)
        .bind(url)
        .execute(&self.db.pool)
        .await?;
        Ok(())
    }

    /// A server that answers what the test tells it to and wants the bearer credential `cred_e2e`,
    /// registered as [`RAW`].
    ///
    /// # Errors
    /// When it does not start or the database refuses.
    pub async fn raw_server_with_credential(&self) -> anyhow::Result<RawServer> {
        let server = RawServer::start().await?;
        sqlx::query(
            "insert into david.mcp_server_registrations
                    (id, owner_id, name, url, normalized_url, identity_key, timeout_seconds, auth_type, credential_id)
             values ($1, $2, $1, $3, $3, $1, 2, 'bearer', $4)",
        )
        .bind(RAW)
        .bind(USER)
        .bind(server.url())
        .bind(CREDENTIAL)
        .execute(&self.db.pool)
        .await?;
        Ok(server)
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
            .env("DAVID_TASKS_BREAKER_BASE", "100ms")
            .env("DAVID_TASKS_BREAKER_CAP", "400ms")
            .env("DAVID_TASKS_RETRY_BASE", "50ms")
            .env("DAVID_TASKS_RETRY_CAP", "200ms")
            .env("DAVID_TASKS_IDLE_INTERVAL", "20ms")
    }

    /// Submits an Action in a Run of its own.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn submit(&self, submission: Submission) -> anyhow::Result<Action> {
        let action = self.begin_run().await?;
        self.submit_to(&action, submission).await?;
        Ok(action)
    }

    /// A Run, and the name of the Action that it is to have.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn begin_run(&self) -> anyhow::Result<Action> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let action = Action { id: format!("act_{number:022}"), run: format!("run_{number:022}") };
        sqlx::query("insert into david.runs (id, user_id, status) values ($1, $2, 'pending_action')")
            .bind(&action.run)
            .bind(USER)
            .execute(&self.db.pool)
            .await?;
        Ok(action)
    }

    /// Submits the Action of a Run that was begun.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn submit_to(&self, action: &Action, submission: Submission) -> anyhow::Result<()> {
        let mut arguments = submission.arguments;
        if let Some(object) = arguments.as_object_mut() {
            object.insert("key".to_owned(), json!(action.id));
        }
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
        Ok(())
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
        sqlx::query(
            "update david.mcp_action_tasks set due_at = now() where leased_by = $1::uuid and phase <> 'finalised'",
        )
        .bind(id_of(replica)?)
        .execute(&self.db.pool)
        .await?;
        Ok(())
    }

    /// Executes statements that stand for what somebody does, or for time passing.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn execute(&self, statement: &'static str) -> anyhow::Result<u64> {
        Ok(sqlx::query(statement).execute(&self.db.pool).await?.rows_affected())
    }

    /// Answers every open question of an Action with this; returns how many were open.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn answer(&self, action: &Action, response: &Value) -> anyhow::Result<usize> {
        let answered = sqlx::query(
            "select david.answer_input($1, i.key, $2::json)
               from david.mcp_action_tasks t
               join david.mcp_input_requests i on i.task_id = t.id and i.round = t.input_round
              where t.action_id = $1 and t.phase = 'input_required' and i.state = 'pending'",
        );
        Ok(answered.bind(&action.id).bind(response.to_string()).fetch_all(&self.db.pool).await?.len())
    }
}

/// The replica's identity, as it logs it.
pub(crate) fn id_of(replica: &Replica) -> anyhow::Result<String> {
    let logs = replica.logs();
    let id = logs.split("\"replica.id\":\"").nth(1).and_then(|rest| rest.split('"').next());
    Ok(id.with_context(|| format!("the replica did not say who it is:\n{logs}"))?.to_owned())
}
