//! Rule 17: what the phase types cannot express cannot be stored. One illegal row per CHECK.

use std::collections::BTreeSet;

use crate::support::Fixture;

const TASK: &str = "update david.mcp_action_tasks set ";
const RUN: &str = "insert into david.runs (id, user_id, status) values ";
const REGISTRATION: &str =
    "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key, ";

const HEALTH: &str = "insert into david.mcp_registration_health (registration_id, ";

/// A constraint and a statement that only it refuses, on a queued task `act_a`.
const ILLEGAL: &[(&str, &str, &str)] = &[
    ("runs_status_known", RUN, "('run_x', 'user', 'canceled')"),
    ("actions_status_known", "update david.actions set ", "status = 'done'"),
    (
        "registrations_transport_known",
        REGISTRATION,
        "transport) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 'stdio')",
    ),
    (
        "registrations_auth_type_known",
        REGISTRATION,
        "auth_type, credential_id) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 'basic', null)",
    ),
    (
        "registrations_bearer_names_credential",
        REGISTRATION,
        "auth_type) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 'bearer')",
    ),
    (
        "registrations_timeout_bounded",
        REGISTRATION,
        "timeout_seconds) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 301)",
    ),
    (
        "registrations_input_policy_known",
        REGISTRATION,
        "input_policy) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 'maybe')",
    ),
    (
        "registrations_url_is_http",
        REGISTRATION,
        "enabled) values ('x', 'u', 'x', 'ftp://h/', 'ftp://h/', 'x', true)",
    ),
    (
        "registrations_url_without_credentials",
        // What the trigger before it says is for people; this is for those who come past it.
        "alter table david.mcp_server_registrations disable trigger registrations_checked; insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key, ",
        "enabled) values ('x', 'u', 'x', 'https://a:b@h/', 'https://h/', 'x', true)",
    ),
    (
        "registrations_max_calls_positive",
        REGISTRATION,
        "max_calls) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 0)",
    ),
    ("tasks_call_slot_positive", TASK, "call_slot = 0"),
    (
        "calls_traceparent_is_w3c",
        "update david.mcp_action_calls set ",
        "traceparent = '00-00000000000000000000000000000000-00f067aa0ba902b7-01'",
    ),
    (
        "calls_tracestate_is_w3c",
        "update david.mcp_action_calls set traceparent = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01', ",
        "tracestate = repeat('x', 513)",
    ),
    ("calls_tracestate_has_traceparent", "update david.mcp_action_calls set ", "tracestate = 'vendor=1'"),
    ("health_open_until_once_tripped", HEALTH, "trips) values ('x', 1)"),
    ("health_pause_names_who", HEALTH, "paused_at) values ('x', now())"),
    ("health_counters_not_negative", HEALTH, "requests, failures) values ('x', 1, 2)"),
    ("calls_remote_tool_name_given", "update david.mcp_action_calls set ", "remote_tool_name = ''"),
    ("calls_arguments_are_an_object", "update david.mcp_action_calls set ", "arguments = '[]'"),
    (
        "tasks_action_id_prefixed",
        "",
        "insert into david.actions (id, run_id, tool_name) values ('x_1', 'run_a', 't'); insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id) values ('x_1', 'reg', 'working', 't')",
    ),
    ("tasks_phase_known", TASK, "phase = 'paused'"),
    ("tasks_queued_has_no_remote_task", TASK, "remote_task_id = 't'"),
    ("tasks_calling_has_call_fence", TASK, "phase = 'calling'"),
    ("tasks_working_has_remote_task", TASK, "phase = 'working'"),
    ("tasks_input_required_has_round", TASK, "phase = 'input_required'"),
    ("tasks_cancelling_has_remote_task", TASK, "phase = 'cancelling', outcome = 'run_cancelled'"),
    ("tasks_outcome_marks_local_end", TASK, "outcome = 'succeeded'"),
    ("tasks_finalised_at_marks_finalised", TASK, "finalised_at = now()"),
    ("tasks_outcome_known", TASK, "phase = 'finalised', finalised_at = now(), outcome = 'great'"),
    (
        "tasks_success_owes_no_cancel",
        TASK,
        "phase = 'cancelling', outcome = 'succeeded', remote_task_id = 't'",
    ),
    ("tasks_remote_task_id_bounded", TASK, "phase = 'working', remote_task_id = repeat('x', 4097)"),
    ("tasks_remote_status_known", TASK, "phase = 'working', remote_task_id = 't', remote_status = 'paused'"),
    ("tasks_remote_facts_have_remote_task", TASK, "remote_ttl_ms = 1"),
    ("tasks_instants_in_reach", TASK, "execution_deadline = 'infinity'"),
    ("tasks_instants_in_reach", TASK, "due_at = '-infinity'"),
    (
        "tasks_instants_in_reach",
        TASK,
        "phase = 'working', remote_task_id = 't', remote_expires_at = '20000-01-01'",
    ),
    ("tasks_fence_orders_calls", TASK, "call_fence = 1"),
    ("tasks_counters_not_negative", TASK, "attempt = -1"),
    ("tasks_call_slot_positive", TASK, "call_slot = 0"),
    (
        "calls_traceparent_is_w3c",
        "update david.mcp_action_calls set ",
        "traceparent = '00-00000000000000000000000000000000-00f067aa0ba902b7-01'",
    ),
    (
        "calls_tracestate_is_w3c",
        "update david.mcp_action_calls set traceparent = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01', ",
        "tracestate = repeat('x', 513)",
    ),
    ("calls_tracestate_has_traceparent", "update david.mcp_action_calls set ", "tracestate = 'vendor=1'"),
    (
        "registrations_max_calls_positive",
        REGISTRATION,
        "max_calls) values ('x', 'u', 'x', 'https://h/', 'https://h/', 'x', 0)",
    ),
    ("health_open_until_once_tripped", HEALTH, "trips) values ('x', 1)"),
    ("health_pause_names_who", HEALTH, "paused_at) values ('x', now())"),
    ("health_counters_not_negative", HEALTH, "failures) values ('x', 1)"),
    (
        "outputs_action_id_prefixed",
        "",
        "insert into david.actions (id, run_id, tool_name) values ('x_1', 'run_a', 't'); insert into david.tool_outputs (action_id, outcome, is_error, envelope) values ('x_1', 'succeeded', false, '{}')",
    ),
    (
        "outputs_envelope_is_an_object",
        "",
        "insert into david.tool_outputs (action_id, outcome, is_error, envelope) values ('act_a', 'succeeded', false, '1')",
    ),
    (
        "inputs_round_counts_from_one",
        "insert into david.mcp_input_requests (task_id, round, key, request) select id, ",
        "0, 'k', '{}' from david.mcp_action_tasks",
    ),
    (
        "inputs_state_known",
        "insert into david.mcp_input_requests (task_id, round, key, request, response, answered_at, state) select id, ",
        "1, 'k', '{}', '{}', now(), 'lost' from david.mcp_action_tasks",
    ),
    (
        "inputs_response_once_answered",
        "insert into david.mcp_input_requests (task_id, round, key, request, answered_at, state) select id, ",
        "1, 'k', '{}', now(), 'answered' from david.mcp_action_tasks",
    ),
    (
        "inputs_answered_at_once_answered",
        "insert into david.mcp_input_requests (task_id, round, key, request, response, state) select id, ",
        "1, 'k', '{}', '{}', 'answered' from david.mcp_action_tasks",
    ),
    (
        "inputs_sent_at_once_sent",
        "insert into david.mcp_input_requests (task_id, round, key, request, response, answered_at, state) select id, ",
        "1, 'k', '{}', '{}', now(), 'sent' from david.mcp_action_tasks",
    ),
];

