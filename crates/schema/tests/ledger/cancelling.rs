//! Rules 6, 7 and 8: cancelling a Run is final in its own commit, and beats a completion.

use david_reconciler::{Outcome, Transition};
use sqlx::Row as _;

use crate::support::{Fixture, applied, ended, late, succeed, track, write};

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
    assert_eq!(
        (&queued.events[..], &adopted.events[..]),
        (&["MCP_TASK_CANCELLED".to_owned()][..], &["MCP_TASK_CANCEL_REQUESTED".to_owned()][..])
    );
    fixture.submit("a", "a").await;
    assert_eq!(fixture.row("a").await, queued, "submitting it again tells nothing again");
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

#[tokio::test]
async fn plain_inserts_for_a_cancelled_run_make_one_ended_task_and_tell_it_once_however_often() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into david.runs (id, user_id, cancelled_at) values ('run_a', 'user', now());
             insert into david.actions (id, run_id, tool_name) values ('act_a', 'run_a', 'tool'), ('act_b', 'run_a', 'tool');
             insert into david.mcp_action_calls (action_id, remote_tool_name) values ('act_a', 'tool')",
        )
        .await;
    for _ in 0..2 {
        fixture
            .sql(
                "insert into david.mcp_action_tasks (action_id, registration_id) values ('act_a', 'reg')
                     on conflict do nothing;
                 insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id)
                 values ('act_b', 'reg', 'working', 't')
                     on conflict do nothing",
            )
            .await;
    }
    let (queued, adopted) = (fixture.row("a").await, fixture.row("b").await);
    assert_eq!((queued.phase.as_str(), queued.events.len()), ("finalised", 1), "{queued:?}");
    assert_eq!((adopted.phase.as_str(), adopted.events.len()), ("cancelling", 1), "{adopted:?}");
    let owed = fixture.lease_one().await;
    assert_eq!(owed.task.phase.remote().map(|remote| remote.id.expose()), Some("t"));
}

#[tokio::test]
async fn a_cancel_is_told_with_everything_it_takes_to_follow_the_action() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into david.runs (id, user_id) values ('run_a', 'user');
             select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'remote_tool', '{}', 'call_1')",
        )
        .await;
    let leased = fixture.lease_one().await;
    fixture.sql(BY_STATUS).await;
    let event = sqlx::query("select * from david.mcp_task_events").fetch_one(&fixture.db.pool).await.unwrap();
    for (column, value) in [
        ("action_id", "act_a"),
        ("run_id", "run_a"),
        ("registration_id", "reg"),
        ("tool_call_id", "call_1"),
        ("provider_name", "tool"),
        ("event", "MCP_TASK_CANCELLED"),
        ("transition", "cancel_run"),
        ("phase", "finalised"),
        ("outcome", "run_cancelled"),
    ] {
        assert_eq!(event.get::<&str, _>(column), value, "{column}");
    }
    assert_eq!(event.get::<i64, _>("task_id"), leased.task.id.0);
    assert_eq!(event.get::<i64, _>("fence"), leased.task.fence.0 + 1, "the fence that shuts the lease out");
}

#[tokio::test]
async fn cancelling_leaves_what_had_ended_and_what_is_not_ours() {
    let fixture = Fixture::new().await;
    fixture.submit("done", "a").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, succeed(&leased))).await;
    fixture.submit("open", "a").await;
    fixture
        .sql("insert into david.actions (id, run_id, tool_name) values ('act_core', 'run_a', 'local')")
        .await;
    let done = fixture.row("done").await;
    fixture.sql(BY_STATUS).await;
    assert_eq!(fixture.row("done").await, done);
    assert_eq!(fixture.row("open").await.action, "cancelled");
    let core =
        fixture.number("select count(*) from david.actions where id = 'act_core' and status = 'pending'");
    assert_eq!(core.await, 1, "an Action without a remote task is Core's business");
}

#[tokio::test]
async fn a_run_that_is_cancelled_again_takes_along_what_the_first_cancel_could_not_see() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    // As a canceller in repeatable read leaves it.
    fixture
        .sql(
            "alter table david.runs disable trigger cancel_actions_with_run;
             update david.runs set status = 'cancelled';
             alter table david.runs enable always trigger cancel_actions_with_run",
        )
        .await;
    assert_eq!(fixture.row("a").await.phase, "queued");
    fixture.sql(BY_TIME).await;
    assert_eq!(fixture.row("a").await.outcome.as_deref(), Some("run_cancelled"));
}
