//! The test stand: a durable Postgres, one MCP server, and the product's own release binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use david_testkit::{Postgres, Replica, eventually};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};

/// Requests in flight, everywhere.
pub(crate) const CONCURRENCY: usize = 256;

/// Actions submitted at a time.
const PART: usize = 2_000;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Tasks that work.
    pub(crate) tasks: usize,
    /// Length of one measurement.
    pub(crate) window: Duration,
    /// Measurements per figure.
    pub(crate) repeats: usize,
    /// Rows of which none is due, for what they cost a lease.
    pub(crate) resting: i64,
    /// No-op jobs of the fastest queue; others get a part of them.
    pub(crate) jobs: usize,
}

impl Scale {
    pub(crate) fn full() -> Self {
        // A window as long as a lease holds one lease and one write of each row. More polls are due
        // than any of this can make, so that rates are compared and not timers.
        Self { tasks: 20_000, window: Duration::from_secs(30), repeats: 3, resting: 5_000_000, jobs: 200_000 }
    }

    pub(crate) fn quick() -> Self {
        Self { tasks: 1_000, window: Duration::from_secs(5), repeats: 1, resting: 100_000, jobs: 10_000 }
    }
}

/// Everything under load.
pub(crate) struct Stand {
    pub(crate) scale: Scale,
    pub(crate) pool: PgPool,
    pub(crate) url: String,
    server: Replica,
    postgres: Postgres,
    binaries: PathBuf,
}

/// What the database has done so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) wal: f64,
    pub(crate) statements: f64,
}

impl Stand {
    pub(crate) async fn new(scale: Scale) -> anyhow::Result<Self> {
        let binaries = std::env::current_exe()?.parent().context("no folder of binaries")?.to_owned();
        let postgres = Postgres::start_for_benchmarks()?;
        let pool = PgPool::connect(&postgres.url("postgres")).await?;
        sqlx::raw_sql("create extension pg_stat_statements").execute(&pool).await?;
        david_schema::migrate(&pool).await?;
        let server = Replica::command(std::env::current_exe()?, "").arg("--serve").start()?;
        let url = eventually(Duration::from_secs(10), "the server says its URL", async || {
            let logs = server.logs();
            logs.split_whitespace()
                .find(|word| word.starts_with("http://"))
                .map(str::to_owned)
                .ok_or(logs.clone())
        })
        .await?;
        let stand = Self { scale, pool, url, server, postgres, binaries };
        stand.fresh().await?;
        Ok(stand)
    }

