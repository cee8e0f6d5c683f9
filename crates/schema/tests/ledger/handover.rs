//! Outputs handed over to a consumer that may die at any moment: at least once, and recognisable.

use crate::support::{Fixture, succeed, write};

/// Actions a, b, … with an output each, in this order.
async fn with_outputs(names: &[&str]) -> Fixture {
    let fixture = Fixture::new().await;
    for name in names {
        fixture.submit(name, name).await;
        fixture.track(name).await;
        fixture.let_leases_lapse().await;
        for leased in fixture.lease().await {
            fixture.commit(write(&leased, succeed(&leased))).await;
        }
    }
    fixture
}

async fn take(fixture: &Fixture, limit: i32) -> Vec<String> {
    let taken: Vec<(String, String)> =
        sqlx::query_as("select action_id, message_id from david.take_outputs($1)")
            .bind(limit)
            .fetch_all(&fixture.db.pool)
            .await
            .unwrap();
    taken
        .into_iter()
        .map(|(action, message)| {
            assert_eq!(message, action.replace("act_", "message_"));
            action
        })
        .collect()
}

async fn acknowledge(fixture: &Fixture, actions: &[&str]) -> i32 {
    sqlx::query_scalar("select david.ack_outputs($1)")
        .bind(actions)
        .fetch_one(&fixture.db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn an_output_whose_taker_died_comes_again_and_an_acknowledged_one_does_not() {
    let fixture = with_outputs(&["a", "b", "c"]).await;
    assert_eq!(take(&fixture, 2).await, ["act_a", "act_b"]);
    assert_eq!(take(&fixture, 9).await, ["act_c"], "what somebody holds is not handed to another");
    assert_eq!(take(&fixture, 9).await, [""; 0]);
    assert_eq!(acknowledge(&fixture, &["act_a", "act_unknown"]).await, 1);
    assert_eq!(acknowledge(&fixture, &["act_a"]).await, 0);

    fixture.sql("update david.tool_outputs set taken_until = now()").await;
    assert_eq!(take(&fixture, 9).await, ["act_b", "act_c"]);
    assert_eq!(acknowledge(&fixture, &["act_b", "act_c"]).await, 2);
    fixture.sql("update david.tool_outputs set taken_until = now()").await;
    assert_eq!(take(&fixture, 9).await, [""; 0]);
}

#[tokio::test]
async fn two_takers_at_once_never_hold_the_same_output_and_wait_for_nobody() {
    let fixture = with_outputs(&["a", "b", "c"]).await;
    let mut one = fixture.db.pool.begin().await.unwrap();
    let first: String =
        sqlx::query_scalar("select action_id from david.take_outputs(1)").fetch_one(&mut *one).await.unwrap();
    assert_eq!(first, "act_a");
    assert_eq!(take(&fixture, 9).await, ["act_b", "act_c"]);
    one.rollback().await.unwrap();
    assert_eq!(take(&fixture, 9).await, ["act_a"]);
}

#[tokio::test]
async fn an_output_of_a_run_that_was_cancelled_since_says_so() {
    let fixture = with_outputs(&["a"]).await;
    fixture.sql("update david.runs set status = 'cancelled'").await;
    let cancelled: bool = sqlx::query_scalar("select run_cancelled from david.take_outputs(1)")
        .fetch_one(&fixture.db.pool)
        .await
        .unwrap();
    assert!(cancelled);
}

#[tokio::test]
async fn taking_reads_its_index_and_bad_limits_are_refused() {
    let fixture = with_outputs(&["a"]).await;
    for call in [
        "select david.take_outputs(0)",
        "select david.take_outputs(null)",
        "select david.take_outputs(10001)",
        "select david.take_outputs(1, interval '0')",
        "select david.take_outputs(1, null)",
        "select david.take_outputs(1, interval '2 days')",
        "select david.ack_outputs(null)",
    ] {
        let error = fixture.try_sql(call).await.expect_err(call);
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT001"), "{call}: {error}");
    }
    let mut connection = fixture.db.pool.acquire().await.unwrap();
    sqlx::query("set enable_seqscan = off").execute(&mut *connection).await.unwrap();
    let plan: Vec<String> = sqlx::query_scalar(
        "explain select id from david.tool_outputs where acknowledged_at is null and taken_until <= now()
          order by taken_until, id limit 10 for update skip locked",
    )
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("tool_outputs_to_take") && !plan.contains("Sort"), "{plan}");
}
