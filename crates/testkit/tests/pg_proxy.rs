//! The proxy that fails at COMMIT, seen through sqlx.

use std::time::Duration;

use david_testkit::{PgProxy, Postgres, TestDb};
use sqlx::{Connection, PgConnection};

struct Setup {
    db: TestDb,
    proxy: PgProxy,
    connection: PgConnection,
}

async fn setup() -> anyhow::Result<Setup> {
    let db = TestDb::empty().await?;
    sqlx::query("create table done (id int)").execute(&db.pool).await?;
    let proxy = PgProxy::start(Postgres::shared()?.addr()?).await?;
    let connection = PgConnection::connect(&proxy.url(&db.url)?).await?;
    Ok(Setup { db, proxy, connection })
}

impl Setup {
    async fn insert_and_commit(&mut self) -> Result<(), sqlx::Error> {
        let mut transaction = self.connection.begin().await?;
        sqlx::query("insert into done values ($1)").bind(1).execute(&mut *transaction).await?;
        transaction.commit().await
    }

    async fn insert(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query("insert into done values ($1)").bind(2).execute(&mut self.connection).await.map(drop)
    }

    async fn rows(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("select count(*) from done").fetch_one(&self.db.pool).await
    }

    async fn reconnect(&mut self) -> anyhow::Result<()> {
        self.connection = PgConnection::connect(&self.proxy.url(&self.db.url)?).await?;
        Ok(())
    }
}

#[tokio::test]
async fn passing_relays_everything_and_counts_commits() {
    let mut setup = setup().await.unwrap();
    for _ in 0..3 {
        setup.insert_and_commit().await.unwrap();
    }
    assert_eq!((setup.rows().await.unwrap(), setup.proxy.commits(), setup.proxy.cuts()), (3, 3, 0));
}

#[tokio::test]
async fn a_cut_before_commit_loses_the_transaction_once() {
    let mut setup = setup().await.unwrap();
    setup.proxy.cut_before_commit();
    setup.insert_and_commit().await.unwrap_err();
    assert_eq!(setup.rows().await.unwrap(), 0);
    setup.reconnect().await.unwrap();
    setup.insert_and_commit().await.unwrap();
    assert_eq!((setup.rows().await.unwrap(), setup.proxy.commits(), setup.proxy.cuts()), (1, 2, 1));
}

#[tokio::test]
async fn a_cut_after_commit_keeps_the_transaction_and_loses_the_answer_once() {
    let mut setup = setup().await.unwrap();
    setup.proxy.cut_after_commit();
    setup.insert_and_commit().await.unwrap_err();
    assert_eq!(setup.rows().await.unwrap(), 1);
    setup.reconnect().await.unwrap();
    setup.insert_and_commit().await.unwrap();
    assert_eq!(setup.rows().await.unwrap(), 2);
}

#[tokio::test]
async fn a_prepared_statement_that_commits_by_itself_can_be_cut_on_either_side() {
    let mut setup = setup().await.unwrap();
    // Prepared before the cut is armed: later executions do not carry its text.
    setup.insert().await.unwrap();
    setup.proxy.cut_before("insert into done");
    setup.insert().await.unwrap_err();
    assert_eq!(setup.rows().await.unwrap(), 1);
    setup.reconnect().await.unwrap();
    setup.proxy.cut_after("insert into done");
    setup.insert().await.unwrap_err();
    assert_eq!(setup.rows().await.unwrap(), 2);
}

#[tokio::test]
async fn a_black_hole_answers_nothing_until_it_passes_again() {
    let mut setup = setup().await.unwrap();
    setup.proxy.blackhole();
    let mut insert = Box::pin(setup.connection.ping());
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut insert).await.is_err());
    setup.proxy.pass();
    insert.await.unwrap();
}

#[tokio::test]
async fn refusing_drops_open_connections_and_new_ones() {
    let mut setup = setup().await.unwrap();
    setup.proxy.refuse();
    setup.connection.ping().await.unwrap_err();
    setup.reconnect().await.unwrap_err();
    setup.proxy.pass();
    setup.reconnect().await.unwrap();
}
