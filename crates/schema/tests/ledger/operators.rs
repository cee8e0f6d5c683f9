//! What operators do by function: with a word on who and why, once, and under the rules of a commit.

use david_reconciler::{Envelope, ErrorSource, Outcome};
use david_schema::Committed;
use sqlx::types::Uuid;

use crate::support::{Fixture, asks, ended, late, retry, succeed, track, waits_for_a_lock, write};

/// The SQLSTATE and the words of a call that fails.
async fn refusal(fixture: &Fixture, call: &str) -> (String, String) {
    let Err(error) = fixture.try_sql(call).await else { panic!("must be refused: {call}") };
    let error = error.as_database_error().unwrap();
    (error.code().unwrap_or_default().into_owned(), error.message().to_owned())
}

async fn yes(fixture: &Fixture, call: &str) -> bool {
    sqlx::query_scalar(sqlx::AssertSqlSafe(call)).fetch_one(&fixture.db.pool).await.unwrap()
}

async fn text(fixture: &Fixture, query: &str) -> String {
    sqlx::query_scalar(sqlx::AssertSqlSafe(query)).fetch_one(&fixture.db.pool).await.unwrap()
}

/// `act_a` in `working`, due, its remote task known.
async fn working() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("remote-secret").await;
    fixture
}

#[tokio::test]
async fn a_retry_makes_the_row_due_fences_off_its_holder_and_forgets_its_failures() {
    let fixture = working().await;
    let held = fixture.lease_one().await;
    fixture.commit(write(&held, retry("no answer"))).await;
    fixture.sql("update david.mcp_action_tasks set attempt = 6").await;
    let before = fixture.row("a").await;
    assert!(!before.due);

    assert!(yes(&fixture, "select david.retry_now('act_a', 'repaired', 'alice')").await);
    let after = fixture.row("a").await;
    assert_eq!((after.due, after.fence, after.attempt, after.leased), (true, before.fence + 1, 0, false));
    assert!(!yes(&fixture, "select david.retry_now('act_a', 'again')").await, "it is due already");
    assert_eq!(fixture.row("a").await, after);

    let held = fixture.lease_one().await;
    assert!(yes(&fixture, "select david.retry_now('act_a', 'it hangs')").await);
    assert_eq!(fixture.commit(write(&held, succeed(&held))).await, Committed::LeaseLost);
    assert_eq!(
        text(&fixture, "select string_agg(transition || ' ' || detail, ', ' order by position) from david.v_timeline where transition = 'retry_now'").await,
        "retry_now alice: repaired, retry_now postgres: it hangs"
    );
}

#[tokio::test]
async fn a_call_on_the_wire_is_not_retried_by_hand() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.begin_call().await;
    let before = fixture.row("a").await;
    let (code, message) = refusal(&fixture, "select david.retry_now('act_a', 'hurry')").await;
    assert_eq!((code.as_str(), message.as_str()), ("DT005", "Action act_a is being called"));
    fixture.let_leases_lapse().await;
    assert_eq!(refusal(&fixture, "select david.retry_now('act_a', 'hurry')").await.0, "DT005");
    assert_eq!(fixture.row("a").await.fence, before.fence);
}

#[tokio::test]
async fn an_action_ended_by_hand_has_the_envelope_that_the_reconciler_writes() {
    let fixture = working().await;
    fixture.sql("update david.actions set tool_call_id = E'call \"1\"\\n', tool_name = E'a\\\\\"b'").await;
    let held = fixture.lease_one().await;
    assert!(yes(&fixture, "select david.fail_action('act_a', 'the server lost it', 'alice')").await);

    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.action.as_str(), row.outputs), ("cancelling", "failed", 1));
    assert_eq!((row.due, row.leased, row.fence), (true, false, held.task.fence.0 + 1));
    assert_eq!(row.outcome.as_deref(), Some(Outcome::Quarantined.as_str()));
    assert_eq!(row.events, ["MCP_TASK_CREATED", "MCP_TASK_FAILED", "MCP_TASK_CANCEL_REQUESTED"]);
    let written = text(&fixture, "select envelope::text from david.tool_outputs").await;
    let expected = Envelope::of_error(
        &held.task.action_id,
        &held.call,
        Outcome::Quarantined,
        "An operator ended the Action.",
        ErrorSource::Local,
    );
    assert_eq!(written, expected.as_str());

    assert_eq!(fixture.commit(write(&held, succeed(&held))).await, ended(Outcome::Quarantined));
    assert!(!yes(&fixture, "select david.fail_action('act_a', 'again')").await, "once is enough");
    assert_eq!(fixture.row("a").await, row);
}

