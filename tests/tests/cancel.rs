//! A cancelled Run is cancelled from the commit that says so, wherever its Action was.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Standing, Submission, World, raw};
use david_testkit::{RawServer, Reply};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

fn assert_cancelled(standing: &Standing) {
    assert_eq!(standing.outcome.as_deref(), Some("run_cancelled"), "{standing:?}");
    assert_eq!((standing.status.as_str(), standing.outputs), ("cancelled", 0), "{standing:?}");
}

/// Another Action at the sample server, through the whole path: the replica had time for ours.
async fn until_another_has_ended(world: &World) {
    let other = world.submit(Submission::of("sync", json!({}))).await.unwrap();
    let standing = world.until_ended(&other).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
}

#[tokio::test]
async fn a_run_cancelled_before_the_call_is_never_called() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    world.cancel(&action).await.unwrap();
    let at_once = world.standing(&action).await.unwrap();
    assert_cancelled(&at_once);
    assert_eq!(at_once.phase, "finalised");

    let _replica = world.replica(REPLICA).start().unwrap();
    until_another_has_ended(&world).await;
    assert_eq!(world.ledger().calls_with_key(&action.id), 0);
    assert_cancelled(&world.standing(&action).await.unwrap());
}

#[tokio::test]
async fn a_run_cancelled_while_its_task_works_is_cancelled_in_that_commit_and_then_remotely() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(600.0)).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();

    world.cancel(&action).await.unwrap();
    assert_cancelled(&world.standing(&action).await.unwrap());
    let standing = world.until_ended(&action).await.unwrap();
    assert_cancelled(&standing);
    assert_eq!(standing.events, ["MCP_TASK_CREATED", "MCP_TASK_CANCEL_REQUESTED", "MCP_TASK_CANCELLED"]);
    assert_eq!(world.ledger().cancels(&remote), 1);
}

#[tokio::test]
async fn a_task_that_ignores_the_cancel_changes_nothing_any_more() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::of("stubborn", json!({ "seconds": 0.3 }))).await.unwrap();
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_POLL_BASE", "5s").start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();
    world.cancel(&action).await.unwrap();

    assert_cancelled(&world.until_ended(&action).await.unwrap());
    let gets = world.ledger().gets(&remote);
    until_another_has_ended(&world).await;
    assert_cancelled(&world.standing(&action).await.unwrap());
    assert_eq!(world.ledger().gets(&remote), gets, "it is polled after its end");
}

#[tokio::test]
async fn a_cancel_that_the_server_never_answers_is_settled_after_a_few_tries() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/cancel", Reply::status(503));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    world.cancel(&action).await.unwrap();

    assert_cancelled(&world.until_ended(&action).await.unwrap());
    assert_eq!(server.requests_of("tasks/cancel").len(), 8);
}

/// An Action of the raw server whose `tools/call` is on the wire, to be answered with `reply` later.
async fn on_the_wire(world: &World, server: &RawServer, reply: Reply) -> Action {
    let before = server.requests_of("tools/call").len();
    server.push("tools/call", reply);
    let action = world.submit(Submission::raw()).await.unwrap();
    server.wait_for("tools/call", before + 1, PATIENCE).await.unwrap();
    action
}

fn later(reply: Reply) -> Reply {
    Reply::Delay(Duration::from_secs(1), Box::new(reply))
}

#[tokio::test]
async fn a_run_cancelled_during_its_call_is_final_at_once_and_the_id_that_comes_is_cancelled_remotely() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let action = on_the_wire(&world, &server, later(Reply::Default)).await;

    world.cancel(&action).await.unwrap();
    let at_once = world.standing(&action).await.unwrap();
    assert_eq!(server.in_flight("tools/call"), 1, "the call was answered too early for this test");
    assert_cancelled(&at_once);
    assert_eq!(at_once.phase, "finalised");

    let cancels = server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
    assert_eq!(cancels[0].params["taskId"], RawServer::TASK_ID);
    until_another_has_ended(&world).await;
    assert_eq!(world.standing(&action).await.unwrap(), at_once);
    assert_eq!(server.requests_of("tasks/cancel").len(), 1);
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_result_that_comes_for_a_run_cancelled_during_its_call_is_suppressed() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    let action = on_the_wire(&world, &server, later(Reply::Result(raw::result("too late")))).await;

    world.cancel(&action).await.unwrap();
    let at_once = world.standing(&action).await.unwrap();
    assert_eq!(server.in_flight("tools/call"), 1, "the call was answered too early for this test");
    assert_cancelled(&at_once);
    replica.wait_log("a write came too late and changed nothing", PATIENCE).await.unwrap();
    assert_eq!(world.standing(&action).await.unwrap(), at_once);
}

#[tokio::test]
async fn a_late_id_that_a_live_row_holds_is_not_cancelled() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    let holder = world.submit(Submission::raw()).await.unwrap();
    world.until_phase(&holder, "working").await.unwrap();
    // The server has started over, and hands out the same id again.
    let action = on_the_wire(&world, &server, later(Reply::Default)).await;

    world.cancel(&action).await.unwrap();
    replica.wait_log("the task id that came late is a live row's", PATIENCE).await.unwrap();
    assert_cancelled(&world.standing(&action).await.unwrap());
    assert_eq!(server.requests_of("tasks/cancel").len(), 0);
    server.on("tasks/get", raw::completed(&raw::result("untouched")));
    let standing = world.until_ended(&holder).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
}