#[tokio::test]
async fn every_check_refuses_the_row_it_is_there_for() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    for (constraint, start, rest) in ILLEGAL {
        let error = fixture.try_sql(&format!("{start}{rest}")).await.expect_err(constraint);
        let database = error.as_database_error().unwrap_or_else(|| panic!("{constraint}: {error}"));
        assert_eq!(database.constraint(), Some(*constraint), "{start}{rest}: {error}");
    }

    let stored: Vec<String> = sqlx::query_scalar(
        "select conname::text from pg_constraint
          where connamespace = 'david'::regnamespace and contype = 'c' and conrelid <> 0",
    )
    .fetch_all(&fixture.db.pool)
    .await
    .unwrap();
    let tried: BTreeSet<&str> = ILLEGAL.iter().map(|(constraint, _, _)| *constraint).collect();
    let untried: Vec<_> = stored.iter().filter(|name| !tried.contains(name.as_str())).collect();
    assert!(untried.is_empty(), "no illegal row is tried for {untried:?}");
}

#[tokio::test]
async fn an_action_has_one_task_and_one_output() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    for (statement, constraint) in [
        (
            "insert into david.mcp_action_tasks (action_id, registration_id) values ('act_a', 'reg')",
            "tasks_one_per_action",
        ),
        (
            "insert into david.tool_outputs (action_id, outcome, is_error, envelope)
             select 'act_a', 'succeeded', false, '{}' from generate_series(1, 2)",
            "outputs_one_per_action",
        ),
    ] {
        let error = fixture.try_sql(statement).await.expect_err(constraint);
        assert_eq!(error.as_database_error().and_then(|error| error.constraint()), Some(constraint));
    }
}