#[tokio::test]
async fn an_action_without_a_remote_task_is_over_at_once_and_a_late_id_is_told_so() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    assert!(yes(&fixture, "select david.fail_action('act_a', 'a wrong call')").await);
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.action.as_str(), row.outputs), ("finalised", "failed", 1));
    // Whoever holds the id is told, and cancels it remotely.
    assert_eq!(fixture.commit(late(&calling, track("late"))).await, ended(Outcome::Quarantined));
}

#[tokio::test]
async fn what_has_ended_is_neither_failed_nor_retried() {
    let fixture = working().await;
    let held = fixture.lease_one().await;
    fixture.commit(write(&held, succeed(&held))).await;
    let before = fixture.row("a").await;
    for call in ["select david.fail_action('act_a', 'why')", "select david.retry_now('act_a', 'why')"] {
        let (code, message) = refusal(&fixture, call).await;
        assert_eq!((code.as_str(), message.as_str()), ("DT004", "Action act_a has ended: succeeded"));
    }
    assert_eq!(fixture.row("a").await, before);
    assert_eq!(fixture.number("select count(*) from david.mcp_operator_log").await, 0);
}

#[tokio::test]
async fn a_failure_by_hand_waits_for_a_cancel_under_way_and_loses() {
    let fixture = working().await;
    let mut cancel = fixture.db.pool.begin().await.unwrap();
    sqlx::query("update david.runs set status = 'cancelled'").execute(&mut *cancel).await.unwrap();
    let failing = fixture.try_sql("select david.fail_action('act_a', 'why')");
    let (failed, ()) = tokio::join!(failing, async {
        waits_for_a_lock(&fixture, "fail_action").await;
        cancel.commit().await.unwrap();
    });
    assert_eq!(failed.unwrap_err().as_database_error().unwrap().code().as_deref(), Some("DT004"));
    let row = fixture.row("a").await;
    assert_eq!(
        (row.outcome.as_deref(), row.action.as_str(), row.outputs),
        (Some("run_cancelled"), "cancelled", 0)
    );
}

/// One who cannot see the task holds its Run and nothing else.
#[tokio::test]
async fn a_failure_by_hand_waits_for_a_canceller_in_repeatable_read() {
    let fixture = Fixture::new().await;
    fixture.submit("first", "a").await;
    let mut cancel = fixture.db.pool.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read; select from david.runs")
        .execute(&mut *cancel)
        .await
        .unwrap();
    fixture.submit("a", "a").await;
    sqlx::query("update david.runs set status = 'cancelled'").execute(&mut *cancel).await.unwrap();
    let (failed, ()) = tokio::join!(fixture.try_sql("select david.fail_action('act_a', 'why')"), async {
        waits_for_a_lock(&fixture, "fail_action").await;
        cancel.commit().await.unwrap();
    });
    let error = failed.unwrap_err();
    let error = error.as_database_error().unwrap();
    assert_eq!(
        (error.code().as_deref(), error.message()),
        (Some("DT004"), "Action act_a has ended: run_cancelled")
    );
    assert_eq!(fixture.row("a").await.outputs, 0, "a cancelled Run yields no output");
}

#[tokio::test]
async fn an_action_that_core_ended_itself_stays_as_core_left_it() {
    let fixture = working().await;
    fixture.sql("update david.actions set status = 'expired'").await;
    assert!(yes(&fixture, "select david.fail_action('act_a', 'why')").await);
    assert_eq!(fixture.row("a").await.action, "expired");
}

