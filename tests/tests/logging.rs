//! docs/logging.md is the registry of the fields of log lines and spans.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use david_e2e::{Submission, World, fields};
use david_testkit::Reply;
use serde_json::Value;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(30);
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What the log itself puts on every line; the first table.
const OF_EVERY_LINE: [&str; 4] = ["timestamp", "level", "target", "message"];

/// The registry: name and type.
fn registered() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/logging.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let columns: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(columns.len() == 4 && columns.iter().all(|column| !column.is_empty()), "{line}");
        (columns[0].trim_matches('`').to_owned(), columns[1].to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn every_field_in_the_source_is_registered_and_every_registered_field_is_in_the_source() {
    let mut used: BTreeSet<String> = ["crates/worker/src", "crates/schema/src"]
        .into_iter()
        .flat_map(|f| fields::in_source(&Path::new(ROOT).join(f)))
        .collect();
    assert!(used.len() > 20, "only {used:?}; is the search broken?");
    used.extend(OF_EVERY_LINE.map(str::to_owned));
    let registered: BTreeSet<String> = registered().into_keys().collect();
    let unregistered: Vec<&String> = used.difference(&registered).collect();
    let unused: Vec<&String> = registered.difference(&used).collect();
    assert!(unregistered.is_empty(), "not in docs/logging.md: {unregistered:?}");
    assert!(unused.is_empty(), "in docs/logging.md, and nowhere in the source: {unused:?}");
}

#[tokio::test]
async fn the_lines_of_a_real_run_have_registered_fields_of_the_registered_types_and_no_others() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", Reply::Status(503, Vec::new(), String::new()));
    let asked = world.submit(Submission::of("ask", serde_json::json!({ "question": "why?" }))).await.unwrap();
    let failing = world.submit(Submission::raw()).await.unwrap();
    let working = world.submit(Submission::work(0.2)).await.unwrap();
    let replica =
        world.replica(REPLICA).env("DAVID_TASKS_LOG", "info,david_tasks=trace,david_schema=trace,sqlx=warn");
    let replica = replica.env("DAVID_TASKS_LISTEN", "127.0.0.1:0").start().unwrap();
    world.until_ended(&working).await.unwrap();
    world.until_phase(&asked, "input_required").await.unwrap();
    replica.wait_log("the server is left alone for a while", PATIENCE).await.unwrap();
    for action in [&asked, &failing] {
        world.cancel(action).await.unwrap();
    }
    world.until_ended(&asked).await.unwrap();
    replica.terminate().unwrap();
    replica.wait_exit(PATIENCE).await.unwrap();

    let registered = registered();
    let (mut lines, mut seen) = (0, BTreeSet::new());
    for line in replica.logs().lines() {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { panic!("no JSON object: {line}") };
        // Other crates' lines are theirs.
        if !line["target"].as_str().is_some_and(|target| target.starts_with("david_")) {
            continue;
        }
        lines += 1;
        for (name, value) in &line {
            let kind = registered.get(name).unwrap_or_else(|| panic!("{name} is not registered: {line:?}"));
            let fits = match kind.as_str() {
                "text" => value.is_string(),
                "whole number" => value.is_u64() || value.is_i64(),
                "true or false" => value.is_boolean(),
                "number" => value.is_number(),
                other => panic!("{other} is no type of docs/logging.md"),
            };
            assert!(fits, "{name} is {kind}, not {value}");
            seen.insert(name.clone());
        }
    }
    assert!(lines > 10, "{}", replica.logs());
    for common in ["replica.id", "run.id", "action.id", "registration.id", "lease.fence", "transition"] {
        assert!(seen.contains(common), "{common} was not seen: {seen:?}");
    }
}
