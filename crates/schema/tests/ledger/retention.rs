//! Pruning: only what is over, never an output that nobody has, in small bites, and no call is made again.

use crate::support::{Fixture, fail, succeed, write};
use david_reconciler::Outcome;

/// Actions that ended a day ago, each with an output and its history.
async fn ended(names: &[&str]) -> Fixture {
    let fixture = Fixture::new().await;
    for name in names {
        fixture.submit(name, name).await;
        fixture.track(name).await;
        let leased = fixture.lease_one().await;
        fixture.commit(write(&leased, succeed(&leased))).await;
    }
    age(&fixture).await;
    fixture
}

async fn age(fixture: &Fixture) {
    fixture
        .sql(
            "update david.mcp_action_tasks set finalised_at = now() - interval '1 day' where phase = 'finalised';
             update david.tool_outputs set created_at = now() - interval '1 day';
             update david.tool_outputs set acknowledged_at = now() - interval '1 day' where acknowledged_at is not null;
             update david.mcp_task_events set at = now() - interval '1 day'",
        )
        .await;
}

async fn prune(fixture: &Fixture, arguments: &str) -> (i64, i64, i64) {
    let call = format!("select tasks, outputs, events from david.prune({arguments})");
    sqlx::query_as(sqlx::AssertSqlSafe(call)).fetch_one(&fixture.db.pool).await.unwrap()
}

const HOUR: &str = "interval '1 hour'";

#[tokio::test]
async fn what_ended_long_ago_goes_and_an_output_that_nobody_acknowledged_stays() {
    let fixture = ended(&["a", "b"]).await;
    fixture.sql("select david.ack_outputs(array['act_a'])").await;
    age(&fixture).await;
    fixture.submit("live", "live").await;
    fixture.submit("fresh", "fresh").await;
    let leased = fixture.lease().await;
    let fresh = leased.iter().find(|row| row.task.action_id.as_str() == "act_fresh").unwrap();
    fixture.commit(write(fresh, fail(fresh, Outcome::CallRejected))).await;

    assert_eq!(prune(&fixture, "interval '2 days'").await, (0, 0, 0));
    assert_eq!(prune(&fixture, HOUR).await, (2, 1, 4));
    assert_eq!(prune(&fixture, HOUR).await, (0, 0, 0), "nothing is left to do");
    assert_eq!(
        fixture.number("select count(*) from david.take_outputs(10)").await,
        2,
        "b's and the fresh one can still be taken"
    );
    assert_eq!(fixture.number("select count(*) from david.mcp_action_calls").await, 2, "arguments go too");
    assert_eq!(fixture.row("live").await.phase, "queued");
    assert_eq!(fixture.row("fresh").await.outputs, 1);

    assert_eq!(prune(&fixture, "interval '1 hour', 1000, 'all'").await, (0, 1, 0), "asked for explicitly");
    assert_eq!(fixture.row("fresh").await.outputs, 1);
}

#[tokio::test]
async fn a_batch_is_bounded_and_a_locked_row_is_left_for_later() {
    let fixture = ended(&["a", "b", "c"]).await;
    assert_eq!(prune(&fixture, "interval '1 hour', 1").await.0, 1);
    let mut busy = fixture.db.pool.begin().await.unwrap();
    sqlx::query("select from david.mcp_action_tasks where action_id in ('act_a', 'act_b') for update")
        .execute(&mut *busy)
        .await
        .unwrap();
    sqlx::query("select from david.tool_outputs for update").execute(&mut *busy).await.unwrap();
    let waited = tokio::time::timeout(
        std::time::Duration::from_secs(20),
        prune(&fixture, "interval '1 hour', 10, 'all'"),
    );
    let (tasks, outputs, _) = waited.await.unwrap();
    assert!(tasks <= 1 && outputs == 0, "{tasks} {outputs}");
    busy.rollback().await.unwrap();
    prune(&fixture, "interval '1 hour', 10, 'all'").await;
    assert_eq!(fixture.number("select count(*) from david.mcp_action_tasks").await, 0);
}

#[tokio::test]
async fn a_pruned_action_that_is_submitted_again_is_refused_and_not_called_again() {
    let fixture = ended(&["a"]).await;
    assert_eq!(prune(&fixture, HOUR).await.0, 1);
    for again in [
        "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')",
        "insert into david.mcp_action_calls (action_id, remote_tool_name) values ('act_a', 'tool');
         insert into david.mcp_action_tasks (action_id, registration_id) values ('act_a', 'reg')",
        "select david.retry_now('act_a', 'why')",
        "select david.fail_action('act_a', 'why')",
    ] {
        let error = fixture.try_sql(again).await.expect_err(again);
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT004"), "{again}: {error}");
    }
    assert!(fixture.lease().await.is_empty());
}