#[tokio::test]
async fn a_cancel_that_does_not_get_through_can_be_given_up() {
    let fixture = working().await;
    assert_eq!(refusal(&fixture, "select david.give_up_cancel('act_a', 'why')").await.0, "DT001");
    fixture.sql("update david.runs set status = 'cancelled'").await;
    let held = fixture.lease_one().await;
    assert!(yes(&fixture, "select david.give_up_cancel('act_a', 'the server is gone for good')").await);
    assert!(!yes(&fixture, "select david.give_up_cancel('act_a', 'again')").await);
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.outcome.as_deref()), ("finalised", Some("run_cancelled")));
    assert_eq!(fixture.commit(write(&held, retry("late"))).await, ended(Outcome::RunCancelled));
}

#[tokio::test]
async fn a_replicas_leases_are_taken_away_but_never_its_calls() {
    let fixture = Fixture::new().await;
    fixture.submit("called", "a").await;
    fixture.begin_call().await;
    fixture.submit("a", "a").await;
    let held = fixture.lease_one().await;
    let calling = fixture.row("called").await;
    let release = format!("select david.release_leases('{}', 'it hangs')", fixture.replica.0);

    assert_eq!(
        fixture.number(&format!("select david.release_leases('{}', 'not this one')", Uuid::new_v4())).await,
        0
    );
    assert_eq!(fixture.number(&release).await, 1);
    assert_eq!(fixture.number(&release).await, 0, "all were released");
    assert_eq!(fixture.row("called").await, calling);
    let row = fixture.row("a").await;
    assert_eq!((row.due, row.leased, row.fence), (true, false, held.task.fence.0 + 1));
    assert_eq!(row.lapses, 1, "nobody knows which row stopped the replica");
    assert_eq!(fixture.commit(write(&held, retry("late"))).await, Committed::LeaseLost);
    assert_eq!(fixture.number("select rows_changed from david.mcp_operator_log").await, 1);
}

#[tokio::test]
async fn a_server_is_paused_and_resumed_once_with_who_and_why() {
    let fixture = working().await;
    let before = fixture.row("a").await;
    assert!(yes(&fixture, "select david.pause_registration('reg', 'it floods us', 'alice')").await);
    assert!(!yes(&fixture, "select david.pause_registration('reg', 'me too', 'bob')").await);
    assert_eq!(
        text(&fixture, "select paused_by || ': ' || paused_reason from david.v_registration_health").await,
        "alice: it floods us"
    );
    assert_eq!(fixture.row("a").await, before, "rows stay as they are");
    assert!(yes(&fixture, "select david.resume_registration('reg', 'it is well')").await);
    assert!(!yes(&fixture, "select david.resume_registration('reg', 'again')").await);
    assert_eq!(
        text(&fixture, "select string_agg(concat_ws(' ', function, acting_for, login, reason), ', ' order by id) from david.mcp_operator_log").await,
        "pause_registration alice postgres it floods us, resume_registration postgres it is well"
    );
}

#[tokio::test]
async fn resuming_closes_a_breaker_and_the_server_is_leased_from_at_once() {
    let fixture = working().await;
    fixture
        .sql("insert into david.mcp_registration_health (registration_id, trips, opened_at, open_until) values ('reg', 3, now(), now() + interval '1 hour')")
        .await;
    assert_eq!(fixture.ledger.closed().await.unwrap().len(), 1);
    assert!(yes(&fixture, "select david.resume_registration('reg', 'repaired', 'alice')").await);
    assert!(!yes(&fixture, "select david.resume_registration('reg', 'again', 'alice')").await);
    assert!(fixture.ledger.closed().await.unwrap().is_empty());
    assert_eq!(text(&fixture, "select breaker from david.v_registration_health").await, "closed");
}

