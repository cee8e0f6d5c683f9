//! What Core calls. Idempotent; bad input gets a clear error and leaves nothing behind.

use crate::support::Fixture;

#[tokio::test]
async fn submitting_the_same_again_returns_the_same_and_changes_nothing() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let before = fixture.row("a").await;
    fixture.submit("a", "a").await;
    assert_eq!(fixture.row("a").await, before);
    assert_eq!(fixture.number("select count(*) from david.mcp_action_tasks").await, 1);
}

#[tokio::test]
async fn two_clients_that_submit_the_same_at_once_make_one_task() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let pool = fixture.db.pool.clone();
        clients.push(tokio::spawn(async move {
            sqlx::query_scalar::<_, i64>(
                "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')",
            )
            .fetch_one(&pool)
            .await
            .unwrap()
        }));
    }
    let mut ids = Vec::new();
    for client in clients {
        ids.push(client.await.unwrap());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

const SUBMIT: &str = "select david.submit_action(p_run_id => 'run_a', p_registration_id => 'reg', ";

/// Statement, SQLSTATE, and a word of the message.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_arguments => '[1]')",
        "DT001",
        "object",
    ),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_arguments => null)",
        "DT001",
        "object",
    ),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => repeat('x', 256))",
        "DT001",
        "255",
    ),
    ("p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => '')", "DT001", "255"),
    ("p_action_id => 'act_x', p_tool_name => repeat('x', 65), p_remote_tool_name => 'tool')", "DT001", "64"),
    ("p_action_id => 'act_x', p_tool_name => '', p_remote_tool_name => 'tool')", "DT001", "64"),
    ("p_action_id => 'act_x', p_tool_name => null, p_remote_tool_name => 'tool')", "DT001", "64"),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_deadline_in => null)",
        "DT001",
        "deadline",
    ),
    ("p_action_id => 'act_', p_tool_name => 'tool', p_remote_tool_name => 'tool')", "DT001", "act_"),
    ("p_action_id => 'act_a', p_tool_name => 'elsewise', p_remote_tool_name => 'tool')", "DT002", "before"),
    (
        "p_action_id => 'act_a', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_idempotent => true)",
        "DT002",
        "before",
    ),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_deadline_in => interval '-1 hour')",
        "DT001",
        "deadline",
    ),
    ("p_action_id => 'x', p_tool_name => 'tool', p_remote_tool_name => 'tool')", "DT001", "act_"),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_remote_task_id => 't', p_remote_expires_at => 'infinity')",
        "DT001",
        "out of reach",
    ),
    (
        "p_action_id => 'act_' || repeat('x', 61), p_tool_name => 'tool', p_remote_tool_name => 'tool')",
        "DT001",
        "64 characters",
    ),
    (
        "p_action_id => 'act_x', p_tool_call_id => repeat('x', 65), p_tool_name => 'tool', p_remote_tool_name => 'tool')",
        "DT001",
        "64 characters",
    ),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_deadline_in => interval '300000 years')",
        "DT001",
        "ten years",
    ),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_remote_task_id => '')",
        "DT001",
        "4096 bytes",
    ),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_remote_task_id => repeat('x', 4097))",
        "DT001",
        "4096 bytes",
    ),
    ("p_action_id => null, p_tool_name => 'tool', p_remote_tool_name => 'tool')", "DT001", "act_"),
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_remote_expires_at => now())",
        "DT001",
        "remote",
    ),
    ("p_action_id => 'act_a', p_tool_name => 'tool', p_remote_tool_name => 'other')", "DT002", "before"),
    (
        "p_action_id => 'act_a', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_arguments => '{\"a\": 1}')",
        "DT002",
        "before",
    ),
];

#[tokio::test]
async fn bad_input_is_refused_with_its_sqlstate_and_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    for (rest, sqlstate, word) in REFUSED {
        let error = fixture.try_sql(&format!("{SUBMIT}{rest}")).await.expect_err(rest);
        let error = error.as_database_error().unwrap();
        assert_eq!(error.code().as_deref(), Some(*sqlstate), "{rest}: {error}");
        assert!(error.message().contains(word), "{rest}: {error}");
    }
    fixture.sql("insert into david.runs (id, user_id) values ('run_b', 'user')").await;
    for (statement, sqlstate) in [
        ("select david.submit_action('act_x', 'run_x', 'reg', 'tool', 'tool')", "DT003"),
        ("select david.submit_action('act_x', null, 'reg', 'tool', 'tool')", "DT001"),
        ("select david.submit_action('act_x', 'run_a', null, 'tool', 'tool')", "DT001"),
        ("select david.submit_action('act_a', 'run_b', 'reg', 'tool', 'tool')", "DT002"),
        ("select david.submit_action('act_a', 'run_a', 'other', 'tool', 'tool')", "DT002"),
    ] {
        let error = fixture.try_sql(statement).await.expect_err(statement);
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some(sqlstate), "{statement}");
    }
    assert_eq!(fixture.number("select count(*) from david.actions").await, 1);
    assert_eq!(fixture.number("select count(*) from david.mcp_action_calls").await, 1);
    assert_eq!(fixture.number("select count(*) from david.mcp_action_tasks").await, 1);
}

