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
    (
        "p_action_id => 'act_x', p_tool_name => 'tool', p_remote_tool_name => 'tool', p_deadline_in => interval '-1 hour')",
        "DT001",
        "deadline",
    ),
    ("p_action_id => 'x', p_tool_name => 'tool', p_remote_tool_name => 'tool')", "DT001", "act_"),
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
    let unknown_run = "select david.submit_action('act_x', 'run_x', 'reg', 'tool', 'tool')";
    let error = fixture.try_sql(unknown_run).await.expect_err(unknown_run);
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT003"));
    assert_eq!(fixture.number("select count(*) from david.actions").await, 1);
    assert_eq!(fixture.number("select count(*) from david.mcp_action_calls").await, 1);
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
    let error = fixture.try_sql("select david.cancel_run('run_x')").await.expect_err("no such Run");
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT003"));
}
