//! Everything works through a pooler that lends another session to every transaction.

use std::time::Duration;

use david_e2e::{Submission, World, raw};
use david_testkit::{PgBouncer, Postgres, RawServer};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn calls_polls_results_and_cancels_go_through_a_pooler_of_transactions() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let pooler = PgBouncer::start(Postgres::shared().unwrap().addr().unwrap()).unwrap();
    let url = pooler.url(world.db.name());
    // More connections of ours than the pooler has: sessions are shared all the time.
    let replica = || {
        world
            .replica_at(REPLICA, &url)
            .env("DAVID_TASKS_DB_POOLING", "transaction")
            .env("DAVID_TASKS_DB_CONNECTIONS", "8")
            .start()
            .unwrap()
    };
    let replicas = [replica(), replica()];

    let action = world.submit(Submission::raw()).await.unwrap();
    world.until_phase(&action, "working").await.unwrap();
    server.on("tasks/get", raw::completed(&raw::result("done")));
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!((standing.outcome.as_deref(), standing.outputs), (Some("succeeded"), 1), "{standing:?}");

    server.on("tasks/get", raw::working());
    let cancelled = world.submit(Submission::raw()).await.unwrap();
    world.until_phase(&cancelled, "working").await.unwrap();
    world.cancel(&cancelled).await.unwrap();
    server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
    world.until_ended(&cancelled).await.unwrap();

    let calls = server.requests_of("tools/call").len();
    assert_eq!(calls, 2, "each is called once");
    assert_eq!(RawServer::TASK_ID, server.requests_of("tasks/cancel")[0].params["taskId"]);
    for replica in &replicas {
        replica.terminate().unwrap();
        assert!(replica.wait_exit(PATIENCE).await.unwrap().success(), "{}", replica.logs());
        let logs = replica.logs();
        assert!(!logs.contains("\"level\":\"WARN\""), "nothing went wrong on the way: {logs}");
    }
}

#[tokio::test]
async fn many_actions_in_parallel_go_through_a_pooler_of_transactions_once_each() {
    let world = World::new().await.unwrap();
    let pooler = PgBouncer::start(Postgres::shared().unwrap().addr().unwrap()).unwrap();
    let url = pooler.url(world.db.name());
    let mut actions = Vec::new();
    for _ in 0..40 {
        actions.push(world.submit(Submission::work(0.1)).await.unwrap());
    }
    let _replica =
        world.replica_at(REPLICA, &url).env("DAVID_TASKS_DB_POOLING", "transaction").start().unwrap();
    for standing in world.until_all_ended(&actions).await.unwrap() {
        assert_eq!((standing.outcome.as_deref(), standing.outputs), (Some("succeeded"), 1), "{standing:?}");
    }
}