#[tokio::test]
async fn plain_inserts_make_the_row_that_the_function_makes() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into david.runs (id, user_id) values ('run_a', 'user');
             insert into david.actions (id, run_id, tool_call_id, tool_name) values ('act_a', 'run_a', 'call_1', 'tool');
             insert into david.mcp_action_calls (action_id, remote_tool_name, arguments, idempotent)
             values ('act_a', 'remote_tool', '{\"x\": 1}', true);
             insert into david.mcp_action_tasks (action_id, registration_id) values ('act_a', 'reg')",
        )
        .await;
    let deadline =
        "select extract(epoch from execution_deadline - created_at)::bigint from david.mcp_action_tasks";
    assert_eq!(fixture.number(deadline).await, 24 * 3600);
    let inserted = fixture.lease_one().await;
    fixture
        .sql(
            "delete from david.actions;
             select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'remote_tool', '{\"x\": 1}', 'call_1',
                                        p_idempotent => true)",
        )
        .await;
    assert_eq!(fixture.number(deadline).await, 24 * 3600);
    let submitted = fixture.lease_one().await;
    assert_eq!((&inserted.call, &inserted.request), (&submitted.call, &submitted.request));
    assert_eq!(inserted.call.repeat, david_reconciler::Repeat::Idempotent);
    assert_eq!(inserted.run, submitted.run);
    assert_eq!((&inserted.task.phase, inserted.task.fence), (&submitted.task.phase, submitted.task.fence));
}

#[tokio::test]
async fn a_task_that_core_created_itself_is_adopted_with_its_expiry_and_never_called() {
    for statement in [
        "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', p_remote_task_id => 'theirs',
                                    p_remote_expires_at => timestamptz '2030-01-01 00:00:00Z')",
        "insert into david.actions (id, run_id, tool_name) values ('act_a', 'run_a', 'tool');
         insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id, remote_expires_at)
         values ('act_a', 'reg', 'working', 'theirs', timestamptz '2030-01-01 00:00:00Z')",
    ] {
        let fixture = Fixture::new().await;
        fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
        fixture.sql(statement).await;
        let leased = fixture.lease_one().await;
        let remote = leased.task.phase.remote().unwrap();
        assert_eq!((remote.id.expose(), remote.status), ("theirs", None));
        assert_eq!(remote.expires_at, Some(david_reconciler::Timestamp(1_893_456_000_000_000)));
        assert_eq!(leased.task.phase.name(), david_reconciler::PhaseName::Working, "{statement}");
    }
}

#[tokio::test]
async fn an_id_that_another_live_task_holds_cannot_be_adopted_and_nothing_is_left_behind() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("same").await;
    let adopt =
        "select david.submit_action('act_b', 'run_a', 'reg', 'tool', 'tool', p_remote_task_id => 'same')";
    let error = fixture.try_sql(adopt).await.expect_err(adopt);
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT002"), "{error}");
    assert!(!format!("{error:?}").contains("same"), "{error:?}");
    // Past the function, the index says no.
    let insert = "insert into david.actions (id, run_id, tool_name) values ('act_c', 'run_a', 'tool');
                  insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id)
                  values ('act_c', 'reg', 'working', 'same')";
    let error = fixture.try_sql(insert).await.expect_err(insert);
    let constraint = error.as_database_error().and_then(|error| error.constraint());
    assert_eq!(constraint, Some("mcp_action_tasks_remote_task"), "{error}");
    assert_eq!(fixture.number("select count(*) from david.actions").await, 1);
}

#[tokio::test]
async fn an_adopted_task_is_not_dropped_by_an_action_that_has_or_needs_another() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let adopt = |action: &str, task: &str| {
        format!(
            "select david.submit_action('act_{action}', 'run_a', 'reg', 'tool', 'tool', p_remote_task_id => '{task}')"
        )
    };
    fixture.sql(&adopt("a", "one")).await;
    fixture.sql(&adopt("a", "one")).await;
    fixture.sql("select david.submit_action('act_b', 'run_a', 'reg', 'tool', 'tool')").await;
    for statement in [adopt("a", "other"), adopt("b", "other")] {
        let error = fixture.try_sql(&statement).await.expect_err(&statement);
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT002"), "{statement}");
    }
    assert_eq!(
        fixture.number("select count(*) from david.mcp_action_tasks where remote_task_id = 'one'").await,
        1
    );
    assert_eq!(fixture.number("select count(*) from david.mcp_action_tasks").await, 2);
}

