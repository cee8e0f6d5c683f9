//! The figures of the whole fleet that a replica shows.

use std::time::Duration;

use crate::support::Fixture;

async fn overdue(fixture: &Fixture, action: &str, seconds: u32) {
    fixture
        .sql(&format!(
            "update david.mcp_action_tasks set due_at = now() - interval '{seconds} s' where action_id = 'act_{action}'"
        ))
        .await;
}

#[tokio::test]
async fn the_oldest_due_row_is_the_oldest_that_a_replica_would_lease() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.ledger.oldest_due().await.unwrap(), Duration::ZERO);
    for name in ["a", "b"] {
        fixture.submit(name, name).await;
    }
    fixture.register("other").await;
    fixture
        .sql("update david.mcp_action_tasks set registration_id = 'other' where action_id = 'act_b'")
        .await;
    overdue(&fixture, "a", 100).await;
    overdue(&fixture, "b", 1000).await;
    let oldest = fixture.ledger.oldest_due().await.unwrap().as_secs();
    assert!((1000..1030).contains(&oldest), "{oldest}");
    // What an operator holds back is meant to wait.
    fixture.sql("select david.pause_registration('other', 'why', 'somebody')").await;
    let oldest = fixture.ledger.oldest_due().await.unwrap().as_secs();
    assert!((100..130).contains(&oldest), "{oldest}");
    fixture.lease().await;
    fixture.sql("select david.resume_registration('other', 'why', 'somebody')").await;
    assert_eq!(fixture.ledger.oldest_due().await.unwrap(), Duration::ZERO);
}

#[tokio::test]
async fn a_lease_says_how_long_each_of_its_rows_had_been_due() {
    let fixture = Fixture::new().await;
    for (name, seconds) in [("a", 10), ("b", 100), ("c", 1000)] {
        fixture.submit(name, name).await;
        overdue(&fixture, name, seconds).await;
    }
    let batch = fixture.ledger.lease(fixture.replica, 10, crate::support::TERM).await.unwrap();
    let mut waits: Vec<u64> = batch.waits.iter().map(Duration::as_secs).collect();
    waits.sort_unstable();
    assert_eq!(waits.iter().map(|wait| wait / 10).collect::<Vec<_>>(), [1, 10, 100], "{waits:?}");
    assert_eq!(batch.lag().as_secs() / 10, 100);
}

#[tokio::test]
async fn owed_cancels_and_stuck_rows_are_counted() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("remote").await;
    assert_eq!(fixture.ledger.owed_cancels().await.unwrap(), 0);
    fixture.sql("select david.cancel_run('run_a')").await;
    assert_eq!(fixture.ledger.owed_cancels().await.unwrap(), 1);
    assert!(fixture.ledger.stuck().await.unwrap().is_empty());
    overdue(&fixture, "a", 1000).await;
    assert_eq!(fixture.ledger.stuck().await.unwrap(), [("not_leased".to_owned(), 1)].into());
}

/// The words of the view, which are not the binary's to change.
#[tokio::test]
async fn the_reasons_of_v_stuck_are_those_that_are_counted() {
    let fixture = Fixture::new().await;
    let comment: String = sqlx::query_scalar(
        "select col_description('david.v_stuck'::regclass, attnum::int)
           from pg_attribute where attrelid = 'david.v_stuck'::regclass and attname = 'reason'",
    )
    .fetch_one(&fixture.db.pool)
    .await
    .unwrap();
    let words = comment.trim_end_matches('.').split_once(": ").unwrap().1;
    assert_eq!(words.split(", ").collect::<Vec<_>>(), david_schema::STUCK_REASONS);
}