    /// An empty schema with the server registered.
    pub(crate) async fn fresh(&self) -> anyhow::Result<()> {
        sqlx::raw_sql(
            "truncate david.runs, david.mcp_server_registrations, david.mcp_task_events cascade;
             select pg_stat_statements_reset()",
        )
        .execute(&self.pool)
        .await?;
        sqlx::query(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             values ('reg', 'user', 'reg', $1, $1, 'reg')",
        )
        .bind(&self.url)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// An empty database on the same server: its URL.
    pub(crate) async fn create_database(&self, name: &'static str) -> anyhow::Result<String> {
        self.drop_database(name).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("create database {name}"))).execute(&self.pool).await?;
        Ok(self.postgres.url(name))
    }

    pub(crate) async fn drop_database(&self, name: &'static str) -> anyhow::Result<()> {
        let drop = format!("drop database if exists {name} with (force)");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&self.pool).await?;
        Ok(())
    }

    /// Where cargo puts what it builds, and what else need not be kept.
    pub(crate) fn target(&self) -> anyhow::Result<&Path> {
        self.binaries.parent().context("no folder above the binaries")
    }

    /// The process of the MCP server.
    pub(crate) fn server_pid(&self) -> u32 {
        self.server.pid()
    }

    /// One more server.
    pub(crate) async fn register(&self, id: &str, url: &str) -> anyhow::Result<()> {
        sqlx::query(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             values ($1, 'user', $1, $2, $2, $1)",
        )
        .bind(id)
        .bind(url)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Tasks that work on a server which knows nothing of them, all in one Run.
    pub(crate) async fn work_on(&self, registration: &str, count: usize) -> anyhow::Result<()> {
        sqlx::query("insert into david.runs (id, user_id) values ('run_of_many', 'user')")
            .execute(&self.pool)
            .await?;
        sqlx::query(
            "select count(david.submit_action('act_many_' || n, 'run_of_many', $1, 'work', 'work', '{}',
                                             p_remote_task_id => 'many-' || n))
               from generate_series(1, $2::int) n",
        )
        .bind(registration)
        .bind(i32::try_from(count)?)
        .execute(&self.pool)
        .await?;
        sqlx::query("vacuum analyze david.mcp_action_tasks, david.actions, david.runs")
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Submits calls that are answered at once, one after the other, and waits until all have ended.
    pub(crate) async fn one_by_one(
        &self,
        registration: &str,
        count: usize,
        pause: Duration,
    ) -> anyhow::Result<()> {
        sqlx::query("insert into david.runs (id, user_id) values ('run_slow', 'user')")
            .execute(&self.pool)
            .await?;
        // Past the replicas' start.
        tokio::time::sleep(Duration::from_secs(2)).await;
        for number in 0..count {
            sqlx::query("select david.submit_action($1, 'run_slow', $2, 'sync', 'sync', '{\"seconds\": 0}')")
                .bind(format!("act_slow_{number}"))
                .bind(registration)
                .execute(&self.pool)
                .await?;
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        }
        self.until_finalised(count).await
    }

    /// Median and 99th percentile, in milliseconds, from the insert of an Action to the commit of its end.
    pub(crate) async fn inserted_to_finalised(&self, registration: &str) -> anyhow::Result<(f64, f64)> {
        let quantiles = "select percentile_cont(0.5) within group (order by took), percentile_cont(0.99) within group (order by took)
                           from (select extract(epoch from finalised_at - created_at)::float8 * 1000 as took
                                   from david.mcp_action_tasks where registration_id = $1 and outcome = 'succeeded') t";
        Ok(sqlx::query_as(quantiles).bind(registration).fetch_one(&self.pool).await?)
    }

    /// Adopts tasks, each in a Run of its own.
    pub(crate) async fn adopt(&self, ids: &[String]) -> anyhow::Result<()> {
        self.submit("work", ids.len(), Some(ids)).await
    }

    /// Adopts tasks, each in a Run of its own and on a registration of its own.
    pub(crate) async fn adopt_on_servers(&self, ids: &[String]) -> anyhow::Result<()> {
        sqlx::query(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             select 'reg_' || n, 'user', 'reg_' || n, $1, $1, 'reg_' || n from generate_series(1, $2::int) n",
        )
        .bind(&self.url)
        .bind(i32::try_from(ids.len())?)
        .execute(&self.pool)
        .await?;
        self.submit_to("'reg_' || n", "work", ids.len(), Some(ids)).await
    }

    /// Submits calls, each in a Run of its own.
    pub(crate) async fn submit(
        &self,
        tool: &str,
        count: usize,
        adopted: Option<&[String]>,
    ) -> anyhow::Result<()> {
        self.submit_to("'reg'", tool, count, adopted).await
    }

    /// The same; `registration` is an expression over the number `n` of the Action.
    async fn submit_to(
        &self,
        registration: &str,
        tool: &str,
        count: usize,
        adopted: Option<&[String]>,
    ) -> anyhow::Result<()> {
        sqlx::query(
            "insert into david.runs (id, user_id) select 'run_' || n, 'user' from generate_series(1, $1::bigint) n
             on conflict do nothing",
        )
        .bind(i64::try_from(count)?)
        .execute(&self.pool)
        .await?;
        // In parts, with statistics after each: what a function plans over empty tables reads them from end to
        // end for as long as its session keeps the plan.
        let submit = format!(
            "select count(david.submit_action('act_' || n, 'run_' || n, {registration}, $2, $2, '{{\"seconds\": 0}}',
                                             p_remote_task_id => ($3::text[])[n - $4::int]))
               from generate_series($4::int + 1, $4::int + $1::int) n"
        );
        for start in (0..count).step_by(PART) {
            let end = count.min(start + PART);
            sqlx::query(sqlx::AssertSqlSafe(submit.as_str()))
                .bind(i32::try_from(end - start)?)
                .bind(tool)
                .bind(adopted.and_then(|ids| ids.get(start..end)).unwrap_or_default())
                .bind(i32::try_from(start)?)
                .execute(&self.pool)
                .await?;
            sqlx::query("analyze david.mcp_action_tasks, david.actions, david.runs, david.mcp_action_calls")
                .execute(&self.pool)
                .await?;
        }
        for statement in ["vacuum analyze david.mcp_action_tasks, david.actions, david.runs", "checkpoint"] {
            sqlx::query(statement).execute(&self.pool).await?;
        }
        Ok(())
    }

    /// A replica of the product, as an operator would run it.
    pub(crate) fn replica(&self) -> anyhow::Result<Replica> {
        self.replica_with_room("40000")
    }

    /// One that may hold as much as there is.
    pub(crate) fn roomy_replica(&self) -> anyhow::Result<Replica> {
        self.replica_with_room("200000")
    }

    fn replica_with_room(&self, held: &str) -> anyhow::Result<Replica> {
        Replica::command(self.binaries.join("david-tasks"), &self.postgres.url("postgres"))
            .arg("worker")
            .env("DAVID_TASKS_LOG", "warn")
            .env("DAVID_TASKS_TRUSTED_HOSTS", "127.0.0.1")
            .env("DAVID_TASKS_MAX_HELD", held)
            .env("DAVID_TASKS_MAX_IN_FLIGHT", CONCURRENCY.to_string())
            .env("DAVID_TASKS_LEASE_BATCH", "500")
            .env("DAVID_TASKS_POLL_CAP", "1s")
            .start()
    }

    /// Ends replicas in good order.
    pub(crate) async fn stop(&self, replicas: Vec<Replica>) -> anyhow::Result<()> {
        for replica in &replicas {
            replica.terminate()?;
        }
        for replica in &replicas {
            let status = replica.wait_exit(Duration::from_secs(60)).await?;
            ensure!(status.success(), "a replica ended with {status}: {}", replica.logs());
        }
        Ok(())
    }

    /// How often the server was asked about each task.
    pub(crate) async fn gets(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let ledger =
            reqwest::get(self.url.replace("/mcp", "/ledger")).await?.error_for_status()?.text().await?;
        let ledger: Value = serde_json::from_str(&ledger)?;
        let gets = ledger.get("gets").and_then(Value::as_object).context("a ledger without gets")?;
        Ok(gets.iter().map(|(id, count)| (id.clone(), count.as_u64().unwrap_or_default())).collect())
    }

    /// How many polls the server has seen.
    pub(crate) async fn polls(&self) -> anyhow::Result<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        Ok(self.gets().await?.values().sum::<u64>() as f64)
    }

    /// Waits until every one of these tasks was polled since `before`.
    pub(crate) async fn until_polled(
        &self,
        ids: &[String],
        before: &BTreeMap<String, u64>,
    ) -> anyhow::Result<()> {
        eventually(Duration::from_secs(180), "every task is polled", async || {
            let gets = self.gets().await.map_err(|error| error.to_string())?;
            let left = ids.iter().filter(|id| gets.get(*id) <= before.get(*id)).count();
            if left == 0 {
                return Ok(());
            }
            // The list is long, and the server has other work.
            tokio::time::sleep(Duration::from_millis(200)).await;
            Err(format!("{left} are not"))
        })
        .await
    }

    /// Waits until this many Actions are finalised.
    pub(crate) async fn until_finalised(&self, count: usize) -> anyhow::Result<()> {
        eventually(Duration::from_secs(300), "every Action is finalised", async || {
            let query = "select count(*) from david.mcp_action_tasks where phase = 'finalised'";
            let done: i64 =
                sqlx::query_scalar(query).fetch_one(&self.pool).await.map_err(|error| error.to_string())?;
            if usize::try_from(done).is_ok_and(|done| done >= count) {
                Ok(())
            } else {
                Err(format!("{done} are"))
            }
        })
        .await
    }

    /// What the database has done so far, our own questions left out.
    pub(crate) async fn work(&self) -> anyhow::Result<Work> {
        let (wal, statements): (f64, f64) = sqlx::query_as(
            "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8,
                    coalesce(sum(calls), 0)::float8
               from pg_stat_statements
              where query like '%david.%' and query not like '%pg_stat_statements%' and query not like '%bench%'",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Work { wal, statements })
    }
}
