//! Questions in mid-call: recorded once, answered once, and the answer wakes the row.

use std::time::Duration;

use david_reconciler::{Answer, InputKey, InputState, InputSubject, RequestState, Transition};
use david_schema::Committed;
use serde_json::json;

use crate::support::{Fixture, after, asks, late, remote, retry, write};

/// A task that asks `name` and `city`.
async fn asking() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, asks(InputSubject::Task(remote("t")), 1, &["name", "city"]))).await;
    fixture
}

async fn answer(fixture: &Fixture, key: &str, response: &str) -> Result<bool, String> {
    sqlx::query_scalar("select david.answer_input('act_a', $1, $2::json)")
        .bind(key)
        .bind(response)
        .fetch_one(&fixture.db.pool)
        .await
        .map_err(|error| error.as_database_error().unwrap().code().unwrap_or_default().into_owned())
}

#[tokio::test]
async fn an_answer_fences_off_a_held_lease_and_makes_the_row_due() {
    let fixture = asking().await;
    let held = fixture.lease_one().await;
    assert_eq!(held.inputs.len(), 2);
    assert_eq!(answer(&fixture, "name", r#"{"action": "accept"}"#).await, Ok(true));
    assert!(fixture.row("a").await.due);
    assert_eq!(fixture.commit(write(&held, retry("late"))).await, Committed::LeaseLost);
    assert_eq!(
        fixture.ledger.release(&[(held.task.id, held.task.fence)]).await.unwrap(),
        0,
        "a release would overwrite the wake-up"
    );
    let woken = fixture.lease_one().await;
    assert_eq!(woken.task.fence.0, held.task.fence.0 + 2, "the answer and the lease bump it");
    assert_eq!(woken.inputs[0].state, InputState::Answered(json!({ "action": "accept" })));
    assert_eq!(woken.inputs[1].state, InputState::Pending);
}

#[tokio::test]
async fn a_key_is_answered_once() {
    let fixture = asking().await;
    assert_eq!(answer(&fixture, "name", r#"{"action": "accept"}"#).await, Ok(true));
    assert_eq!(answer(&fixture, "name", r#"{"action": "accept"}"#).await, Ok(false));
    assert_eq!(answer(&fixture, "name", r#"{"action": "decline"}"#).await, Err("DT002".to_owned()));
    assert_eq!(answer(&fixture, "age", "{}").await, Err("DT003".to_owned()));
    assert_eq!(answer(&fixture, "city", "[]").await, Err("DT001".to_owned()));
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_refused_with_its_sqlstate_and_wakes_nobody() {
    let fixture = asking().await;
    fixture.submit("b", "b").await;
    let before = fixture.row("a").await;
    for (arguments, sqlstate) in [
        ("'act_x', 'name', '{}'", "DT003"),
        ("null, 'name', '{}'", "DT003"),
        ("'act_b', 'name', '{}'", "DT003"),
        ("'act_a', 'age', '{}'", "DT003"),
        ("'act_a', null, '{}'", "DT003"),
        ("'act_a', 'name', null", "DT001"),
        ("'act_a', 'name', 'null'", "DT001"),
        ("'act_a', 'name', '\"accept\"'", "DT001"),
    ] {
        let error = fixture.try_sql(&format!("select david.answer_input({arguments})")).await;
        let error = error.expect_err(arguments);
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some(sqlstate), "{arguments}");
    }
    assert_eq!(fixture.row("a").await, before);
    assert_eq!(
        fixture.number("select count(*) from david.mcp_input_requests where state = 'pending'").await,
        2
    );
}

#[tokio::test]
async fn the_same_answer_again_wakes_nobody() {
    let fixture = asking().await;
    answer(&fixture, "name", r#"{"action": "accept"}"#).await.unwrap();
    let held = fixture.lease_one().await;
    let before = fixture.row("a").await;
    assert_eq!(answer(&fixture, "name", r#"{"action": "accept"}"#).await, Ok(false));
    assert_eq!(fixture.row("a").await, before);
    assert!(matches!(fixture.commit(write(&held, retry("mine"))).await, Committed::Applied { .. }));
}

#[tokio::test]
async fn an_answer_after_the_end_is_too_late_and_says_so() {
    let fixture = asking().await;
    fixture.sql("update david.runs set status = 'cancelled'").await;
    assert_eq!(answer(&fixture, "name", "{}").await, Err("DT004".to_owned()));
}

#[tokio::test]
async fn answers_are_marked_before_they_leave_and_after_they_are_acknowledged() {
    let fixture = asking().await;
    answer(&fixture, "name", r#"{"action": "accept"}"#).await.unwrap();
    let leased = fixture.lease_one().await;
    let send = Transition::SendAnswers {
        answers: vec![Answer { key: InputKey::new("name"), response: json!({ "action": "accept" }) }],
    };
    fixture.commit(write(&leased, send.clone())).await;
    assert_eq!(after(&leased, &send).inputs[0].state, InputState::Sending(json!({ "action": "accept" })));
    fixture.let_leases_lapse().await;
    let found = fixture.lease_one().await;
    assert_eq!(found.inputs[0].state, InputState::Sending(json!({ "action": "accept" })));
    let sent = Transition::AnswersSent { keys: vec![InputKey::new("name")], delay: Duration::ZERO };
    fixture.commit(write(&found, sent)).await;
    let after = fixture.lease_one().await;
    assert_eq!(after.inputs[0].state, InputState::Sent);
}

#[tokio::test]
async fn the_state_of_a_call_that_asks_is_kept_byte_for_byte() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    let state = RequestState::new("ünïcode\n\0\u{1F600}");
    let subject = InputSubject::Call { request_state: Some(state.clone()) };
    fixture.commit(late(&calling, asks(subject, 1, &["name"]))).await;
    let leased = fixture.lease_one().await;
    assert_eq!(leased.request.as_ref().unwrap().request_state, Some(state));
    assert_eq!(leased.task.input_round, 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_marks_the_row_and_is_not_leased_for_ever_in_silence() {
    let fixture = asking().await;
    answer(&fixture, "name", r#"{"number": 1e200000}"#).await.unwrap();
    let leased = fixture.lease_one().await;
    assert_eq!(leased.unreadable, Some("response"));
    assert!(leased.inputs.is_empty());
}
