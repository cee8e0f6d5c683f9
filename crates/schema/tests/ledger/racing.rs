//! Rule 7: a cancel and a commit at the same moment. Each order has one outcome, and each is made to happen:
//! transactions stand still on locks the test holds.

use std::sync::Arc;

use david_reconciler::{Outcome, Transition};
use david_schema::{BatchAnswer, Committed, Leased, Write};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::task::JoinHandle;

use crate::support::{Fixture, applied, ended, succeed, waits_for_a_lock, write};

const CANCEL: &str = "update david.runs set status = 'cancelled', cancelled_at = now() where id = 'run_a'";

/// How a completion is committed.
#[derive(Debug, Clone, Copy)]
enum Way {
    Batch,
    Alone,
}

/// A transaction of somebody else's, held open.
async fn hold(fixture: &Fixture, statements: &str) -> PgConnection {
    let mut connection = PgConnection::connect(&fixture.db.url).await.unwrap();
    run(&mut connection, &format!("begin; {statements}")).await.unwrap();
    connection
}

async fn run(connection: &mut PgConnection, statements: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await.map(|_| ())
}

/// Starts statements that are expected to wait.
fn start(mut connection: PgConnection, statements: &'static str) -> JoinHandle<Result<(), sqlx::Error>> {
    tokio::spawn(async move { run(&mut connection, statements).await })
}

/// Starts to commit a completion that stands still in the middle, holding all its locks, until the returned
/// transaction ends: it is about to write the output of the same Action, too.
async fn completion_under_way(
    fixture: &Fixture,
    leased: &Arc<Leased>,
    way: Way,
) -> (PgConnection, JoinHandle<Committed>) {
    let output = "insert into david.tool_outputs (action_id, outcome, is_error, envelope) values ('act_a', 'succeeded', false, '{}')";
    let blocker = hold(fixture, output).await;
    let (ledger, replica, finish) = (fixture.ledger.clone(), fixture.replica, write(leased, succeed(leased)));
    let completion = tokio::spawn(async move {
        match way {
            Way::Alone => ledger.commit_alone(replica, &finish).await.unwrap(),
            Way::Batch => match ledger.commit_batch(replica, std::slice::from_ref(&finish)).await.remove(0) {
                BatchAnswer::Settled(result) => result.unwrap(),
                // It waits a fifth of a second only.
                BatchAnswer::Alone => ledger.commit_alone(replica, &finish).await.unwrap(),
            },
        }
    });
    waits_for_a_lock(fixture, "insert into david.tool_outputs").await;
    (blocker, completion)
}

async fn working() -> (Fixture, Arc<Leased>) {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    (fixture, leased)
}

#[tokio::test]
async fn a_cancel_waits_for_a_completion_under_way_and_leaves_it_as_it_is() {
    for way in [Way::Batch, Way::Alone] {
        let (fixture, leased) = working().await;
        let (mut blocker, completion) = completion_under_way(&fixture, &leased, way).await;
        let cancel = start(PgConnection::connect(&fixture.db.url).await.unwrap(), CANCEL);
        waits_for_a_lock(&fixture, "update david.runs").await;
        run(&mut blocker, "rollback").await.unwrap();

        assert_eq!(completion.await.unwrap(), applied(leased.task.fence.0), "{way:?}");
        cancel.await.unwrap().unwrap();
        let row = fixture.row("a").await;
        assert_eq!((row.action.as_str(), row.outcome.as_deref()), ("completed", Some("succeeded")));
        assert_eq!((row.outputs, row.events.len()), (1, 2), "{way:?}: {row:?}");
    }
}

#[tokio::test]
async fn a_canceller_that_cannot_see_the_task_waits_for_its_completion_all_the_same() {
    for way in [Way::Batch, Way::Alone] {
        let fixture = Fixture::new().await;
        fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
        let mut canceller = PgConnection::connect(&fixture.db.url).await.unwrap();
        run(&mut canceller, "begin isolation level repeatable read; select from david.actions")
            .await
            .unwrap();
        fixture.submit("a", "a").await;
        fixture.track("t").await;
        let leased = fixture.lease_one().await;

        let (mut blocker, completion) = completion_under_way(&fixture, &leased, way).await;
        // It has neither Action nor task to wait for: nothing but the Run keeps it from committing before a result
        // that is about to be written.
        let cancel =
            start(canceller, "update david.runs set status = 'cancelled' where id = 'run_a'; commit");
        waits_for_a_lock(&fixture, "update david.runs").await;
        run(&mut blocker, "rollback").await.unwrap();
        assert_eq!(completion.await.unwrap(), applied(leased.task.fence.0), "{way:?}");
        cancel.await.unwrap().unwrap();
        assert_eq!(fixture.row("a").await.action, "completed");
    }
}

