//! Whoever types or deploys something wrong is told what, and what to do; a secret is never repeated.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use david_e2e::{Submission, World};
use david_testkit::{Replica, TestDb, eventually};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// Nobody listens there.
const NOWHERE: &str = "postgres://david@127.0.0.1:1/core";

/// A finished run of the program.
struct Run {
    code: i32,
    output: String,
}

impl Run {
    #[track_caller]
    fn assert_fails_with(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.output);
        for word in words {
            assert!(self.output.contains(word), "{word:?} is not said: {}", self.output);
        }
        assert!(!self.output.contains("panicked"), "{}", self.output);
    }
}

async fn run(database_url: &str, args: &[&str]) -> Run {
    let command = Replica::command(REPLICA, database_url);
    let started = args.iter().fold(command, |command, arg| command.arg(arg)).start().unwrap();
    let status = started.wait_exit(PATIENCE).await.unwrap();
    Run { code: status.code().unwrap(), output: settled_output(&started).await }
}

/// The output may still be in its pipe when the process has ended.
async fn settled_output(ended: &Replica) -> String {
    let mut before = None;
    eventually(PATIENCE, "the output is read", async || {
        let now = ended.logs();
        if before.replace(now.clone()) == Some(now.clone()) { Ok(now) } else { Err("it grows".to_owned()) }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn migrate_says_that_the_database_cannot_be_reached() {
    let migrate = run(NOWHERE, &["migrate"]).await;
    migrate.assert_fails_with(1, &["nothing was migrated", "is DATABASE_URL right", "refused"]);
}

#[tokio::test]
async fn a_database_url_that_cannot_be_read_is_refused_at_once() {
    for command in ["migrate", "worker"] {
        for url in ["not a url", "", "mysql://a/b", "http://127.0.0.1:1/mcp", "foo"] {
            let words = ["the database URL cannot be read", "postgres://user@host:5432/database"];
            run(url, &[command]).await.assert_fails_with(1, &words);
        }
    }
}

#[test]
fn a_missing_database_url_is_wrong_usage() {
    for command in ["migrate", "worker"] {
        let output = Command::new(REPLICA).arg(command).env_remove("DATABASE_URL").output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains("--database-url"), "{words}");
    }
}

#[tokio::test]
async fn migrate_leaves_a_schema_of_somebody_else_alone() {
    let db = TestDb::empty().await.unwrap();
    sqlx::raw_sql("create schema david; create table david.secrets (id int)")
        .execute(&db.pool)
        .await
        .unwrap();
    let migrate = run(&db.url, &["migrate"]).await;
    migrate.assert_fails_with(1, &["did not create", "nothing was changed"]);
    let tables: i64 = sqlx::query_scalar("select count(*) from pg_tables where schemaname = 'david'")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn migrate_may_be_repeated() {
    let db = TestDb::empty().await.unwrap();
    let first = run(&db.url, &["migrate"]).await;
    assert!(first.code == 0 && first.output.contains("migrations applied"), "{}", first.output);
    let second = run(&db.url, &["migrate"]).await;
    assert!(second.code == 0 && second.output.contains("nothing to do"), "{}", second.output);
}

#[tokio::test]
async fn a_worker_before_any_migration_says_to_migrate() {
    let db = TestDb::empty().await.unwrap();
    run(&db.url, &["worker"])
        .await
        .assert_fails_with(1, &["no david-tasks schema", "run `david-tasks migrate`"]);
}

#[tokio::test]
async fn a_worker_on_an_older_schema_says_to_migrate() {
    let db = TestDb::create().await.unwrap();
    let forgotten = "delete from david._sqlx_migrations where version = (select max(version) from david._sqlx_migrations)";
    assert_eq!(sqlx::query(forgotten).execute(&db.pool).await.unwrap().rows_affected(), 1);
    let worker = run(&db.url, &["worker"]).await;
    worker.assert_fails_with(1, &["schema level", "run `david-tasks migrate`"]);
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_with_the_reason() {
    for (args, code, words) in [
        (&["--lease-term=-5s"][..], 2, &["--lease-term", "cannot be negative", "30s"][..]),
        (&["--lease-term", "-5s"], 2, &["--lease-term", "cannot be negative", "30s"]),
        (&["--lease-term", "soon"], 2, &["--lease-term", "write it like 500ms, 30s or 5m"]),
        (&["--lease-term", "30"], 2, &["--lease-term", "write it like 500ms, 30s or 5m"]),
        (&["--lease-term", ""], 2, &["--lease-term", "write it like 500ms, 30s or 5m"]),
        (&["--lease-term", "366d"], 2, &["--lease-term", "cannot be longer than 365 days"]),
        (&["--poll-timeout", "25s"], 2, &["--lease-term 30s is too short for --poll-timeout 25s"]),
        (&["--poll-timeout", "40s", "--lease-term", "60s"], 2, &["--poll-timeout 40s is too long", "25s"]),
        (&["--lease-batch", "0"], 2, &["--lease-batch must be more than zero"]),
        (&["--max-in-flight", "0"], 2, &["--max-in-flight must be more than zero"]),
        (&["--db-connections", "0"], 2, &["--db-connections must be more than zero"]),
        (&["--idle-interval", "0s"], 2, &["--idle-interval must be more than zero"]),
        (&["--lease-batch", "many"], 2, &["--lease-batch", "invalid digit"]),
        (&["--lease-batch", "99999999999"], 2, &["--lease-batch"]),
        (&["--poll-base", "10s"], 2, &["--poll-base must not exceed --poll-cap"]),
        (&["--retry-base", "2m"], 2, &["--retry-base must not exceed --retry-cap"]),
        (&["--input", "maybe"], 2, &["--input", "surface, fail"]),
        (&["--log", "a=b=c"], 1, &["--log", "write it like info,david_tasks=debug"]),
        (
            &["--credentials-dir", "/nowhere"],
            2,
            &["--credentials-dir /nowhere cannot be read", "No such file"],
        ),
        (&["--credential-broker", "broker"], 2, &["--credential-broker", "write it like https://"]),
        (
            &["--credential-broker", "https://a:b@c/"],
            2,
            &["--credential-broker", "hold no user name or password"],
        ),
        (&["--credential-broker-token-file", "/etc/hostname"], 2, &["--credential-broker"]),
        (&["--credentials-dir", "/", "--credential-broker", "http://b/"], 2, &["cannot be used with"]),
        (&["--trusted-hosts", "http://127.0.0.1"], 2, &["--trusted-hosts", "a name or an address"]),
        (&["--trusted-hosts", "10.0.0.0/8"], 2, &["--trusted-hosts", "a name or an address"]),
        (&["--progress-channel", ""], 2, &["--progress-channel", "1 to 63 bytes"]),
        (&["--nonsense"], 2, &["--nonsense"]),
    ] {
        let args: Vec<&str> = ["worker"].iter().chain(args).copied().collect();
        let worker = run(NOWHERE, &args).await;
        assert_eq!(worker.code, code, "{args:?}: {}", worker.output);
        worker.assert_fails_with(code, words);
    }
}

#[tokio::test]
async fn settings_as_large_as_they_go_are_refused_or_work() {
    let world = World::new().await.unwrap();
    for (variable, value) in [
        ("DAVID_TASKS_LEASE_TERM", "10000y"),
        ("DAVID_TASKS_MAX_IN_FLIGHT", "4294967295"),
        ("DAVID_TASKS_LEASE_BATCH", "4294967295"),
        ("DAVID_TASKS_POLL_CAP", "500000000000y"),
        ("DAVID_TASKS_CALL_GRACE", "500000000000y"),
        ("DAVID_TASKS_INPUT_TIMEOUT", "500000000000y"),
        ("DAVID_TASKS_CONNECT_TIMEOUT", "500000000000y"),
        ("DAVID_TASKS_SHUTDOWN_GRACE", "500000000000y"),
        ("DAVID_TASKS_MAX_RESPONSE_BYTES", "18446744073709551615"),
    ] {
        let actions = [
            world.submit(Submission::of("sync", json!({}))).await.unwrap(),
            world.submit(Submission::work(0.0)).await.unwrap(),
        ];
        let worker = world.replica(REPLICA).env(variable, value).start().unwrap();
        eventually(PATIENCE, &format!("{variable}={value} is refused or works"), async || {
            let mut ended = 0;
            for action in &actions {
                ended += usize::from(world.standing(action).await.unwrap().phase == "finalised");
            }
            match worker.exited().unwrap() {
                Some(status) if matches!(status.code(), Some(1 | 2)) => Ok(()),
                Some(status) => Err(format!("{status}: {}", worker.logs())),
                None if ended == actions.len() => Ok(()),
                None => Err(worker.logs()),
            }
        })
        .await
        .unwrap();
        assert!(!worker.logs().contains("panicked"), "{variable}={value}: {}", worker.logs());
        worker.kill().unwrap();
        world.execute("update david.runs set status = 'cancelled'").await.unwrap();
    }
}

#[tokio::test]
async fn help_names_the_unit_the_default_and_the_variable_of_every_flag() {
    let help = run(NOWHERE, &["worker", "--help"]).await;
    assert_eq!(help.code, 0, "{}", help.output);
    let flags: Vec<&str> = help.output.split("\n      --").skip(1).collect();
    assert!(flags.len() > 15, "only {} flags: {}", flags.len(), help.output);
    for flag in flags {
        assert!(flag.contains("[env: "), "no environment variable: --{flag}");
        // Required, or nothing by default.
        let none =
            ["database-url", "trusted-hosts", "credential", "progress-channel", "listen", "otlp-endpoint"]
                .iter()
                .any(|name| flag.starts_with(name));
        assert!(none || flag.contains("[default: "), "no default: --{flag}");
        for (value, unit) in [("<DURATION>", "(duration)"), ("<N>", "(count)"), ("<BYTES>", "(bytes)")] {
            assert!(!flag.contains(value) || flag.contains(unit), "no unit {unit}: --{flag}");
        }
    }
}

#[tokio::test]
async fn a_password_in_the_database_url_is_never_written() {
    const SECRET: &str = "hunter2-is-secret";
    for (url, args) in [
        (format!("postgres://david:{SECRET}@127.0.0.1:1/core"), &["migrate"][..]),
        (format!("postgres://david:{SECRET}@127.0.0.1:1/core"), &["--help"]),
        (format!("postgres://david:{SECRET}@127.0.0.1:1/core"), &["worker", "--help"]),
        (format!("postgres://david:{SECRET}@127.0.0.1:1/core"), &["worker", "--lease-batch", "0"]),
        (format!("postgres://david:{SECRET}@127.0.0.1:port/core"), &["migrate"]),
        (format!("postgres://david:{SECRET}@127.0.0.1:port/core"), &["worker"]),
        (format!("no scheme {SECRET}"), &["worker"]),
    ] {
        let run = run(&url, args).await;
        assert!(!run.output.contains("hunter2"), "{args:?}: {}", run.output);
    }
    // One that waits for its database, with everything logged.
    let url = format!("postgres://david:{SECRET}@127.0.0.1:1/core");
    let worker =
        Replica::command(REPLICA, &url).env("DAVID_TASKS_LOG", "trace").arg("worker").start().unwrap();
    worker.wait_log("the database does not answer", PATIENCE).await.unwrap();
    worker.wait_log("Connection refused", PATIENCE).await.unwrap();
    assert!(!worker.logs().contains("hunter2"), "{}", worker.logs());
    // And one that works.
    let db = TestDb::create().await.unwrap();
    let url = db.url.replace("@", &format!(":{SECRET}@"));
    assert!(url.contains(SECRET), "the test's URL is not as it was: {}", db.url);
    let worker =
        Replica::command(REPLICA, &url).env("DAVID_TASKS_LOG", "trace").arg("worker").start().unwrap();
    worker.wait_log("the worker leases", PATIENCE).await.unwrap();
    worker.terminate().unwrap();
    worker.wait_exit(PATIENCE).await.unwrap();
    assert!(!settled_output(&worker).await.contains("hunter2"), "{}", worker.logs());
}