#[tokio::test]
async fn a_submission_that_races_a_prune_waits_for_it_and_is_refused() {
    for again in [
        "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')",
        // Nothing but the task itself is inserted here, so nothing else makes it wait.
        "insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id)
         values ('act_a', 'reg', 'working', 'adopted') on conflict (action_id) do nothing",
    ] {
        let fixture = ended(&["a"]).await;
        let mut pruning = fixture.db.pool.begin().await.unwrap();
        sqlx::query("select david.prune(interval '1 hour')").execute(&mut *pruning).await.unwrap();
        let (refused, ()) = tokio::join!(fixture.try_sql(again), async {
            crate::support::waits_for_a_lock(&fixture, &again[..20]).await;
            pruning.commit().await.unwrap();
        });
        let Err(error) = refused else { panic!("must be refused: {again}") };
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT004"), "{again}: {error}");
        assert_eq!(fixture.number("select count(*) from david.mcp_action_tasks").await, 0);
    }
}

#[tokio::test]
async fn submitting_an_action_that_ended_and_was_not_pruned_is_still_no_error() {
    let fixture = ended(&["a"]).await;
    fixture.sql("select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', '{}')").await;
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn history_of_an_action_whose_task_is_still_there_stays() {
    let fixture = ended(&["a"]).await;
    fixture.sql("update david.mcp_action_tasks set finalised_at = now()").await;
    assert_eq!(prune(&fixture, HOUR).await, (0, 0, 0));
    fixture.sql("delete from david.runs").await;
    assert_eq!(prune(&fixture, HOUR).await, (0, 0, 2), "what vanished leaves its history to retention");
}

#[tokio::test]
async fn a_workers_retention_is_no_operators_doing_and_takes_nothing_unacknowledged() {
    let fixture = ended(&["a", "b"]).await;
    fixture.sql("select david.ack_outputs(array['act_a'])").await;
    age(&fixture).await;
    let hour = std::time::Duration::from_secs(3600);
    let pruned = fixture.ledger.prune(hour, 1000).await.unwrap().unwrap();
    assert_eq!((pruned.tasks, pruned.outputs, pruned.events), (2, 1, 4));
    assert_eq!(fixture.number("select count(*) from david.mcp_operator_log").await, 0);
    prune(&fixture, "interval '1 hour', 1000, 'all', 'by hand', 'alice'").await;
    assert_eq!(fixture.number("select count(*) from david.mcp_operator_log").await, 1);
}

#[tokio::test]
async fn what_is_known_of_a_server_goes_when_it_is_long_gone_and_owes_nothing() {
    let fixture = Fixture::new().await;
    fixture.submit("live", "live").await;
    fixture.register("known").await;
    fixture
        .sql(
            "insert into david.mcp_registration_health (registration_id, updated_at, paused_at, paused_by)
             values ('gone', now() - interval '1 day', null, null), ('fresh', now(), null, null),
                    ('paused', now() - interval '1 day', now(), 'alice'), ('reg', now() - interval '1 day', null, null),
                    ('known', now() - interval '1 day', null, null)",
        )
        .await;
    let left =
        "select string_agg(registration_id, ' ' order by registration_id) from david.mcp_registration_health";
    let left = async || sqlx::query_scalar::<_, String>(left).fetch_one(&fixture.db.pool).await.unwrap();
    prune(&fixture, HOUR).await;
    assert_eq!(left().await, "fresh known paused reg");
    fixture.sql("alter table david.mcp_server_registrations disable trigger all; delete from david.mcp_server_registrations").await;
    prune(&fixture, HOUR).await;
    assert_eq!(left().await, "fresh paused reg", "its row has not ended");
    fixture.sql("delete from david.runs").await;
    prune(&fixture, HOUR).await;
    assert_eq!(left().await, "fresh paused");
}

/// With young history behind it and none of it old, a batch reads nothing.
#[tokio::test]
async fn retention_finds_old_history_by_its_index() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into david.mcp_task_events (at, task_id, action_id, run_id, registration_id, event, transition, phase, fence)
             select now() - n * interval '1 second', -n, 'act_' || n, 'r', 'reg', 'MCP_TASK_CREATED', 't', 'queued', 1
               from generate_series(1, 20000) n;
             analyze david.mcp_task_events; select pg_stat_reset_single_table_counters('david.mcp_task_events'::regclass)",
        )
        .await;
    let mut one = fixture.db.pool.acquire().await.unwrap();
    for (keep, found) in [("1 day", 0), ("19990 seconds", 10)] {
        let call = format!("select events from david.prune(interval '{keep}', 100)");
        let events: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(call)).fetch_one(&mut *one).await.unwrap();
        assert!((found..=found + 9).contains(&events), "{events}");
    }
    // What this session read is told to the statistics when it is idle, or asked for.
    sqlx::raw_sql("select pg_stat_force_next_flush()").execute(&mut *one).await.ok();
    sqlx::raw_sql("select 1").execute(&mut *one).await.unwrap();
    let read = "select seq_scan from pg_stat_user_tables where relid = 'david.mcp_task_events'::regclass";
    assert_eq!(fixture.number(read).await, 0, "it was read from end to end");
}
