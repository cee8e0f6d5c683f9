//! What a server reports on the way: to the log, to Core's channel, and into no table.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use david_e2e::{Submission, World, raw};
use david_testkit::raw_server::SseEnd;
use david_testkit::{Replica, Reply};
use serde_json::{Value, json};
use sqlx::postgres::PgListener;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);
const CHANNEL: &str = "david_progress";

fn start(world: &World) -> Replica {
    world.replica(REPLICA).env("DAVID_TASKS_PROGRESS_CHANNEL", CHANNEL).start().unwrap()
}

/// Core's side.
async fn listen(world: &World) -> PgListener {
    let mut listener = PgListener::connect_with(&world.db.pool).await.unwrap();
    listener.listen(CHANNEL).await.unwrap();
    listener
}

async fn next(listener: &mut PgListener) -> Value {
    let told = tokio::time::timeout(PATIENCE, listener.recv()).await.unwrap().unwrap();
    serde_json::from_str(told.payload()).unwrap()
}

fn working(message: &str) -> Reply {
    let Reply::Result(mut task) = raw::working() else { panic!("a task that works is a result") };
    task["statusMessage"] = json!(message);
    Reply::Result(task)
}

/// A call that reports `count` times before it answers after a pause.
fn reporting(count: u32) -> Reply {
    Reply::with(move |request| {
        let token = request.params["_meta"]["progressToken"].clone();
        let report = |number: u32| {
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": token, "progress": number, "total": count,
                "message": format!("row {number} of {count}\u{0}"),
            } })
        };
        let mut chunks: Vec<String> =
            (1..=count).map(|number| format!("data: {}\n\n", report(number))).collect();
        chunks.push(format!(
            "data: {{\"jsonrpc\": \"2.0\", \"id\": $ID, \"result\": {}}}\n\n",
            raw::result("done")
        ));
        Reply::Sse { chunks, end: SseEnd::Close }
    })
}

#[tokio::test]
async fn a_status_message_is_logged_and_told_to_core_and_stands_in_no_table() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", working("mixing paint for raw-task-1"));
    let mut listener = listen(&world).await;
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = start(&world);

    let told = next(&mut listener).await;
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("mixing paint for sha256:"), "{told}");
    assert_eq!(
        (&told["version"], &told["action_id"], &told["run_id"]),
        (&json!(1), &json!(action.id), &json!(action.run))
    );
    assert_eq!((&told["progress"], &told["total"]), (&Value::Null, &Value::Null));
    replica.wait_log("mixing paint", PATIENCE).await.unwrap();

    // The same words are not told again, others are.
    let polls = server.requests_of("tasks/get").len();
    server.wait_for("tasks/get", polls + 3, PATIENCE).await.unwrap();
    server.on("tasks/get", working("painting"));
    assert_eq!(next(&mut listener).await["message"], "painting");
    server.on("tasks/get", raw::completed(&raw::result("painted")));
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert!(!world.everything_written().await.unwrap().contains("paint for"));
}

#[tokio::test]
async fn a_flood_of_reports_is_told_now_and_then_and_the_call_ends_as_ever() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", reporting(5_000));
    // Reading all that takes a busy machine seconds.
    world.execute("update david.mcp_server_registrations set timeout_seconds = 60").await.unwrap();
    let mut listener = listen(&world).await;
    let action = world.submit(Submission::raw()).await.unwrap();
    let (replica, began) = (start(&world), Instant::now());
    let standing = world.until_ended(&action).await.unwrap();
    let took = began.elapsed().as_secs();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");

    let told = next(&mut listener).await;
    assert_eq!((&told["action_id"], &told["total"]), (&json!(action.id), &json!(5_000.0)));
    let words = told["message"].as_str().unwrap();
    assert!(words.starts_with("row ") && words.ends_with('\u{fffd}'), "{words:?}");
    let told = replica.logs().matches("the server reports progress").count();
    assert!(told as u64 <= 2 + took, "{told} lines for one call of {took} s");
    assert!(!world.everything_written().await.unwrap().contains("row "));
}