#[tokio::test]
async fn the_message_id_is_made_of_the_actions_suffix() {
    let fixture = Fixture::new().await;
    fixture.submit("0123456789abcdefABCDEF", "a").await;
    fixture
        .sql("insert into david.tool_outputs (action_id, outcome, is_error, envelope) values ('act_0123456789abcdefABCDEF', 'succeeded', false, '{}')")
        .await;
    let id: String = sqlx::query_scalar("select message_id from david.tool_outputs")
        .fetch_one(&fixture.db.pool)
        .await
        .unwrap();
    assert_eq!(id, "message_0123456789abcdefABCDEF");
}

#[tokio::test]
async fn an_id_of_four_kilobytes_is_kept() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track(&"ü".repeat(2048)).await;
    let leased = fixture.lease_one().await;
    assert_eq!(leased.task.phase.remote().unwrap().id.expose().len(), 4096);
}

#[tokio::test]
async fn a_task_is_inserted_only_as_queued_or_as_adopted() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into david.runs (id, user_id) values ('run_a', 'user');
             insert into david.actions (id, run_id, tool_name) values ('act_a', 'run_a', 'tool')",
        )
        .await;
    for (illegal, sqlstate) in [
        ("(action_id, registration_id) values ('act_a', 'reg')", "23503"),
        ("(action_id, registration_id) values ('act_missing', 'reg')", "23503"),
        ("(action_id, registration_id, phase) values ('act_a', 'reg', 'calling')", "23514"),
        ("(action_id, registration_id, phase) values ('act_a', 'reg', 'working')", "23514"),
        ("(action_id, registration_id, phase) values ('act_a', 'reg', 'input_required')", "23514"),
        (
            "(action_id, registration_id, phase, remote_task_id, outcome) values ('act_a', 'reg', 'cancelling', 't', 'tool_error')",
            "23514",
        ),
        (
            "(action_id, registration_id, phase, outcome, finalised_at) values ('act_a', 'reg', 'finalised', 'succeeded', now())",
            "23514",
        ),
        ("(action_id, registration_id, remote_task_id) values ('act_a', 'reg', 't')", "23514"),
    ] {
        let error = fixture.try_sql(&format!("insert into david.mcp_action_tasks {illegal}")).await;
        let error = error.expect_err(illegal);
        assert_eq!(
            error.as_database_error().unwrap().code().as_deref(),
            Some(sqlstate),
            "{illegal}: {error}"
        );
    }
    fixture
        .sql("insert into david.mcp_action_calls (action_id, remote_tool_name) values ('act_a', 'tool')")
        .await;
    fixture
        .sql("insert into david.mcp_action_tasks (action_id, registration_id) values ('act_a', 'reg')")
        .await;
    assert_eq!(fixture.row("a").await.phase, "queued");
}