#[tokio::test]
async fn a_completion_that_meets_a_cancel_under_way_waits_for_it_and_loses() {
    let (fixture, leased) = working().await;
    let mut canceller = hold(&fixture, CANCEL).await;

    let finish = write(&leased, succeed(&leased));
    let answers = fixture.ledger.commit_batch(fixture.replica, std::slice::from_ref(&finish)).await;
    assert!(matches!(answers[0], BatchAnswer::Alone), "a batch does not wait: {answers:?}");
    let (ledger, replica) = (fixture.ledger.clone(), fixture.replica);
    let completion = tokio::spawn(async move { ledger.commit_alone(replica, &finish).await.unwrap() });
    waits_for_a_lock(&fixture, "for share").await;
    run(&mut canceller, "commit").await.unwrap();
    assert_eq!(completion.await.unwrap(), ended(Outcome::RunCancelled));
    assert_eq!(fixture.row("a").await.outputs, 0);
}

#[tokio::test]
async fn a_completion_that_meets_a_cancel_that_is_rolled_back_wins() {
    let (fixture, leased) = working().await;
    let mut canceller = hold(&fixture, CANCEL).await;
    let (ledger, replica, finish) =
        (fixture.ledger.clone(), fixture.replica, write(&leased, succeed(&leased)));
    let completion = tokio::spawn(async move { ledger.commit_alone(replica, &finish).await.unwrap() });
    waits_for_a_lock(&fixture, "for share").await;
    run(&mut canceller, "rollback").await.unwrap();
    assert_eq!(completion.await.unwrap(), applied(leased.task.fence.0));
    let row = fixture.row("a").await;
    assert_eq!((row.action.as_str(), row.outputs), ("completed", 1));
}

#[tokio::test]
async fn an_insert_that_races_a_cancel_is_seen_by_it() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let submit = "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')";
    let mut inserter = hold(&fixture, submit).await;
    let cancel = start(PgConnection::connect(&fixture.db.url).await.unwrap(), CANCEL);
    waits_for_a_lock(&fixture, "update david.runs").await;
    run(&mut inserter, "commit").await.unwrap();
    cancel.await.unwrap().unwrap();
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("run_cancelled"));
}

#[tokio::test]
async fn a_cancel_that_races_an_insert_is_seen_by_it() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let mut canceller = hold(&fixture, CANCEL).await;
    let insert = start(
        PgConnection::connect(&fixture.db.url).await.unwrap(),
        "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')",
    );
    waits_for_a_lock(&fixture, "submit_action").await;
    run(&mut canceller, "commit").await.unwrap();
    insert.await.unwrap().unwrap();
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("run_cancelled"));
}

/// A canceller in repeatable read does not see a task that was inserted after its snapshot.
async fn cancelled_behind_a_snapshot() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let mut canceller = PgConnection::connect(&fixture.db.url).await.unwrap();
    run(&mut canceller, "begin isolation level repeatable read; select from david.actions").await.unwrap();
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    run(&mut canceller, &format!("{CANCEL}; commit")).await.unwrap();
    assert_eq!(fixture.row("a").await.phase, "working", "the canceller could not see it");
    fixture
}

#[tokio::test]
async fn a_task_that_the_canceller_could_not_see_is_repaired_after_its_next_lease() {
    let fixture = cancelled_behind_a_snapshot().await;
    let leased = fixture.lease_one().await;
    assert_eq!(leased.run.state, david_reconciler::RunState::Cancelled, "every lease reads the Run");
    let repaired = fixture.commit(write(&leased, Transition::RepairCancel)).await;
    assert_eq!(repaired, ended(Outcome::RunCancelled));
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.action.as_str(), row.due), ("cancelling", "cancelled", true));
    assert_eq!(row.events, ["MCP_TASK_CREATED", "MCP_TASK_CANCEL_REQUESTED"]);
}

#[tokio::test]
async fn a_result_for_a_run_whose_canceller_could_not_see_the_task_is_suppressed_and_the_task_repaired() {
    let fixture = cancelled_behind_a_snapshot().await;
    let leased = fixture.lease_one().await;
    assert_eq!(fixture.commit(write(&leased, succeed(&leased))).await, ended(Outcome::RunCancelled));
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.action.as_str(), row.outputs), ("cancelling", "cancelled", 0));
}

#[tokio::test]
async fn a_result_of_a_cancelled_run_leaves_the_batch_and_the_others_are_written() {
    let fixture = cancelled_behind_a_snapshot().await;
    let leased = fixture.lease_one().await;
    fixture.submit("b", "b").await;
    fixture.track("other").await;
    let other = fixture.lease_one().await;
    let writes: Vec<Write> = [&leased, &other].map(|row| write(row, succeed(row))).into();
    let answers = fixture.ledger.commit_batch(fixture.replica, &writes).await;
    assert!(matches!(answers[0], BatchAnswer::Alone), "{answers:?}");
    assert!(matches!(answers[1], BatchAnswer::Settled(Ok(Committed::Applied { .. }))), "{answers:?}");
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.outputs), ("working", 0), "until it is committed alone");
}
