//! Rules 6, 7 and 8: cancelling a Run is final in its own commit, and beats a completion.

use david_reconciler::{Outcome, Transition};
use david_schema::Committed;
use sqlx::{Connection as _, PgConnection};

use crate::support::{Fixture, applied, ended, late, succeed, track, waits_for_a_lock, write};

const BY_STATUS: &str = "update david.runs set status = 'cancelled' where id = 'run_a'";
const BY_TIME: &str = "update david.runs set cancelled_at = now() where id = 'run_a'";
const BY_FUNCTION: &str = "select david.cancel_run('run_a')";

#[tokio::test]
async fn cancelling_a_run_in_any_way_ends_its_actions_in_the_same_commit() {
    for cancel in [BY_STATUS, BY_TIME, BY_FUNCTION] {
        let fixture = Fixture::new().await;
        fixture.submit("working", "a").await;
        fixture.track("t").await;
        fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 hour'").await;
        fixture.submit("queued", "a").await;
        fixture.submit("other", "b").await;
        fixture.sql(cancel).await;

        let working = fixture.row("working").await;
        assert_eq!(
            (working.phase.as_str(), working.action.as_str(), working.due),
            ("cancelling", "cancelled", true)
        );
        assert_eq!(working.events, ["MCP_TASK_CREATED", "MCP_TASK_CANCEL_REQUESTED"]);
        let queued = fixture.row("queued").await;
        assert_eq!((queued.phase.as_str(), queued.action.as_str()), ("finalised", "cancelled"), "{cancel}");
        assert_eq!(queued.outcome.as_deref(), Some("run_cancelled"));
        assert_eq!(queued.outputs + working.outputs, 0, "a cancelled Run yields no output");
        assert_eq!(fixture.row("other").await.phase, "queued");
    }
}

#[tokio::test]
async fn a_role_that_may_only_update_runs_cancels_by_plain_update() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let role = format!("canceller_{}", fixture.db.name());
    fixture
        .sql(&format!(
            "create role {role};
             grant usage on schema david to {role};
             grant select (id), update (status, cancelled_at) on david.runs to {role}"
        ))
        .await;
    fixture.sql(&format!("set role {role}; {BY_STATUS}; reset role")).await;
    let row = fixture.row("a").await;
    let denied = fixture.try_sql(&format!("set role {role}; select * from david.mcp_action_tasks")).await;
    fixture.sql(&format!("reset role; drop owned by {role}; drop role {role}")).await;
    assert_eq!((row.phase.as_str(), row.action.as_str()), ("finalised", "cancelled"));
    assert!(denied.is_err(), "the role may do nothing else");
}

#[tokio::test]
async fn a_cancel_fences_off_the_replica_that_holds_the_row() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    fixture.sql(BY_STATUS).await;
    assert_eq!(fixture.commit(late(&calling, track("t"))).await, ended(Outcome::RunCancelled));
    assert_eq!(fixture.commit(late(&calling, succeed(&calling))).await, ended(Outcome::RunCancelled));
    assert_eq!(fixture.row("a").await.outputs, 0);
}

#[tokio::test]
async fn cancelling_twice_changes_nothing_more() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    fixture.sql(BY_STATUS).await;
    let once = fixture.row("a").await;
    fixture.sql(BY_TIME).await;
    fixture.sql(BY_FUNCTION).await;
    assert_eq!(fixture.row("a").await, once);
}

#[tokio::test]
async fn a_completion_that_committed_first_stays() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, succeed(&leased))).await;
    let completed = fixture.row("a").await;
    fixture.sql(BY_STATUS).await;
    assert_eq!(fixture.row("a").await, completed);
    assert_eq!(completed.action, "completed");
}

#[tokio::test]
async fn a_status_of_completed_may_be_transient_and_cancels_nothing() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.sql("update david.runs set status = 'completed', completed_at = now()").await;
    assert_eq!(fixture.row("a").await.phase, "queued");
}

#[tokio::test]
async fn one_statement_may_cancel_many_runs() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.submit(name, name).await;
    }
    fixture.sql("update david.runs set status = 'cancelled'").await;
    for name in ["a", "b", "c"] {
        assert_eq!(fixture.row(name).await.phase, "finalised");
    }
}

#[tokio::test]
async fn a_cancel_waits_for_a_completion_under_way_and_then_changes_nothing() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    // The finalising transaction stands still while it holds its Run, as a slow one would.
    let mut finaliser = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin; select from david.runs where id = 'run_a' for share")
        .execute(&mut finaliser)
        .await
        .unwrap();
    let url = fixture.db.url.clone();
    let cancel = tokio::spawn(async move {
        let mut canceller = PgConnection::connect(&url).await.unwrap();
        sqlx::query(BY_STATUS).execute(&mut canceller).await.unwrap();
    });
    waits_for_a_lock(&fixture, "update david.runs").await;
    assert!(!cancel.is_finished());
    assert_eq!(fixture.row("a").await.phase, "working", "nothing is cancelled yet");
    // Another transaction that holds the Run for share as well completes the Action first.
    let completed = fixture.commit(write(&leased, succeed(&leased))).await;
    sqlx::raw_sql("commit").execute(&mut finaliser).await.unwrap();
    cancel.await.unwrap();
    let row = fixture.row("a").await;
    match completed {
        Committed::Applied { .. } => assert_eq!((row.action.as_str(), row.outputs), ("completed", 1)),
        _ => assert_eq!((row.action.as_str(), row.outputs), ("cancelled", 0)),
    }
}