#[tokio::test]
async fn a_call_that_never_returns_does_not_hold_up_the_cancel() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    let action = on_the_wire(&world, &server, Reply::Hang).await;

    world.cancel(&action).await.unwrap();
    let at_once = world.standing(&action).await.unwrap();
    assert_cancelled(&at_once);
    assert_eq!(at_once.phase, "finalised");
    replica.wait_log("a write came too late and changed nothing", PATIENCE).await.unwrap();
    assert_eq!(world.standing(&action).await.unwrap(), at_once);
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_run_deleted_during_its_call_leaves_nothing_and_the_id_that_comes_is_cancelled_remotely() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let action = on_the_wire(&world, &server, later(Reply::Default)).await;

    let deleted = sqlx::query("delete from david.runs where id = $1").bind(&action.run);
    assert_eq!(deleted.execute(&world.db.pool).await.unwrap().rows_affected(), 1);
    let cancels = server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
    assert_eq!(cancels[0].params["taskId"], RawServer::TASK_ID);
    until_another_has_ended(&world).await;
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_run_is_cancelled_with_all_replicas_down_and_remotely_once_one_is_back() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(600.0)).await.unwrap();
    let first = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    first.kill().unwrap();
    let remote: String = world.of(&action, "t.remote_task_id").await.unwrap();

    world.cancel(&action).await.unwrap();
    let at_once = world.standing(&action).await.unwrap();
    assert_cancelled(&at_once);
    assert_eq!(at_once.phase, "cancelling");
    assert_eq!(world.ledger().cancels(&remote), 0);

    let _second = world.replica(REPLICA).start().unwrap();
    assert_cancelled(&world.until_ended(&action).await.unwrap());
    assert_eq!(world.ledger().cancels(&remote), 1);
}

#[tokio::test]
async fn a_cancel_that_could_not_see_the_action_is_repaired_by_the_next_lease() {
    let world = World::new().await.unwrap();
    let queued = world.begin_run().await.unwrap();
    let working = world.begin_run().await.unwrap();
    // A canceller in repeatable read, whose snapshot is older than the Actions.
    let mut canceller = world.db.pool.begin().await.unwrap();
    sqlx::query("set transaction isolation level repeatable read").execute(&mut *canceller).await.unwrap();
    sqlx::query("select from david.runs").execute(&mut *canceller).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    world.submit_to(&working, Submission::work(600.0)).await.unwrap();
    world.until_phase(&working, "working").await.unwrap();
    replica.terminate().unwrap();
    world.until_dead(&replica).await.unwrap();
    world.submit_to(&queued, Submission::work(600.0)).await.unwrap();
    let cancel = "update david.runs set status = 'cancelled', cancelled_at = now()";
    sqlx::query(cancel).execute(&mut *canceller).await.unwrap();
    canceller.commit().await.unwrap();
    assert_eq!(world.standing(&queued).await.unwrap().phase, "queued", "the trigger did see it");

    let _replica = world.replica(REPLICA).start().unwrap();
    assert_cancelled(&world.until_ended(&queued).await.unwrap());
    assert_cancelled(&world.until_ended(&working).await.unwrap());
    assert_eq!(world.ledger().calls_with_key(&queued.id), 0);
    let remote: String = world.of(&working, "t.remote_task_id").await.unwrap();
    assert_eq!(world.ledger().cancels(&remote), 1);
}

#[tokio::test]
async fn a_completion_that_arrives_after_the_cancel_is_suppressed() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", later(raw::completed(&raw::result("too late"))));
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();

    world.cancel(&action).await.unwrap();
    assert_eq!(server.in_flight("tasks/get"), 1, "the poll was answered too early for this test");
    replica.wait_log("a write came too late and changed nothing", PATIENCE).await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_cancelled(&standing);
    assert_eq!(server.requests_of("tasks/cancel").len(), 1);
}

#[tokio::test]
async fn a_completion_that_commits_before_the_cancel_stays() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let ended = world.until_ended(&action).await.unwrap();

    world.cancel(&action).await.unwrap();
    assert_eq!(world.standing(&action).await.unwrap(), ended);
    assert_eq!((ended.outcome.as_deref(), ended.status.as_str()), (Some("succeeded"), "completed"));
}

#[tokio::test]
async fn completions_and_cancels_that_race_leave_each_action_with_one_end() {
    let world = World::new().await.unwrap();
    let mut actions = Vec::new();
    for number in 0..60_u32 {
        let seconds = f64::from(number % 10) / 50.0;
        actions.push(world.submit(Submission::work(seconds)).await.unwrap());
    }
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_POLL_BASE", "20ms").start().unwrap();
    for action in &actions {
        world.cancel(action).await.unwrap();
    }

    let standings = world.until_all_ended(&actions).await.unwrap();
    for (action, standing) in actions.iter().zip(&standings) {
        match standing.outcome.as_deref() {
            Some("succeeded") => {
                assert_eq!((standing.status.as_str(), standing.outputs), ("completed", 1), "{standing:?}");
            }
            _ => assert_cancelled(standing),
        }
        assert!(world.ledger().calls_with_key(&action.id) <= 1);
    }
}