#[tokio::test]
async fn a_url_never_holds_a_credential() {
    let fixture = Fixture::new().await;
    for (url, normalized) in [
        ("https://user:secret@h/", "https://h/"),
        ("https://user@h/", "https://h/"),
        ("HTTPS://user:secret@h:8443/mcp?x#y", "https://h/"),
        ("https://h/", "https://user:secret@h/"),
        ("https://h/", "https:/user:secret@h/"),
        ("https://h/", "https:user:secret@h/"),
    ] {
        let insert = format!(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             values ('x', 'user', 'x', '{url}', '{normalized}', 'x')"
        );
        let error = fixture.try_sql(&insert).await.expect_err(url);
        let error = error.as_database_error().unwrap();
        assert_eq!(error.code().as_deref(), Some("DT001"), "{url}");
        // A CHECK would show the whole row, to whoever reads the client's log.
        let shown = format!("{error:?}");
        assert!(shown.contains("credential_id") && !shown.contains("secret"), "{shown}");
    }
    fixture
        .sql(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             values ('x', 'user', 'x', 'https://h/path@2?mail=a@b', 'https://h/path@2', 'x')",
        )
        .await;
}

#[tokio::test]
async fn json_that_only_json_can_hold_is_kept_byte_for_byte() {
    let fixture = Fixture::new().await;
    let arguments = r#"{"nul": "\u0000", "half": "\ud800", "big": 1e200000, "twice": 1, "twice": 2}"#;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    sqlx::query("select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', $1::json)")
        .bind(arguments)
        .execute(&fixture.db.pool)
        .await
        .unwrap();
    let leased = fixture.lease_one().await;
    assert_eq!(leased.request.as_ref().unwrap().arguments, arguments);
}

#[tokio::test]
async fn a_deadline_is_always_there() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let hours = "select round(extract(epoch from execution_deadline - created_at) / 3600)::bigint from david.mcp_action_tasks";
    assert_eq!(fixture.number(hours).await, 24);
    assert!(fixture.try_sql("update david.mcp_action_tasks set execution_deadline = null").await.is_err());
}

#[tokio::test]
async fn a_registrations_identity_cannot_change_but_its_switch_can() {
    let fixture = Fixture::new().await;
    for change in
        ["url = 'https://elsewhere/'", "owner_id = 'somebody'", "auth_type = 'bearer', credential_id = 'c'"]
    {
        let error = fixture.try_sql(&format!("update david.mcp_server_registrations set {change}")).await;
        assert!(error.is_err(), "{change}");
    }
    fixture
        .sql("update david.mcp_server_registrations set enabled = false, name = 'new', timeout_seconds = 60")
        .await;
    fixture.sql("delete from david.mcp_server_registrations").await;
}

#[tokio::test]
async fn cancelling_an_unknown_run_is_an_error_and_says_so() {
    let fixture = Fixture::new().await;
    for unknown in ["select david.cancel_run('run_x')", "select david.cancel_run(null)"] {
        let error = fixture.try_sql(unknown).await.expect_err(unknown);
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT003"), "{unknown}");
    }
}

#[tokio::test]
async fn whoever_cancels_a_run_is_told_whether_it_was_the_first() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    for first in [true, false] {
        let cancel = sqlx::query_scalar::<_, bool>("select david.cancel_run('run_a')");
        assert_eq!(cancel.fetch_one(&fixture.db.pool).await.unwrap(), first);
    }
}

/// Postgres' text holds no NUL: a client that sends one is told so, and nothing is half submitted.
#[tokio::test]
async fn a_name_or_an_id_that_postgres_cannot_hold_is_refused_on_intake() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    for (action, tool, task) in [("act_a\0", "tool", "t"), ("act_a", "to\0ol", "t"), ("act_a", "tool", "t\0")]
    {
        let submitted =
            sqlx::query("select david.submit_action($1, 'run_a', 'reg', $2, $2, p_remote_task_id => $3)");
        let error = submitted.bind(action).bind(tool).bind(task).execute(&fixture.db.pool).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("22021"), "{error}");
    }
    assert_eq!(fixture.number("select count(*) from david.actions").await, 0);
}
