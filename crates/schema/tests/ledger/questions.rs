//! Questions in mid-call: recorded once, answered once, and the answer wakes the row.

use std::time::Duration;

use david_reconciler::{Answer, InputKey, InputState, InputSubject, RequestState, Transition};
use david_schema::Committed;
use serde_json::json;

use crate::support::{Fixture, late, remote, retry, write};

fn asks(subject: InputSubject, keys: &[&str]) -> Transition {
    Transition::AwaitInput {
        subject,
        round: 1,
        requests: keys
            .iter()
            .map(|key| (InputKey::new(*key), json!({ "method": "elicitation/create" })))
            .collect(),
        delay: Duration::ZERO,
    }
}

/// A task that asks `name` and `city`.
async fn asking() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, asks(InputSubject::Task(remote("t")), &["name", "city"]))).await;
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
    let woken = fixture.lease_one().await;
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
    assert_eq!(leased.after(&send).inputs[0].state, InputState::Sending(json!({ "action": "accept" })));
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
    fixture.commit(late(&calling, asks(subject, &["name"]))).await;
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