#[tokio::test]
async fn a_completion_that_meets_a_cancel_under_way_waits_for_it_and_loses() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    let mut canceller = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("begin; {BY_STATUS}"))).execute(&mut canceller).await.unwrap();

    let (ledger, replica) = (fixture.ledger.clone(), fixture.replica);
    let finish = write(&leased, succeed(&leased));
    let completion = tokio::spawn(async move { ledger.commit_alone(replica, &finish).await.unwrap() });
    waits_for_a_lock(&fixture, "for share").await;
    sqlx::raw_sql("commit").execute(&mut canceller).await.unwrap();
    assert_eq!(completion.await.unwrap(), ended(Outcome::RunCancelled));
    assert_eq!(fixture.row("a").await.outputs, 0);
}

#[tokio::test]
async fn a_task_inserted_for_a_cancelled_run_is_born_ended() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id, status) values ('run_a', 'user', 'cancelled')").await;
    fixture.submit("a", "a").await;
    fixture
        .sql("select david.submit_action('act_b', 'run_a', 'reg', 'tool', 'tool', '{}', p_remote_task_id => 't')")
        .await;
    let (queued, adopted) = (fixture.row("a").await, fixture.row("b").await);
    assert_eq!(
        (queued.phase.as_str(), queued.action.as_str(), queued.outputs),
        ("finalised", "cancelled", 0)
    );
    assert_eq!((adopted.phase.as_str(), adopted.action.as_str()), ("cancelling", "cancelled"));
    fixture.submit("a", "a").await;
    assert_eq!(fixture.row("a").await, queued, "submitting it again tells nothing again");
}

#[tokio::test]
async fn an_insert_that_races_a_cancel_is_seen_by_it() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let mut inserter = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin; select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')")
        .execute(&mut inserter)
        .await
        .unwrap();
    let url = fixture.db.url.clone();
    let cancel = tokio::spawn(async move {
        let mut canceller = PgConnection::connect(&url).await.unwrap();
        sqlx::query(BY_STATUS).execute(&mut canceller).await.unwrap();
    });
    waits_for_a_lock(&fixture, "update david.runs").await;
    sqlx::raw_sql("commit").execute(&mut inserter).await.unwrap();
    cancel.await.unwrap();
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("run_cancelled"));
}

#[tokio::test]
async fn a_cancel_that_races_an_insert_is_seen_by_it() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let mut canceller = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("begin; {BY_STATUS}"))).execute(&mut canceller).await.unwrap();
    let url = fixture.db.url.clone();
    let insert = tokio::spawn(async move {
        let mut inserter = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql("select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')")
            .execute(&mut inserter)
            .await
            .unwrap();
    });
    waits_for_a_lock(&fixture, "submit_action").await;
    sqlx::raw_sql("commit").execute(&mut canceller).await.unwrap();
    insert.await.unwrap();
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("run_cancelled"));
}

/// A canceller in repeatable read does not see a task that was inserted after its snapshot.
async fn cancelled_behind_a_snapshot() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let mut canceller = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin isolation level repeatable read; select from david.actions")
        .execute(&mut canceller)
        .await
        .unwrap();
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("{BY_STATUS}; commit"))).execute(&mut canceller).await.unwrap();
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
}

#[tokio::test]
async fn a_result_for_a_run_whose_canceller_could_not_see_the_task_is_suppressed() {
    let fixture = cancelled_behind_a_snapshot().await;
    let leased = fixture.lease_one().await;
    assert_eq!(fixture.commit(write(&leased, succeed(&leased))).await, ended(Outcome::RunCancelled));
    let row = fixture.row("a").await;
    assert_eq!((row.action.as_str(), row.outputs), ("cancelled", 0));
}

#[tokio::test]
async fn a_settled_cancel_ends_the_row_and_keeps_the_outcome() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    fixture.sql(BY_STATUS).await;
    let leased = fixture.lease_one().await;
    let settled =
        fixture.commit(write(&leased, Transition::SettleCancel { reason: "Done.".to_owned() })).await;
    assert_eq!(settled, applied(leased.task.fence.0));
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.outcome.as_deref()), ("finalised", Some("run_cancelled")));
    assert_eq!(row.events, ["MCP_TASK_CREATED", "MCP_TASK_CANCEL_REQUESTED", "MCP_TASK_CANCELLED"]);
}
