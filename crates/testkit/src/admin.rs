//! The administrator of the test server: makes and drops databases, one at a time, for the whole process.
//!
//! A thread with a runtime of its own, because each test has its own runtime and a connection does not survive
//! the one it was made on. Its one connection is open as long as the process lives and carries the process's
//! token, as the databases do: so a later process can tell databases nobody will ever drop from those in use.

use std::sync::OnceLock;

use anyhow::Context;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::Postgres;

const TEMPLATE: &str = concat!("david_template_", env!("DAVID_TEMPLATE_HASH"));
/// Guards template and sweep among the processes on one server; "david" in ASCII.
const ADVISORY_LOCK: i64 = 0x0064_6176_6964;
const APPLICATION: &str = "david-testkit";

/// What a new database holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Contents {
    /// All migrations.
    Migrated,
    /// Nothing.
    Empty,
}

enum Order {
    Create(Contents, oneshot::Sender<anyhow::Result<String>>),
    Drop(String),
}

/// Makes a database and returns its name.
pub(crate) async fn create(contents: Contents) -> anyhow::Result<String> {
    let (reply, answer) = oneshot::channel();
    orders().send(Order::Create(contents, reply)).ok().context("the database administrator is gone")?;
    answer.await.context("the database administrator is gone")?
}

/// Drops a database some time soon, best effort.
pub(crate) fn drop_soon(name: String) {
    // No administrator, no server to tidy.
    drop(orders().send(Order::Drop(name)));
}

fn orders() -> &'static mpsc::UnboundedSender<Order> {
    static ORDERS: OnceLock<mpsc::UnboundedSender<Order>> = OnceLock::new();
    ORDERS.get_or_init(|| {
        let (orders, queue) = mpsc::unbounded_channel();
        std::thread::spawn(move || serve(queue));
        orders
    })
}

fn serve(mut queue: mpsc::UnboundedReceiver<Order>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "no runtime for the database administrator"),
    };
    let mut admin = None;
    while let Some(order) = queue.blocking_recv() {
        match order {
            Order::Create(contents, reply) => {
                let made = runtime.block_on(async {
                    let admin = match &mut admin {
                        Some(admin) => admin,
                        none @ None => none.insert(Admin::connect().await?),
                    };
                    admin.create(contents).await
                });
                if made.is_err() {
                    // The connection may be the reason: take a new one for the next.
                    admin = None;
                }
                drop(reply.send(made));
            }
            Order::Drop(name) => {
                let Some(admin) = &mut admin else { continue };
                if let Err(error) = runtime.block_on(admin.drop_database(&name)) {
                    tracing::debug!(%error, "could not drop {name}");
                }
            }
        }
    }
}

struct Admin {
    postgres: &'static Postgres,
    connection: PgConnection,
    token: String,
}

impl Admin {
    async fn connect() -> anyhow::Result<Self> {
        let postgres = Postgres::shared()?;
        let token = format!("{:08x}", Uuid::new_v4().as_fields().0);
        let options: PgConnectOptions = postgres.url("postgres").parse()?;
        let connection = options.application_name(&format!("{APPLICATION} {token}")).connect().await?;
        let mut admin = Self { postgres, connection, token };
        admin.run(format!("select pg_advisory_lock({ADVISORY_LOCK})")).await?;
        let prepared = admin.prepare().await;
        admin.run(format!("select pg_advisory_unlock({ADVISORY_LOCK})")).await?;
        prepared.map(|()| admin)
    }

    /// Sweeps what dead processes left and makes the template; under the advisory lock.
    async fn prepare(&mut self) -> anyhow::Result<()> {
        let dead: Vec<String> = sqlx::query_scalar(
            "select d.datname from pg_database d
             where d.datname ~ '^david_test_' and not exists (
               select from pg_stat_activity a
               where a.application_name = $1 || ' ' || split_part(d.datname, '_', 3))",
        )
        .bind(APPLICATION)
        .fetch_all(&mut self.connection)
        .await?;
        for name in dead {
            self.drop_database(&name).await?;
        }
        let known = sqlx::query("select from pg_database where datname = $1").bind(TEMPLATE);
        if known.fetch_optional(&mut self.connection).await?.is_some() {
            return Ok(());
        }
        // Made under another name: whatever has the template's name is complete, however this process ends.
        let unfinished = format!("{TEMPLATE}_unfinished");
        self.drop_database(&unfinished).await?;
        self.run(format!("create database {unfinished} template template0")).await?;
        let pool = PgPoolOptions::new().max_connections(2).connect(&self.postgres.url(&unfinished)).await?;
        let migrated = david_schema::migrate(&pool).await;
        pool.close().await;
        migrated.context("cannot migrate the template database")?;
        self.run(format!("alter database {unfinished} rename to {TEMPLATE}")).await
    }

    async fn create(&mut self, contents: Contents) -> anyhow::Result<String> {
        let name = format!("david_test_{}_{:08x}", self.token, Uuid::new_v4().as_fields().0);
        let template = match contents {
            Contents::Migrated => TEMPLATE,
            Contents::Empty => "template0",
        };
        self.run(format!("create database {name} template {template}")).await?;
        Ok(name)
    }

    async fn drop_database(&mut self, name: &str) -> anyhow::Result<()> {
        self.run(format!("drop database if exists {name} with (force)")).await
    }

    async fn run(&mut self, sql: String) -> anyhow::Result<()> {
        self.connection.ping().await?;
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut self.connection).await.context(sql)?;
        Ok(())
    }
}
