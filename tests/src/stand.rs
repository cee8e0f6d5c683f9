//! A cluster of its own for a test that misconfigures one.

use std::time::Duration;

use anyhow::Context as _;
use david_testkit::{Postgres, eventually};
use serde_json::Value;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::process::Command;

use crate::said::Said;

const PATIENCE: Duration = Duration::from_secs(30);

/// A durable cluster with one migrated database, `core`, and logins `worker`, `operator` and `core_login`.
pub struct Stand {
    /// The server.
    pub postgres: Postgres,
    /// As the superuser, in the database.
    pub pool: PgPool,
    executable: &'static str,
}

impl Stand {
    /// A healthy one. `executable` is `david-tasks`.
    ///
    /// # Errors
    /// When Postgres does not start.
    pub async fn new(executable: &'static str) -> anyhow::Result<Self> {
        let settings = [("wal_level", "logical"), ("idle_in_transaction_session_timeout", "5min")];
        let postgres = Postgres::start_with(&settings)?;
        let admin = PgPoolOptions::new().max_connections(1).connect(&postgres.url("postgres")).await?;
        sqlx::raw_sql("create database core encoding 'UTF8' template template0").execute(&admin).await?;
        admin.close().await;
        let migrated = Said::by(executable, &postgres.url("core"), &["migrate"]).await?;
        anyhow::ensure!(migrated.code == 0, "{migrated:?}");
        let pool = PgPoolOptions::new().max_connections(4).connect(&postgres.url("core")).await?;
        let stand = Self { postgres, pool, executable };
        stand
            .sql(
                "create role worker login in role david_worker;
                 create role operator login in role david_operator;
                 create role core_login login in role david_core",
            )
            .await?;
        Ok(stand)
    }

    /// The database's URL for a role.
    pub fn url(&self, role: &str) -> String {
        self.postgres.url("core").replace("postgres@", &format!("{role}@"))
    }

    /// Executes statements as the superuser.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn sql(&self, statements: &str) -> anyhow::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&self.pool).await.context(statements.to_owned())?;
        Ok(())
    }

    /// Registers a server that is reached by plain http; with a credential, if one is named.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn register(&self, id: &str, url: &str, credential: Option<&str>) -> anyhow::Result<()> {
        sqlx::query(
            "insert into david.mcp_server_registrations
                    (id, owner_id, name, url, normalized_url, identity_key, auth_type, credential_id)
             values ($1, 'user_1', $1, $2, $2, $1, case when $3::text is null then 'none' else 'bearer' end, $3)",
        )
        .bind(id)
        .bind(url)
        .bind(credential)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// `david-tasks doctor --json` as a role.
    ///
    /// # Errors
    /// When it cannot be run.
    pub async fn doctor(&self, role: &str, args: &[&str]) -> anyhow::Result<Said> {
        self.doctor_at(&self.url(role), args).await
    }

    /// The same, with another way to the database.
    ///
    /// # Errors
    /// When it cannot be run.
    pub async fn doctor_at(&self, url: &str, args: &[&str]) -> anyhow::Result<Said> {
        let mut command = Command::new(self.executable);
        command
            .args(["doctor", "--json", "--trusted-hosts", "127.0.0.1"])
            .args(args)
            .env("DATABASE_URL", url);
        Said::of(command).await
    }

    /// Waits until doctor finds exactly these, each as `check subject`; settings take effect a moment after they are made.
    ///
    /// # Errors
    /// When it finds others after a while.
    pub async fn until_found(&self, role: &str, args: &[&str], wanted: &[&str]) -> anyhow::Result<Value> {
        eventually(PATIENCE, &format!("doctor finds {wanted:?}"), async || {
            let said = self.doctor(role, args).await.map_err(|error| format!("{error:#}"))?;
            let found = found(&said);
            let unhealthy = said.json()["findings"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|one| one["severity"] != "notice");
            if found == wanted && said.code == if unhealthy { 7 } else { 0 } {
                Ok(said.json())
            } else {
                Err(format!("{found:?} {said:?}"))
            }
        })
        .await
    }
}

/// What doctor found, each as `check subject`, sorted.
pub fn found(said: &Said) -> Vec<String> {
    let json = said.json();
    let mut found: Vec<String> = json["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|finding| {
            let subject = finding["subject"].as_str().unwrap_or("-");
            format!("{} {subject}", finding["check"].as_str().unwrap_or_default())
        })
        .collect();
    found.sort();
    found
}
