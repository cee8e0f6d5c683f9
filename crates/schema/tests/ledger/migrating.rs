//! Migrations: from empty, again, at once, and not over somebody else's tables.

use std::time::Duration;

use david_schema::{ConnectOptions, Ledger, LevelError, MigrateError, Sessions, check_level, migrate};
use david_testkit::{PgProxy, TestDb};

#[tokio::test]
async fn an_empty_database_is_migrated_once() {
    let db = TestDb::empty().await.unwrap();
    assert!(matches!(check_level(&Ledger::from_pool(db.pool.clone())).await, Err(LevelError::Missing)));
    let first = migrate(&db.pool).await.unwrap();
    assert!(first.applied > 0);
    let second = migrate(&db.pool).await.unwrap();
    assert_eq!((second.applied, second.level), (0, first.level));
    check_level(&Ledger::from_pool(db.pool.clone())).await.unwrap();
}

#[tokio::test]
async fn several_may_migrate_at_once() {
    let db = TestDb::empty().await.unwrap();
    let (one, two, three) = tokio::join!(migrate(&db.pool), migrate(&db.pool), migrate(&db.pool));
    assert_eq!(one.unwrap().level, two.unwrap().level);
    three.unwrap();
    check_level(&Ledger::from_pool(db.pool.clone())).await.unwrap();
}

#[tokio::test]
async fn what_another_migration_has_begun_is_not_taken_for_somebody_elses() {
    let foreign = include_str!("../../../../sql/foreign_objects.sql");
    let db = TestDb::empty().await.unwrap();
    // One that looked for the record just before another one made it looks for foreign tables just after.
    for (step, relations) in [
        ("create schema david", 0),
        ("create table david.theirs (id int)", 1),
        ("drop table david.theirs; create table david._sqlx_migrations (version bigint)", 0),
        ("create table david.runs (id int)", 0),
    ] {
        sqlx::raw_sql(step).execute(&db.pool).await.unwrap();
        let found: i64 = sqlx::query_scalar(foreign).fetch_one(&db.pool).await.unwrap();
        assert_eq!(found, relations, "after {step}");
    }
}

#[tokio::test]
async fn a_migration_that_was_changed_since_it_was_applied_is_refused() {
    let db = TestDb::create().await.unwrap();
    sqlx::raw_sql("update david._sqlx_migrations set checksum = '\\x00' where version = 1")
        .execute(&db.pool)
        .await
        .unwrap();
    let error = migrate(&db.pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Mismatch(_)), "{error}");
}

#[tokio::test]
async fn a_migration_does_not_wait_for_long_with_everybody_else_behind_it() {
    let db = TestDb::create().await.unwrap();
    let newest = "delete from david._sqlx_migrations where version = 11";
    sqlx::raw_sql(newest).execute(&db.pool).await.unwrap();
    let mut reader = db.pool.begin().await.unwrap();
    sqlx::raw_sql("select from david.mcp_operator_log").execute(&mut *reader).await.unwrap();
    let error = migrate(&db.pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Busy(_)), "{error:?}");
    assert!(error.to_string().contains("david.v_blockers"), "it says what to do: {error}");
    reader.rollback().await.unwrap();
    assert!(matches!(
        check_level(&Ledger::from_pool(db.pool.clone())).await.unwrap_err(),
        LevelError::Old { .. }
    ));
}

#[tokio::test]
async fn somebody_elses_schema_is_refused_and_left_as_it_is() {
    for theirs in [
        "create table david.theirs (id int)",
        "create function david.theirs() returns int language sql as 'select 1'",
        "create type david.theirs as enum ('a')",
        "create type david.theirs as (a int)",
        "create domain david.theirs as int",
        "create sequence david.theirs",
        "create view david.theirs as select 1 as one",
    ] {
        let db = TestDb::empty().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create schema david; {theirs}")))
            .execute(&db.pool)
            .await
            .unwrap();
        let error = migrate(&db.pool).await.unwrap_err();
        assert!(matches!(error, MigrateError::ForeignSchema { objects: 1 }), "{theirs}: {error}");
        assert!(error.to_string().contains("rename"), "it says what to do: {error}");
        let ours: i64 = sqlx::query_scalar(
            "select count(*) from pg_class where relnamespace = 'david'::regnamespace and relname <> 'theirs'",
        )
        .fetch_one(&db.pool)
        .await
        .unwrap();
        assert_eq!(ours, 0, "{theirs}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_string_is_refused() {
    let db = TestDb::empty().await.unwrap();
    let name = format!("{}_latin", db.name());
    let create = format!("create database {name} encoding 'LATIN1' locale 'C' template template0");
    sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&db.pool).await.unwrap();
    let options = (*db.pool.connect_options()).clone().database(&name);
    let latin = sqlx::PgPool::connect_with(options).await.unwrap();
    let error = migrate(&latin).await.unwrap_err();
    latin.close().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("drop database {name}"))).execute(&db.pool).await.unwrap();
    assert!(matches!(error, MigrateError::Encoding { .. }), "{error}");
}

#[tokio::test]
async fn an_older_schema_is_told_apart_from_a_missing_one() {
    let db = TestDb::create().await.unwrap();
    sqlx::raw_sql("delete from david._sqlx_migrations where version = (select max(version) from david._sqlx_migrations)")
        .execute(&db.pool)
        .await
        .unwrap();
    let error = check_level(&Ledger::from_pool(db.pool.clone())).await.unwrap_err();
    assert!(matches!(error, LevelError::Old { .. }), "{error}");
    assert!(error.to_string().contains("david-tasks migrate"), "it says what to do: {error}");
}

#[tokio::test]
async fn a_newer_schema_is_fine() {
    let db = TestDb::create().await.unwrap();
    sqlx::raw_sql(
        "insert into david._sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'of the future', true, '', 0)",
    )
    .execute(&db.pool)
    .await
    .unwrap();
    check_level(&Ledger::from_pool(db.pool.clone())).await.unwrap();
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_told_so() {
    let ledger = Ledger::open(&ConnectOptions {
        url: "postgres://nobody:secret@127.0.0.1:1/nowhere".to_owned(),
        connections: 1,
        statement_timeout: Duration::from_secs(1),
        acquire_timeout: Duration::from_secs(1),
        application_name: "test".to_owned(),
        sessions: Sessions::Ours,
    })
    .unwrap();
    let error = ledger.reach().await.unwrap_err();
    assert_eq!(error.fault(), david_schema::Fault::Unavailable);
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_given_up_in_bounded_time() {
    let db = TestDb::create().await.unwrap();
    let options = db.pool.connect_options();
    let upstream = format!("{}:{}", options.get_host(), options.get_port()).parse().unwrap();
    let proxy = PgProxy::start(upstream).await.unwrap();
    proxy.blackhole();
    let ledger = Ledger::open(&ConnectOptions {
        url: proxy.url(&db.url).unwrap(),
        connections: 1,
        statement_timeout: Duration::from_secs(1),
        acquire_timeout: Duration::from_secs(1),
        application_name: "test".to_owned(),
        sessions: Sessions::Ours,
    })
    .unwrap();
    let lease = ledger.lease(david_schema::ReplicaId::new(), 1, Duration::from_secs(1));
    let answer = tokio::time::timeout(Duration::from_secs(60), lease).await.expect("it does not hang");
    assert_eq!(answer.unwrap_err().fault(), david_schema::Fault::Unavailable);
    let level = tokio::time::timeout(Duration::from_secs(60), check_level(&ledger)).await;
    assert!(matches!(level.expect("it does not hang"), Err(LevelError::Database(_))));
}
