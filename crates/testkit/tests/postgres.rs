//! The private cluster and the database of each test.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use david_testkit::{Postgres, TestDb, eventually};
use sqlx::{Connection, PgConnection};

#[tokio::test]
async fn a_cluster_answers_over_tcp_and_is_gone_when_dropped() {
    let postgres = Postgres::start().unwrap();
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let (encoding, fsync): (String, String) =
        sqlx::query_as("select current_setting('server_encoding'), current_setting('fsync')")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    assert_eq!((encoding.as_str(), fsync.as_str()), ("UTF8", "off"));
    let dir = postgres.dir().unwrap().to_owned();
    drop(postgres);
    assert!(PgConnection::connect(&url).await.is_err());
    assert!(!dir.exists());
}

#[tokio::test]
async fn each_test_has_a_database_of_its_own() {
    let (one, other) = tokio::join!(TestDb::create(), TestDb::create());
    let (one, other) = (one.unwrap(), other.unwrap());
    sqlx::query("create table only_here ()").execute(&one.pool).await.unwrap();
    let visible: Option<String> =
        sqlx::query_scalar("select to_regclass('only_here')::text").fetch_one(&other.pool).await.unwrap();
    assert_eq!(visible, None);
}

#[tokio::test]
async fn a_created_database_is_migrated_and_an_empty_one_is_not() {
    let (created, empty) = (TestDb::create().await.unwrap(), TestDb::empty().await.unwrap());
    for (db, expected) in [(&created, true), (&empty, false)] {
        let migrated: bool = sqlx::query_scalar("select to_regclass('david._sqlx_migrations') is not null")
            .fetch_one(&db.pool)
            .await
            .unwrap();
        assert_eq!(migrated, expected, "{}", db.name());
    }
}

#[tokio::test]
async fn a_dropped_database_disappears_from_the_server() {
    let (db, witness) = (TestDb::create().await.unwrap(), TestDb::empty().await.unwrap());
    let name = db.name().to_owned();
    drop(db);
    eventually(Duration::from_secs(10), "the database is gone", async || {
        let left: Option<String> =
            sqlx::query_scalar("select datname::text from pg_database where datname = $1")
                .bind(&name)
                .fetch_optional(&witness.pool)
                .await
                .map_err(|error| error.to_string())?;
        left.map_or(Ok(()), |name| Err(format!("{name} is still there")))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn another_process_drops_what_dead_processes_left_and_nothing_in_use() {
    let (db, witness) = (TestDb::create().await.unwrap(), TestDb::empty().await.unwrap());
    sqlx::query("create database david_test_00000000_left").execute(&witness.pool).await.unwrap();
    // Any test that makes a database does for the other process.
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "each_test_has_a_database_of_its_own"])
        .env("DAVID_TEST_PG_URL", Postgres::shared().unwrap().url("postgres"))
        .output()
        .unwrap();
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stdout));
    let left: Vec<String> =
        sqlx::query_scalar("select datname::text from pg_database where datname = any($1)")
            .bind([db.name(), "david_test_00000000_left"])
            .fetch_all(&witness.pool)
            .await
            .unwrap();
    assert_eq!(left, [db.name()]);
}

/// The binary stands in for a test process.
#[tokio::test]
async fn the_server_does_not_outlive_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut owner = Command::new(env!("CARGO_BIN_EXE_testkit"))
        .args(["postgres", "--dir"])
        .arg(dir.path().join("cluster"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(owner.stdout.take().unwrap()), &mut line)
        .unwrap();
    let url = line.trim().strip_prefix("DATABASE_URL=").unwrap();
    PgConnection::connect(url).await.unwrap().close().await.unwrap();
    owner.kill().unwrap();
    assert_eq!(owner.wait().unwrap().signal(), Some(9));
    eventually(Duration::from_secs(10), "the server is gone", async || {
        match PgConnection::connect(url).await {
            Ok(_) => Err("it still accepts connections".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await
    .unwrap();
}
