//! Three clocks that are never mistaken for each other (DESIGN rule 13): a request's time-out, the
//! task's time to live as the server tells it, and the Action's deadline. Servers lie about the second.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::{RawServer, Replica, Reply};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// A task that works, of which the server says this TTL.
fn living(ttl: &Value) -> Reply {
    let Reply::Result(mut task) = raw::working() else { panic!("a task that works is a result") };
    task["ttlMs"] = ttl.clone();
    Reply::Result(task)
}

async fn working(poll: Reply) -> (World, RawServer, Action, Replica) {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", poll);
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 2, PATIENCE).await.unwrap();
    (world, server, action, replica)
}

async fn ends(world: &World, action: &Action, outcome: &str) {
    let standing = world.until_ended(action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some(outcome), "{standing:?}");
}

#[tokio::test]
async fn a_task_is_polled_past_its_ttl_while_its_server_answers_for_it() {
    for ttl in [json!(1), json!(0)] {
        let (world, server, action, _replica) = working(living(&ttl)).await;
        let polls = server.requests_of("tasks/get").len();
        server.wait_for("tasks/get", polls + 3, PATIENCE).await.unwrap();
        server.on("tasks/get", raw::completed(&raw::result("late but there")));
        ends(&world, &action, "succeeded").await;
    }
}

#[tokio::test]
async fn a_task_that_is_gone_is_missing_while_its_server_said_it_would_live() {
    for ttl in [json!(3_600_000), json!(null), json!(u64::MAX)] {
        let (world, server, action, _replica) = working(living(&ttl)).await;
        server.on("tasks/get", Reply::error(-32602, "unknown task"));
        ends(&world, &action, "task_missing").await;
    }
}

#[tokio::test]
async fn a_ttl_that_shrinks_counts_as_the_server_last_said() {
    let (world, server, action, _replica) = working(living(&json!(3_600_000))).await;
    server.on("tasks/get", living(&json!(1)));
    let polls = server.requests_of("tasks/get").len();
    server.wait_for("tasks/get", polls + 2, PATIENCE).await.unwrap();
    server.on("tasks/get", Reply::error(-32602, "unknown task"));
    ends(&world, &action, "task_expired").await;
}

#[tokio::test]
async fn a_deadline_ends_an_action_whatever_ttl_its_server_promises_and_cancels_the_task() {
    let (world, server, action, _replica) = working(living(&json!(null))).await;
    world.execute("update david.mcp_action_tasks set execution_deadline = now()").await.unwrap();
    ends(&world, &action, "deadline_exceeded").await;
    assert_eq!(server.requests_of("tasks/cancel").len(), 1);
}

#[tokio::test]
async fn a_request_that_times_out_ends_neither_its_task_nor_its_action() {
    let (world, server, action, _replica) = working(living(&json!(3_600_000))).await;
    server.push("tasks/get", Reply::Hang);
    let polls = server.requests_of("tasks/get").len();
    server.wait_for("tasks/get", polls + 2, PATIENCE).await.unwrap();
    server.on("tasks/get", raw::completed(&raw::result("in its own time")));
    ends(&world, &action, "succeeded").await;
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn each_clock_has_its_own_words() {
    let (world, server, action, _replica) = working(living(&json!(1))).await;
    server.on("tasks/get", Reply::error(-32602, "unknown task"));
    let expired = world.until_ended(&action).await.unwrap().envelope.unwrap();
    let (world, _server, action, _replica) = working(living(&json!(null))).await;
    world.execute("update david.mcp_action_tasks set execution_deadline = now()").await.unwrap();
    let late = world.until_ended(&action).await.unwrap().envelope.unwrap();
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", Reply::Hang);
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let hung = world.until_ended(&action).await.unwrap().envelope.unwrap();
    let words: Vec<String> =
        [&expired, &late, &hung].iter().map(|envelope| envelope["error"]["message"].to_string()).collect();
    assert!(words[0].contains("The remote task expired"), "{words:?}");
    assert!(words[1].contains("deadline"), "{words:?}");
    assert!(words[2].contains("did not answer in time"), "{words:?}");
    let kinds = [&expired, &late, &hung].map(|envelope| envelope["error"]["kind"].clone());
    assert_eq!(kinds, [json!("task_expired"), json!("deadline_exceeded"), json!("outcome_unknown")]);
}
