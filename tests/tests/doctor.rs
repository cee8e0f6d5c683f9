//! `david-tasks doctor` against clusters, servers and credentials that are really wrong.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use david_e2e::said::{Said, sorted};
use david_e2e::stand::{Stand, found};
use david_testkit::{PgBouncer, RawServer, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;

const DAVID_TASKS: &str = env!("CARGO_BIN_EXE_replica");

/// Everything of a finding is there, and its fix is something to type.
fn assert_told(report: &Value) {
    for finding in report["findings"].as_array().unwrap() {
        let mut keys: Vec<&String> = finding.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, sorted("severity check subject what why fix").iter().collect::<Vec<_>>());
        for key in ["what", "why", "fix"] {
            assert!(finding[key].as_str().unwrap().len() > 8, "{key} says nothing: {finding}");
        }
    }
}

/// Plants one thing after another, and mends each by the SQL that doctor itself proposes, or by `mended`.
async fn check(stand: &Stand, role: &str, args: &[&str], plants: &[(&str, &[&str], Option<&str>)]) {
    for (planted, wanted, mended) in plants {
        stand.sql(planted).await.unwrap();
        let report = stand.until_found(role, args, wanted).await.unwrap();
        assert_told(&report);
        match mended {
            Some(sql) => stand.sql(sql).await.unwrap(),
            None => {
                for finding in report["findings"].as_array().unwrap() {
                    // One by one: alter system is no part of a transaction.
                    for statement in finding["fix"].as_str().unwrap().split_inclusive(';') {
                        stand.sql(statement).await.unwrap();
                    }
                }
            }
        }
        stand.until_found(role, args, &[]).await.unwrap();
    }
}

#[tokio::test]
async fn a_healthy_set_up_has_no_finding_for_worker_operator_and_owner() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let server = RawServer::start().await.unwrap();
    stand.register("reg_good", &server.url(), Some("cred_good")).await.unwrap();
    let credentials = tempfile::tempdir().unwrap();
    write(&credentials.path().join("cred_good"), "token-1", 0o640);
    let dir = credentials.path().to_str().unwrap();
    for role in ["worker", "operator", "postgres"] {
        let said = stand.doctor(role, &["--credentials-dir", dir]).await.unwrap();
        assert_eq!(
            (said.code, said.json()),
            (0, json!({ "healthy": true, "findings": [] })),
            "{role}: {said:?}"
        );
    }
    let asked = server.requests_of("tools/list");
    assert_eq!(asked[0].headers["authorization"], "Bearer token-1", "the credential was tried for real");
}

#[tokio::test]
async fn settings_that_break_a_promise_are_named_and_mended_by_the_sql_that_is_proposed() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let reload = "select pg_reload_conf()";
    for (name, check) in [
        ("fsync", "fsync_off fsync"),
        ("full_page_writes", "full_page_writes_off full_page_writes"),
        ("autovacuum", "autovacuum_off autovacuum"),
        ("track_counts", "track_counts_off track_counts"),
    ] {
        stand.sql(&format!("alter system set {name} = off")).await.unwrap();
        stand.sql(reload).await.unwrap();
        let report = stand.until_found("worker", &[], &[check]).await.unwrap();
        assert_told(&report);
        for statement in report["findings"][0]["fix"].as_str().unwrap().split_inclusive(';') {
            stand.sql(statement).await.unwrap();
        }
        stand.until_found("worker", &[], &[]).await.unwrap();
    }
    stand.sql("alter system set idle_in_transaction_session_timeout = 0").await.unwrap();
    // What is given on the server's command line wins over that; a database's own wins over both.
    stand.sql("alter database core set idle_in_transaction_session_timeout = 0").await.unwrap();
    let notice = "idle_in_transaction_unbounded idle_in_transaction_session_timeout";
    let report = stand.until_found("worker", &[], &[notice]).await.unwrap();
    assert_eq!(report["healthy"], true, "Postgres' default is no problem by itself: {report}");
    stand.sql("alter database core reset idle_in_transaction_session_timeout").await.unwrap();

    check(
        &stand,
        "worker",
        &[],
        &[
            // Not the worker's own: that pins it.
            (
                "alter role core_login set synchronous_commit = off",
                &["synchronous_commit_off role \"core_login\""],
                None,
            ),
            (
                "alter database core set default_transaction_read_only = on",
                &["read_only database \"core\""],
                Some("set default_transaction_read_only = off; alter database core reset default_transaction_read_only"),
            ),
            ("alter role worker connection limit 12", &["too_few_connections role \"worker\""], Some("alter role worker connection limit -1")),
            ("alter database core connection limit 17", &["too_few_connections database \"core\""], Some("alter database core connection limit -1")),
        ],
    )
    .await;
    // The connecting role's own is seen in the session and tied to the role, and told once.
    stand.sql("alter role worker set synchronous_commit = off").await.unwrap();
    let own = "synchronous_commit_off role \"worker\"";
    stand.until_found("worker", &[], &[own]).await.unwrap();
    stand.sql("alter role worker reset synchronous_commit").await.unwrap();
    stand
        .until_found("worker", &["--replicas", "30"], &["too_few_connections max_connections"])
        .await
        .unwrap();
}