#[tokio::test]
async fn a_run_that_an_operator_cancels_says_who_and_why_in_each_actions_history() {
    let fixture = working().await;
    fixture.submit("b", "b").await;
    fixture.sql("update david.actions set run_id = 'run_a' where id = 'act_b'").await;
    assert!(yes(&fixture, "select david.cancel_run('run_a', 'not wanted', 'alice')").await);
    assert!(!yes(&fixture, "select david.cancel_run('run_a', 'again', 'bob')").await);
    assert_eq!(
        text(&fixture, "select string_agg(concat_ws(' ', action_id, event, detail), ', ' order by action_id) from david.mcp_task_events where transition = 'cancel_run'").await,
        "act_a MCP_TASK_CANCEL_REQUESTED alice: not wanted, act_b MCP_TASK_CANCELLED alice: not wanted"
    );
    assert_eq!(
        text(&fixture, "select string_agg(concat_ws(' ', function, run_id, acting_for, reason, rows_changed), ', ') from david.mcp_operator_log").await,
        "cancel_run run_a alice not wanted 2"
    );
    assert_eq!(refusal(&fixture, "select david.cancel_run('run_a', '')").await.0, "DT001");
    assert_eq!(refusal(&fixture, "select david.cancel_run('run_x', 'why')").await.0, "DT003");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_word_on_what_to_do() {
    let fixture = working().await;
    for (code, call) in [
        ("DT003", "select david.pause_registration('nowhere', 'why')"),
        ("DT003", "select david.resume_registration('nowhere', 'why')"),
        ("DT003", "select david.retry_now('act_none', 'why')"),
        ("DT003", "select david.fail_action('act_none', 'why')"),
        ("DT003", "select david.fail_action(null, 'why')"),
        ("DT001", "select david.pause_registration('reg', '')"),
        ("DT001", "select david.resume_registration('reg', null)"),
        ("DT001", "select david.retry_now('act_a', ' ')"),
        ("DT001", "select david.fail_action('act_a', null)"),
        ("DT001", "select david.fail_action('act_a', repeat('x', 501))"),
        ("DT001", "select david.give_up_cancel('act_a', '')"),
        ("DT001", "select david.release_leases(null, 'why')"),
        ("DT001", "select david.release_leases(gen_random_uuid(), '')"),
        ("DT001", "select david.release_leases(gen_random_uuid(), 'why', p_limit => 0)"),
        ("DT001", "select david.prune(null)"),
        ("DT001", "select david.prune(interval '0')"),
        ("DT001", "select david.prune(interval '1 day', 0)"),
        ("DT001", "select david.prune(interval '1 day', 10, 'some')"),
    ] {
        assert_eq!(refusal(&fixture, call).await.0, code, "{call}");
    }
    assert_eq!(fixture.row("a").await.events, ["MCP_TASK_CREATED"]);
}

#[tokio::test]
async fn a_question_is_not_lost_by_a_retry() {
    let fixture = working().await;
    let held = fixture.lease_one().await;
    let subject = david_reconciler::InputSubject::Task(crate::support::remote("remote-secret"));
    fixture.commit(write(&held, asks(subject, 1, &["q"]))).await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 hour'").await;
    assert!(yes(&fixture, "select david.retry_now('act_a', 'look again')").await);
    assert_eq!(fixture.row("a").await.phase, "input_required");
    assert!(yes(&fixture, "select david.answer_input('act_a', 'q', '{}')").await);
}

#[tokio::test]
async fn an_operators_change_wakes_the_workers() {
    let fixture = working().await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 hour'").await;
    let mut listener = sqlx::postgres::PgListener::connect_with(&fixture.db.pool).await.unwrap();
    listener.listen("david_tasks").await.unwrap();
    fixture.sql("select setval('david.mcp_wake_up_ms', 0)").await;
    fixture.sql("select david.retry_now('act_a', 'why')").await;
    let woken = tokio::time::timeout(std::time::Duration::from_secs(10), listener.recv()).await;
    assert_eq!(woken.unwrap().unwrap().channel(), "david_tasks");
}
