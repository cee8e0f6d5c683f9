//! Rules 7 and 16: a locked or a bad row leaves the batch; the others do not notice.

use david_schema::{BatchAnswer, CommitError, Committed};
use sqlx::{Connection as _, PgConnection};

use crate::support::{Fixture, retry, succeed, waits_for_a_lock, write};

/// Rows `act_0` … `act_<n-1>`, each in a Run of its own, working and leased.
async fn working(count: usize) -> (Fixture, Vec<std::sync::Arc<david_schema::Leased>>) {
    let fixture = Fixture::new().await;
    for n in 0..count {
        fixture.submit(&n.to_string(), &n.to_string()).await;
        fixture.track(&format!("t{n}")).await;
        fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 hour'").await;
    }
    fixture.let_leases_lapse().await;
    let mut leased = fixture.lease().await;
    leased.sort_by_key(|row| row.task.id);
    assert_eq!(leased.len(), count);
    (fixture, leased)
}

#[tokio::test]
async fn a_run_that_is_locked_by_somebody_else_does_not_stall_the_batch() {
    let (fixture, leased) = working(3).await;
    let mut other = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin; update david.runs set status = 'pending_action' where id = 'run_1'")
        .execute(&mut other)
        .await
        .unwrap();

    let writes: Vec<_> = leased.iter().map(|row| write(row, succeed(row))).collect();
    let answers = fixture.ledger.commit_batch(fixture.replica, &writes).await;
    assert!(matches!(answers[0], BatchAnswer::Settled(Ok(Committed::Applied { .. }))), "{answers:?}");
    assert!(matches!(answers[1], BatchAnswer::Alone), "{answers:?}");
    assert!(matches!(answers[2], BatchAnswer::Settled(Ok(Committed::Applied { .. }))), "{answers:?}");

    let (ledger, replica, alone) = (fixture.ledger.clone(), fixture.replica, writes[1].clone());
    let waiting = tokio::spawn(async move { ledger.commit_alone(replica, &alone).await.unwrap() });
    waits_for_a_lock(&fixture, "for share").await;
    sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Committed::Applied { .. }));
}

#[tokio::test]
async fn a_locked_action_or_row_leaves_the_batch_too() {
    for lock in [
        "select from david.actions where id = 'act_1' for update",
        "select from david.mcp_action_tasks where action_id = 'act_1' for update",
    ] {
        let (fixture, leased) = working(3).await;
        let mut other = PgConnection::connect(&fixture.db.url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("begin; {lock}"))).execute(&mut other).await.unwrap();
        let writes: Vec<_> = leased.iter().map(|row| write(row, succeed(row))).collect();
        let answers = fixture.ledger.commit_batch(fixture.replica, &writes).await;
        let settled: Vec<bool> =
            answers.iter().map(|answer| matches!(answer, BatchAnswer::Settled(Ok(_)))).collect();
        assert_eq!(settled, [true, false, true], "{lock}");
    }
}

#[tokio::test]
async fn a_lock_that_does_not_come_is_given_up_and_the_write_may_be_made_again() {
    let (fixture, leased) = working(1).await;
    let mut other = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin; update david.runs set status = 'pending_action'")
        .execute(&mut other)
        .await
        .unwrap();
    let finish = write(&leased[0], succeed(&leased[0]));
    let answer = fixture.ledger.commit_alone(fixture.replica, &finish).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    assert_eq!(fixture.row("0").await.outputs, 0);
    sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    assert!(matches!(fixture.commit(finish).await, Committed::Applied { .. }));
}

#[tokio::test]
async fn a_batch_of_nothing_and_a_batch_of_rows_that_are_gone_are_answered() {
    let (fixture, leased) = working(2).await;
    assert!(fixture.ledger.commit_batch(fixture.replica, &[]).await.is_empty());
    fixture.sql("delete from david.runs where id = 'run_0'").await;
    let writes: Vec<_> = leased.iter().map(|row| write(row, retry("still here"))).collect();
    let answers = fixture.ledger.commit_batch(fixture.replica, &writes).await;
    assert!(matches!(answers[0], BatchAnswer::Alone), "{answers:?}");
    assert!(matches!(answers[1], BatchAnswer::Settled(Ok(Committed::Applied { .. }))), "{answers:?}");
    assert_eq!(fixture.commit(writes[0].clone()).await, Committed::Vanished);
}

#[tokio::test]
async fn one_write_that_the_database_refuses_does_not_fail_the_others() {
    let (fixture, leased) = working(3).await;
    let reasons = ["fine", "a NUL \0 that no text column takes", "fine"];
    let writes: Vec<_> = leased.iter().zip(reasons).map(|(row, reason)| write(row, retry(reason))).collect();
    for answer in fixture.ledger.commit_batch(fixture.replica, &writes).await {
        assert!(matches!(answer, BatchAnswer::Alone));
    }
    for (write, fine) in writes.iter().zip([true, false, true]) {
        let result = fixture.ledger.commit_alone(fixture.replica, write).await;
        if fine {
            assert!(matches!(result, Ok(Committed::Applied { .. })), "{result:?}");
        } else {
            assert!(matches!(result, Err(CommitError::Refused(_))), "{result:?}");
        }
    }
    assert_eq!(
        [fixture.row("0").await.attempt, fixture.row("1").await.attempt, fixture.row("2").await.attempt],
        [1, 0, 1]
    );
}

#[tokio::test]
async fn a_late_write_and_a_new_one_for_the_same_row_do_not_meet_in_one_transaction() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    fixture.let_leases_lapse().await;
    let again = fixture.lease_one().await;
    let unknown = crate::support::fail(&again, david_reconciler::Outcome::OutcomeUnknown);
    let writes = [crate::support::late(&calling, succeed(&calling)), write(&again, unknown)];
    let answers = fixture.ledger.commit_batch(fixture.replica, &writes).await;
    assert!(matches!(answers[0], BatchAnswer::Settled(Ok(Committed::Applied { .. }))), "{answers:?}");
    assert!(matches!(answers[1], BatchAnswer::Alone), "{answers:?}");
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn an_output_that_is_there_already_does_not_wedge_the_row() {
    let (fixture, leased) = working(1).await;
    fixture.sql("insert into david.tool_outputs (action_id, outcome, is_error, envelope) values ('act_0', 'tool_error', true, '{}')").await;
    let committed = fixture.commit(write(&leased[0], succeed(&leased[0]))).await;
    assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
    assert_eq!(fixture.row("0").await.outputs, 1);
}

/// A prepared statement keeps its plan. As a join, planned while the history was short, it read all of it
/// for every batch.
#[tokio::test]
async fn a_batch_looks_up_its_own_history_even_by_a_plan_made_when_there_was_none() {
    let fixture = Fixture::new().await;
    let insert = include_str!("../../../../sql/insert_events.sql");
    let mut connection = fixture.db.pool.acquire().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "set plan_cache_mode = force_generic_plan;
         prepare history (bigint[], text[], text[], text[], text[], text[], text[], text[], text[], text[],
                          bigint[], uuid, text[]) as {insert}"
    )))
    .execute(&mut *connection)
    .await
    .unwrap();
    let execute = format!("explain (costs off) execute history ({})", ["null"; 13].join(", "));
    let plan: Vec<String> =
        sqlx::query_scalar(sqlx::AssertSqlSafe(execute)).fetch_all(&mut *connection).await.unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("Index Scan using mcp_task_events_action"), "{plan}");
    assert!(!plan.contains("Join"), "{plan}");
}