#[tokio::test]
async fn whatever_keeps_vacuum_from_the_hot_table_is_named() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    check(
        &stand,
        "operator",
        &[],
        &[
            (
                "alter table david.mcp_action_tasks set (autovacuum_enabled = off)",
                &["table_autovacuum_off mcp_action_tasks"],
                None,
            ),
            ("alter table david.mcp_action_tasks set (fillfactor = 100)", &["table_option fillfactor"], None),
            (
                "alter table david.mcp_action_tasks reset (autovacuum_vacuum_threshold)",
                &["table_option autovacuum_vacuum_threshold"],
                None,
            ),
            (
                "select pg_create_logical_replication_slot('forgotten', 'pgoutput')",
                &["idle_slot forgotten", "slot_holds_back forgotten"],
                Some("select pg_drop_replication_slot('forgotten')"),
            ),
            (
                "select pg_create_physical_replication_slot('unread', true)",
                &["idle_slot unread"],
                Some("select pg_drop_replication_slot('unread')"),
            ),
        ],
    )
    .await;

    let mut forgotten = stand.pool.begin().await.unwrap();
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid() from pg_current_xact_id()")
        .fetch_one(&mut *forgotten)
        .await
        .unwrap();
    let long = ["--long-transaction", "200ms"];
    let wanted = format!("long_transaction {pid}");
    let report = stand.until_found("operator", &long, &[&wanted]).await.unwrap();
    let fix = report["findings"][0]["fix"].as_str().unwrap();
    assert!(fix.contains(&format!("pg_terminate_backend({pid})")), "{fix}");
    stand.until_found("operator", &[], &[]).await.unwrap();
    forgotten.rollback().await.unwrap();
    stand.until_found("operator", &long, &[]).await.unwrap();
}

#[tokio::test]
async fn a_schema_that_is_behind_ahead_broken_or_anothers_is_told_apart() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    stand.sql("create table kept as select * from david._sqlx_migrations").await.unwrap();
    let mend =
        Some("delete from david._sqlx_migrations; insert into david._sqlx_migrations select * from kept");
    check(
        &stand,
        "worker",
        &[],
        &[
            ("delete from david._sqlx_migrations where version = 8", &["migration_pending 0008"], mend),
            (
                "update david._sqlx_migrations set checksum = '\\x00' where version = 3",
                &["migration_different 0003"],
                mend,
            ),
            (
                "update david._sqlx_migrations set success = false where version = 10",
                &["migration_failed 0010"],
                mend,
            ),
            (
                "insert into david._sqlx_migrations (version, description, success, checksum, execution_time)
                 values (9000, 'the future', true, '\\x00', 0)",
                &["migration_ahead 9000"],
                mend,
            ),
        ],
    )
    .await;
    stand.sql("update david._sqlx_migrations set checksum = '\\x00' where version = 3").await.unwrap();
    let checked = Said::by(DAVID_TASKS, &stand.url("operator"), &["migrate", "--check"]).await.unwrap();
    assert_eq!(checked.code, 7, "{checked:?}");
    assert!(checked.out.contains("doctor says") && !checked.out.contains("apply them"), "{checked:?}");
    stand.sql("drop schema david cascade").await.unwrap();
    let said = stand.doctor("postgres", &[]).await.unwrap();
    assert_eq!(said.code, 7, "{said:?}");
    let found = found(&said);
    assert!(found.len() == 1 && found[0].starts_with("migration_pending 0001, 0002"), "{said:?}");
}

