//! A replica that is asked to stop gives back what it may, and waits for what it must.

use std::time::Duration;

use david_e2e::{Submission, World, raw};
use david_testkit::{PgProxy, Postgres, Reply};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// A stop this quick has waited for no request: they may take 25 s here.
const PROMPTLY: Duration = Duration::from_secs(10);

#[tokio::test]
async fn working_rows_are_given_back_untouched_and_at_once() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", Reply::Hang);
    let action = world.submit(Submission::raw()).await.unwrap();
    let slow_polls = world.replica(REPLICA).env("DAVID_TASKS_POLL_TIMEOUT", "25s");
    let replica = slow_polls.env("DAVID_TASKS_LEASE_TERM", "120s").start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    let fence: i64 = world.of(&action, "t.fence").await.unwrap();

    replica.terminate().unwrap();
    let status = replica.wait_exit(PROMPTLY).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", replica.logs());
    let untouched = "t.phase = 'working' and t.leased_by is null and t.due_at <= now() and t.attempt = 0
                     and t.lapses = 0 and t.last_error is null";
    assert!(world.of::<bool>(&action, untouched).await.unwrap(), "{:?}", world.standing(&action).await);
    assert_eq!(world.of::<i64>(&action, "t.fence").await.unwrap(), fence);

    server.on("tasks/get", raw::completed(&raw::result("later")));
    let _next = world.replica(REPLICA).start().unwrap();
    assert_eq!(world.until_ended(&action).await.unwrap().outcome.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn a_call_on_the_wire_is_waited_for_and_its_result_is_kept() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let slow = Reply::Delay(Duration::from_millis(800), Box::new(Reply::Result(raw::result("slow"))));
    server.on("tools/call", slow);
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    // Nothing new is begun meanwhile.
    replica.wait_log("asked to stop", PATIENCE).await.unwrap();
    let other = world.submit(Submission::raw()).await.unwrap();

    assert_eq!(world.until_dead(&replica).await.unwrap().code(), Some(0), "{}", replica.logs());
    let standing = world.standing(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(standing.envelope.unwrap()["content"][0]["text"], "slow");
    assert_eq!(world.standing(&other).await.unwrap().phase, "queued");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_task_that_a_call_on_the_wire_makes_is_kept_and_taken_over() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", Reply::Delay(Duration::from_millis(500), Box::new(Reply::Default)));
    server.on("tasks/get", raw::completed(&raw::result("taken over")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    assert_eq!(world.until_dead(&replica).await.unwrap().code(), Some(0), "{}", replica.logs());
    assert_eq!(world.standing(&action).await.unwrap().phase, "working");
    assert_eq!(server.requests_of("tasks/get").len(), 0, "it went on after it was asked to stop");

    let _next = world.replica(REPLICA).start().unwrap();
    assert_eq!(world.until_ended(&action).await.unwrap().outcome.as_deref(), Some("succeeded"));
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_second_signal_ends_the_grace_with_exit_code_3_and_the_call_is_unknown() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    world.execute("update david.mcp_server_registrations set timeout_seconds = 60").await.unwrap();
    server.on("tools/call", Reply::Hang);
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    replica.wait_log("asked to stop", PATIENCE).await.unwrap();
    assert_eq!(replica.exited().unwrap(), None, "it did not wait for the call");
    replica.terminate().unwrap();

    assert_eq!(replica.wait_exit(PROMPTLY).await.unwrap().code(), Some(3), "{}", replica.logs());
    let standing = world.standing(&action).await.unwrap();
    assert_eq!(standing.phase, "calling", "a call that may be on the wire was given back");
    world.let_leases_lapse().await.unwrap();
    let _next = world.replica(REPLICA).start().unwrap();
    let ended = world.until_ended(&action).await.unwrap();
    assert_eq!((ended.outcome.as_deref(), ended.outputs), (Some("outcome_unknown"), 1), "{ended:?}");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_grace_that_is_over_ends_the_stop_with_exit_code_3() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    world.execute("update david.mcp_server_registrations set timeout_seconds = 60").await.unwrap();
    server.on("tools/call", Reply::Hang);
    world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_SHUTDOWN_GRACE", "300ms").start().unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    assert_eq!(replica.wait_exit(PROMPTLY).await.unwrap().code(), Some(3), "{}", replica.logs());
}

#[tokio::test]
async fn an_idle_replica_stops_at_once() {
    let world = World::new().await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_IDLE_INTERVAL", "1h").start().unwrap();
    replica.wait_log("the worker leases", PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    assert_eq!(replica.wait_exit(PROMPTLY).await.unwrap().code(), Some(0), "{}", replica.logs());
}

#[tokio::test]
async fn a_replica_that_waits_for_its_database_stops_at_once() {
    let world = World::new().await.unwrap();
    let proxy = PgProxy::start(Postgres::shared().unwrap().addr().unwrap()).await.unwrap();
    proxy.refuse();
    let replica = world.replica_at(REPLICA, &proxy.url(&world.db.url).unwrap()).start().unwrap();
    replica.wait_log("the database does not answer", PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    assert_eq!(replica.wait_exit(PROMPTLY).await.unwrap().code(), Some(0), "{}", replica.logs());
}
