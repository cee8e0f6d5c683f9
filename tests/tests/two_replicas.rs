//! Replicas share the work, and one that dies or freezes takes nothing with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::{RawServer, Reply, eventually};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// Quick ones of every kind, all of which succeed.
async fn submit_quick(world: &World, count: usize) -> Vec<Action> {
    let mut actions = Vec::with_capacity(count);
    for tool in ["sync", "born_done", "work"].into_iter().cycle().take(count) {
        let submission = Submission::of(tool, json!({ "seconds": 0.02 }));
        actions.push(world.submit(submission).await.unwrap());
    }
    actions
}

async fn until_ended(world: &World, count: usize) {
    eventually(PATIENCE, &format!("{count} Actions have ended"), async || {
        let ended = world.ended().await.unwrap();
        if ended >= count { Ok(()) } else { Err(format!("{ended} have")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn two_replicas_share_the_work_and_call_each_action_once() {
    let world = World::new().await.unwrap();
    let actions = submit_quick(&world, 200).await;
    let command = world.replica(REPLICA).env("DAVID_TASKS_LEASE_BATCH", "5");
    let replicas = [command.start().unwrap(), command.start().unwrap()];

    let standings = world.until_all_ended(&actions).await.unwrap();
    for (action, standing) in actions.iter().zip(&standings) {
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("completed", 1), "{standing:?}");
        assert_eq!(world.ledger().calls_with_key(&action.id), 1);
    }
    for replica in &replicas {
        assert!(replica.logs().contains("finalised as succeeded"), "one replica did nothing");
    }
}

#[tokio::test]
async fn a_replica_killed_in_the_middle_leaves_every_action_one_outcome() {
    let world = World::new().await.unwrap();
    let actions = submit_quick(&world, 150).await;
    let command = world.replica(REPLICA).env("DAVID_TASKS_LEASE_BATCH", "10");
    let (killed, _other) = (command.start().unwrap(), command.start().unwrap());
    until_ended(&world, 30).await;
    killed.kill().unwrap();
    let in_call = world.in_call_of(&killed).await.unwrap();
    world.let_leases_lapse_of(&killed).await.unwrap();

    let standings = world.until_all_ended(&actions).await.unwrap();
    for (action, standing) in actions.iter().zip(&standings) {
        let lost = in_call.contains(&action.id);
        let expected = if lost { "outcome_unknown" } else { "succeeded" };
        assert_eq!(standing.outcome.as_deref(), Some(expected), "in call: {lost}, {standing:?}");
        assert_eq!(standing.outputs, 1, "{standing:?}");
        let calls = world.ledger().calls_with_key(&action.id);
        assert!(calls <= 1 && (lost || calls == 1), "{action:?} was called {calls} times, in call: {lost}");
    }
}

#[tokio::test]
async fn a_frozen_replica_that_wakes_after_its_lease_changes_nothing() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let late = raw::completed(&raw::result("from the frozen one"));
    server.push("tasks/get", Reply::Delay(Duration::from_millis(700), Box::new(late)));
    server.on("tasks/get", raw::completed(&raw::result("from the other")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let frozen = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    frozen.pause().unwrap();
    world.let_leases_lapse_of(&frozen).await.unwrap();

    let other = world.replica(REPLICA).start().unwrap();
    let ended = world.until_ended(&action).await.unwrap();
    assert_eq!(ended.envelope.as_ref().unwrap()["content"][0]["text"], "from the other");
    frozen.resume().unwrap();
    frozen.wait_log("a write came too late and changed nothing", PATIENCE).await.unwrap();
    assert_eq!(world.standing(&action).await.unwrap(), ended);
    other.terminate().unwrap();
    assert!(world.until_dead(&other).await.unwrap().success());
}

#[tokio::test]
async fn a_frozen_replica_that_wakes_is_fenced_off_though_the_task_still_works() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.push("tasks/get", Reply::Delay(Duration::from_millis(700), Box::new(Reply::status(500))));
    let action = world.submit(Submission::raw()).await.unwrap();
    let frozen = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    frozen.pause().unwrap();
    world.let_leases_lapse_of(&frozen).await.unwrap();

    let _other = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 4, PATIENCE).await.unwrap();
    frozen.resume().unwrap();
    frozen.wait_log("a write came too late and changed nothing", PATIENCE).await.unwrap();
    let standing = world.standing(&action).await.unwrap();
    assert_eq!((standing.phase.as_str(), standing.last_error), ("working", None));
    server.on("tasks/get", raw::completed(&raw::result("in the end")));
    assert_eq!(world.until_ended(&action).await.unwrap().outcome.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn a_call_of_a_frozen_replica_is_unknown_and_its_late_task_is_cancelled_remotely() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    // The reply is there when the replica wakes, and its time limit is not over.
    world.execute("update david.mcp_server_registrations set timeout_seconds = 60").await.unwrap();
    server.push("tools/call", Reply::Delay(Duration::from_millis(700), Box::new(Reply::Default)));
    let action = world.submit(Submission::raw()).await.unwrap();
    let frozen = world.replica(REPLICA).start().unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    frozen.pause().unwrap();
    world.let_leases_lapse_of(&frozen).await.unwrap();

    let _other = world.replica(REPLICA).start().unwrap();
    let ended = world.until_ended(&action).await.unwrap();
    assert_eq!(ended.outcome.as_deref(), Some("outcome_unknown"), "{ended:?}");
    assert_eq!((ended.status.as_str(), ended.outputs), ("failed", 1));
    frozen.resume().unwrap();
    let cancels = server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
    assert_eq!(cancels[0].params["taskId"], RawServer::TASK_ID);
    assert_eq!(world.standing(&action).await.unwrap(), ended);
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_lost_call_that_is_idempotent_is_made_again_by_the_other_replica() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.push("tools/call", Reply::Hang);
    server.on("tools/call", Reply::Result(raw::result("second time")));
    let action = world.submit(Submission { idempotent: true, ..Submission::raw() }).await.unwrap();
    let killed = world.replica(REPLICA).start().unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    killed.kill().unwrap();
    world.let_leases_lapse_of(&killed).await.unwrap();

    let _other = world.replica(REPLICA).start().unwrap();
    let ended = world.until_ended(&action).await.unwrap();
    assert_eq!(ended.outcome.as_deref(), Some("succeeded"), "{ended:?}");
    assert_eq!((ended.outputs, server.requests_of("tools/call").len()), (1, 2));
}