#[tokio::test]
async fn triggers_that_are_off_and_parts_of_the_schema_that_are_gone_are_named() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let plants: [(&str, &[&str], Option<&str>); 5] = [
        (
            "alter table david.runs disable trigger cancel_actions_with_run",
            &["trigger_off trigger runs.cancel_actions_with_run"],
            None,
        ),
        // It would not fire for a replication worker.
        (
            "alter table david.mcp_action_tasks enable trigger place_task",
            &["trigger_off trigger mcp_action_tasks.place_task"],
            None,
        ),
        (
            "drop index david.mcp_action_tasks_asking",
            &["schema_damaged index mcp_action_tasks_asking"],
            Some("create index mcp_action_tasks_asking on david.mcp_action_tasks (due_at) where phase = 'input_required'"),
        ),
        (
            "alter table david.mcp_action_tasks drop constraint tasks_one_per_action",
            &["schema_damaged constraint mcp_action_tasks.tasks_one_per_action, index tasks_one_per_action"],
            Some("alter table david.mcp_action_tasks add constraint tasks_one_per_action unique (action_id)"),
        ),
        (
            "drop trigger registrations_checked on david.mcp_server_registrations",
            &["schema_damaged trigger mcp_server_registrations.registrations_checked"],
            Some("create trigger registrations_checked before insert or update on david.mcp_server_registrations
                  for each row execute function david.check_registration();
                  alter table david.mcp_server_registrations enable always trigger registrations_checked"),
        ),
    ];
    check(&stand, "operator", &[], &plants).await;
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_whatever_the_role_is_for() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let set_up = "select david.set_up_roles()";
    check(
        &stand,
        "worker",
        &[],
        &[
            ("revoke select on david.runs from david_worker", &["right_missing worker"], None),
            (
                "revoke update (fence) on david.mcp_action_tasks from david_worker",
                &["right_missing worker"],
                None,
            ),
            (
                "revoke execute on function david.wake_workers() from david_worker",
                &["right_missing worker"],
                None,
            ),
        ],
    )
    .await;
    check(
        &stand,
        "operator",
        &[],
        &[(
            "revoke execute on function david.fail_action(varchar, text, text) from david_operator",
            &["right_missing operator"],
            Some(set_up),
        )],
    )
    .await;
    // An operator is no worker, and is told so when asked.
    let said = stand.doctor("operator", &["--as", "worker"]).await.unwrap();
    assert_eq!(found(&said), ["right_missing operator"], "{said:?}");
    let what = said.json()["findings"][0]["what"].as_str().unwrap().to_owned();
    assert!(what.contains("a worker needs"), "{what}");
}

#[tokio::test]
async fn each_server_that_cannot_be_used_is_named_with_why_and_none_holds_up_the_others() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let down = RawServer::start().await.unwrap().url();
    let (refuses, website, hangs, old) = (
        RawServer::start().await.unwrap(),
        RawServer::start().await.unwrap(),
        RawServer::start().await.unwrap(),
        RawServer::start().await.unwrap(),
    );
    for method in ["server/discover", "initialize"] {
        refuses.on(method, Reply::status(401));
        website.on(
            method,
            Reply::RawBody { content_type: "text/html".to_owned(), body: b"<h1>It works!</h1>".to_vec() },
        );
        hangs.on(method, Reply::Hang);
    }
    old.on("server/discover", Reply::error(-32601, "Method not found"));
    old.on(
        "initialize",
        Reply::Result(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        })),
    );
    let disabled = RawServer::start().await.unwrap();
    for (id, url) in [
        ("reg_down", down.as_str()),
        ("reg_refuses", &refuses.url()),
        ("reg_website", &website.url()),
        ("reg_hangs", &hangs.url()),
        ("reg_old", &old.url()),
        ("reg_private", "https://10.1.2.3/mcp"),
        ("reg_disabled", &disabled.url()),
    ] {
        stand.register(id, url, None).await.unwrap();
    }
    stand
        .sql("update david.mcp_server_registrations set enabled = false where id = 'reg_disabled'")
        .await
        .unwrap();

    let began = Instant::now();
    let said = stand.doctor("worker", &["--server-timeout", "1s"]).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_told(&said.json());
    assert_eq!(
        found(&said),
        [
            "server_forbidden reg_private",
            "server_unauthorised reg_refuses",
            "server_unusable reg_down",
            "server_unusable reg_hangs",
            "server_unusable reg_website",
            "server_without_tasks reg_old",
        ],
        "{said:?}"
    );
    assert_eq!(said.code, 7);
    assert!(disabled.requests().is_empty(), "a disabled registration means no traffic at all");
    // A bound on all together, for a deployment with thousands of them.
    let said = stand.doctor("worker", &["--servers-within", "0s"]).await.unwrap();
    assert!(found(&said).contains(&"unchecked -".to_owned()), "{said:?}");
}

