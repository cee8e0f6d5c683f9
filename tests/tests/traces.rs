//! One trace shows the Run, the wait and the tool: from Core through the row to the server, and to a collector.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::time::Duration;

use david_e2e::collector::Collector;
use david_e2e::{Action, REGISTRATION, Submission, World, raw};
use david_testkit::{Reply, eventually};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(30);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

/// Submits as Core does that has a trace of its own.
async fn submit_traced(world: &World, tool: &str, registration: &str) -> Action {
    let action = world.begin_run().await.unwrap();
    sqlx::query(
        "select david.submit_action($1, $2, $3, $4, $4, json_build_object('key', $1, 'seconds', 0.1),
                                    p_traceparent => $5, p_tracestate => 'vendor=1')",
    )
    .bind(&action.id)
    .bind(&action.run)
    .bind(registration)
    .bind(tool)
    .bind(traceparent())
    .execute(&world.db.pool)
    .await
    .unwrap();
    action
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[tokio::test]
async fn without_a_collector_cores_trace_context_reaches_the_server_as_it_is() {
    let world = World::new().await.unwrap();
    let traced = submit_traced(&world, "work", REGISTRATION).await;
    let untraced = world.submit(Submission::work(0.1)).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    for action in [&traced, &untraced] {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    }
    let arrived = world.ledger().counts().traces;
    assert_eq!(arrived, [(traced.id, traceparent())].into(), "nothing is made up for the other");
}

#[tokio::test]
async fn the_trace_context_stands_in_meta_beside_what_the_sdk_puts_there() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", Reply::Result(raw::result("done")));
    let action = submit_traced(&world, "work", david_e2e::RAW).await;
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_ended(&action).await.unwrap();
    let call = server.requests_of("tools/call").remove(0);
    let meta = &call.params["_meta"];
    assert_eq!(meta["traceparent"], traceparent(), "{meta}");
    assert_eq!(meta["tracestate"], "vendor=1", "{meta}");
    assert!(!meta["progressToken"].is_null(), "{meta}");
}

#[tokio::test]
async fn with_a_collector_the_call_and_the_end_are_spans_below_cores_and_the_servers_lie_below_the_call() {
    let world = World::new().await.unwrap();
    let collector = Collector::start().await.unwrap();
    let action = submit_traced(&world, "work", REGISTRATION).await;
    let replica = world.replica(REPLICA).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()).start().unwrap();
    world.until_ended(&action).await.unwrap();
    // The last spans are sent before the process ends, however much time is left of their batch.
    replica.terminate().unwrap();
    assert_eq!(replica.wait_exit(PATIENCE).await.unwrap().code(), Some(0), "{}", replica.logs());

    let spans = collector.spans();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["tools/call", "finalise"], "a poll is no span");
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:?}");
        assert_eq!(hex(&span.parent_span_id), PARENT, "{span:?}");
        let said = format!("{span:?}");
        assert!(said.contains(&action.id) && said.contains(&action.run), "{said}");
        assert!(span.events.is_empty(), "log lines are not sent along: {said}");
    }
    let arrived = world.ledger().counts().traces.remove(&action.id).unwrap();
    assert_eq!(arrived, format!("00-{TRACE}-{}-01", hex(&spans[0].span_id)));
    assert!(format!("{:?}", spans[1]).contains("succeeded"), "{:?}", spans[1]);
    // Spans are for the collector; a line says by its own fields what it is about.
    assert!(!replica.logs().contains("\"span"), "{}", replica.logs());
}

#[tokio::test]
async fn polls_are_spans_only_where_debug_lines_are_asked_for() {
    let world = World::new().await.unwrap();
    let collector = Collector::start().await.unwrap();
    let action = submit_traced(&world, "work", REGISTRATION).await;
    let replica = world.replica(REPLICA).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    let replica = replica.env("DAVID_TASKS_LOG", "warn,david_tasks::traces=debug").start().unwrap();
    world.until_ended(&action).await.unwrap();
    replica.terminate().unwrap();
    replica.wait_exit(PATIENCE).await.unwrap();
    let polls = collector.spans().iter().filter(|span| span.name == "tasks/get").count();
    let served: u64 = world.ledger().counts().gets.values().sum();
    assert_eq!(polls as u64, served);
}

#[tokio::test]
async fn a_collector_that_is_down_costs_no_action_anything_and_is_told_without_its_url() {
    let world = World::new().await.unwrap();
    let action = submit_traced(&world, "work", REGISTRATION).await;
    let down = "http://127.0.0.1:1/key-4711";
    let replica = world.replica(REPLICA).env("OTEL_EXPORTER_OTLP_ENDPOINT", down);
    let replica = replica.env("OTEL_BSP_SCHEDULE_DELAY", "100").start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    replica.wait_log("the OTLP endpoint cannot be reached", PATIENCE).await.unwrap();
    assert!(!replica.logs().contains("key-4711"), "{}", replica.logs());
    eventually(PATIENCE, "it stops", async || {
        replica.terminate().ok();
        replica.exited().map_err(|error| error.to_string())?.ok_or_else(|| "it runs".to_owned())
    })
    .await
    .unwrap();
}