#[tokio::test]
async fn credentials_that_are_missing_broken_or_open_to_others_are_named() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let server = RawServer::start().await.unwrap();
    for credential in ["good", "missing", "empty", "readable", "writable"] {
        let id = format!("reg_{credential}");
        stand
            .register(&id, &format!("{}?{credential}", server.url()), Some(&format!("cred_{credential}")))
            .await
            .unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    write(&file("cred_good"), "token-1", 0o600);
    write(&file("cred_empty"), "", 0o600);
    write(&file("cred_readable"), "token-1", 0o644);
    write(&file("cred_writable"), "token-1", 0o660);
    let dir = directory.path().to_str().unwrap();
    let said = stand.doctor("worker", &["--credentials-dir", dir]).await.unwrap();
    assert_told(&said.json());
    assert_eq!(
        found(&said),
        [
            "credential_missing cred_empty".to_owned(),
            "credential_missing cred_missing".to_owned(),
            format!("credentials_open {dir}/cred_readable"),
            format!("credentials_open {dir}/cred_writable"),
        ],
        "{said:?}"
    );
    assert!(!said.out.contains("token-1"), "a token is never shown");
    // As typed.
    for finding in said.json()["findings"].as_array().unwrap() {
        if finding["check"] == "credentials_open" {
            let mended =
                tokio::process::Command::new("sh").args(["-c", finding["fix"].as_str().unwrap()]).status();
            assert!(mended.await.unwrap().success(), "{finding}");
        }
    }
    write(&file("cred_missing"), "token-1", 0o600);
    write(&file("cred_empty"), "token-1", 0o600);
    stand.until_found("worker", &["--credentials-dir", dir], &[]).await.unwrap();

    let nowhere = stand.doctor("worker", &[]).await.unwrap();
    assert_eq!(found(&nowhere).len(), 5, "{nowhere:?}");
    assert!(found(&nowhere).iter().all(|one| one.starts_with("credential_missing cred_")), "{nowhere:?}");
    let broker = stand.doctor("worker", &["--credential-broker", "http://127.0.0.1:1/token"]).await.unwrap();
    assert!(found(&broker).iter().all(|one| one.starts_with("credential_unavailable cred_")), "{broker:?}");
    let unreadable = stand.doctor("worker", &["--credentials-dir", "/nowhere/at/all"]).await.unwrap();
    assert!(found(&unreadable).contains(&"credentials_unreadable -".to_owned()), "{unreadable:?}");
}

#[tokio::test]
async fn a_pooler_of_transactions_is_told_from_a_session_of_ones_own() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    let pooler = PgBouncer::start(stand.postgres.addr().unwrap()).unwrap();
    let url = pooler.url("core");
    for _ in 0..3 {
        let said = stand.doctor_at(&url, &[]).await.unwrap();
        assert_eq!((said.code, found(&said)), (7, vec!["transaction_pooler -".to_owned()]), "{said:?}");
        assert_told(&said.json());
    }
    let said = stand.doctor_at(&url, &["--db-pooling", "transaction"]).await.unwrap();
    assert_eq!((said.code, found(&said)), (0, Vec::new()), "{said:?}");
    let needless = stand.doctor("worker", &["--db-pooling", "transaction"]).await.unwrap();
    assert_eq!((needless.code, found(&needless)), (0, vec!["pooling_needless -".to_owned()]), "{needless:?}");
}

#[tokio::test]
async fn a_clock_that_is_off_is_named_with_how_far() {
    let stand = Stand::new(DAVID_TASKS).await.unwrap();
    for (offset, words) in [("+10m", "is 10m ahead of"), ("-1h", "behind")] {
        let mut command = tokio::process::Command::new("faketime");
        command
            .args(["-f", offset, DAVID_TASKS, "doctor", "--json", "--as", "worker"])
            .env("DATABASE_URL", stand.url("worker"))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let said = Said::of(command).await.expect("faketime is needed (Debian's package of this name)");
        assert_eq!((said.code, found(&said)), (7, vec!["clock_offset -".to_owned()]), "{said:?}");
        let what = said.json()["findings"][0]["what"].as_str().unwrap().to_owned();
        assert!(what.contains(words), "{what}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_a_finding_too() {
    let said =
        Said::by(DAVID_TASKS, "postgres://nobody@127.0.0.1:1/nowhere", &["doctor", "--json"]).await.unwrap();
    assert_eq!((said.code, found(&said)), (7, vec!["database_unreachable -".to_owned()]), "{said:?}");
    assert_told(&said.json());
    let human = Said::by(DAVID_TASKS, "postgres://nobody@127.0.0.1:1/nowhere", &["doctor"]).await.unwrap();
    for word in ["ERROR database_unreachable", "why: ", "fix: ", "1 errors, 0 warnings"] {
        assert!(human.out.contains(word), "{human:?}");
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
