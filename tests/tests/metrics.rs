//! What a replica serves: that values move as they should, and when it says that it is well and ready.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use david_e2e::scrape::{self, Scrape};
use david_e2e::{RAW, REGISTRATION, Submission, World, raw};
use david_testkit::{PgProxy, Postgres, Reply, eventually};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(30);
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");

async fn until_answers(address: &str, path: &str, expected: u16) -> String {
    eventually(PATIENCE, &format!("{path} answers {expected}"), async || {
        match scrape::get(address, path).await {
            Ok((status, body)) if status == expected => Ok(body),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn an_action_that_ends_is_counted_once_with_every_step_it_took() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.3)).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_LISTEN", "127.0.0.1:0").start().unwrap();
    let address = scrape::address_of(&replica).await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");

    // The commit is counted right after it is made.
    let scrape = eventually(PATIENCE, "the end is counted", async || {
        let scrape = Scrape::of(&address).await.map_err(|error| error.to_string())?;
        match scrape.value(r#"david_tasks_outcomes_total{outcome="succeeded"}"#) {
            1.0 => Ok(scrape),
            other => Err(other.to_string()),
        }
    })
    .await
    .unwrap();
    let outcomes: f64 = sum(&scrape, "david_tasks_outcomes_total");
    assert_eq!(outcomes, 1.0, "one Action, one outcome");
    for transition in ["begin_call", "track", "finish"] {
        let sample = format!(r#"david_tasks_transitions_total{{transition="{transition}"}}"#);
        assert_eq!(scrape.value(&sample), 1.0, "{sample}");
    }
    assert_eq!(scrape.value(r#"david_tasks_calls_total{outcome="task"}"#), 1.0);
    assert_eq!(scrape.value(r#"david_tasks_polls_total{outcome="completed"}"#), 1.0);
    assert!(scrape.value(r#"david_tasks_polls_total{outcome="working"}"#) >= 1.0);
    let polls = sum(&scrape, "david_tasks_polls_total");
    let request = |method: &str| {
        scrape.value(&format!(
            r#"david_tasks_request_seconds_count{{registration="{REGISTRATION}",method="{method}"}}"#
        ))
    };
    assert_eq!((request("tools/call"), request("tasks/get")), (1.0, polls));
    let served: u64 = world.ledger().counts().gets.values().sum();
    assert_eq!(polls as u64, served, "as many polls as the server answered");
    assert!(scrape.value("david_tasks_due_lag_seconds_count") >= 1.0);
    let writes = sum(&scrape, "david_tasks_writes_total");
    assert_eq!(scrape.value("david_tasks_commit_batch_rows_sum"), writes);
    assert!(scrape.value("david_tasks_commit_seconds_count") >= 3.0);
    assert_eq!(scrape.value("david_tasks_lease_losses_total"), 0.0);
    assert_eq!(scrape.value("david_tasks_held_rows"), 0.0);
    let oldest = scrape.value("david_tasks_oldest_due_seconds");
    assert!((0.0..60.0).contains(&oldest), "{oldest}");
    assert_eq!(scrape.value("david_tasks_database_connections_max"), 8.0);
}

fn sum(scrape: &Scrape, family: &str) -> f64 {
    let samples = scrape.samples.iter().filter(|(name, _)| name.starts_with(&format!("{family}{{")));
    samples.map(|(_, value)| value).sum()
}

#[tokio::test]
async fn what_is_held_in_flight_or_lost_to_somebody_else_shows() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", Reply::Hang);
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_LISTEN", "127.0.0.1:0").start().unwrap();
    let address = scrape::address_of(&replica).await.unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    let scrape = Scrape::of(&address).await.unwrap();
    assert_eq!(scrape.value("david_tasks_held_rows"), 1.0);
    assert_eq!(scrape.value(r#"david_tasks_in_flight{lane="polls"}"#), 1.0);
    assert_eq!(scrape.value(r#"david_tasks_in_flight{lane="calls"}"#), 0.0);

    // Somebody moves the row on while the poll hangs; what comes of the poll then is too late.
    server.on("tasks/get", raw::completed(&raw::result("done")));
    world
        .execute("update david.mcp_action_tasks set fence = fence + 1, due_at = now() + interval '1 h'")
        .await
        .unwrap();
    eventually(PATIENCE, "the loss is counted", async || {
        let scrape = Scrape::of(&address).await.map_err(|error| error.to_string())?;
        match scrape.value("david_tasks_lease_losses_total") {
            1.0 => Ok(()),
            other => Err(format!("{other}; {}", replica.logs())),
        }
    })
    .await
    .unwrap();
    assert_eq!(world.standing(&action).await.unwrap().outcome, None);
}

#[tokio::test]
async fn a_breaker_that_opens_and_a_server_that_answers_again_are_counted_and_shown() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", Reply::Status(503, Vec::new(), String::new()));
    world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_LISTEN", "127.0.0.1:0");
    let replica =
        replica.env("DAVID_TASKS_BREAKER_BASE", "2s").env("DAVID_TASKS_BREAKER_CAP", "2s").start().unwrap();
    let address = scrape::address_of(&replica).await.unwrap();
    let closed = format!(r#"david_tasks_server_closed{{registration="{RAW}",state="open"}}"#);
    eventually(PATIENCE, "the breaker is open", async || {
        let scrape = Scrape::of(&address).await.map_err(|error| error.to_string())?;
        let tripped = scrape.value(r#"david_tasks_breaker_changes_total{change="tripped"}"#);
        if tripped == 1.0 && scrape.samples.contains_key(&closed) {
            Ok(())
        } else {
            Err(format!("{scrape:#?}"))
        }
    })
    .await
    .unwrap();
    server.on("tasks/get", raw::completed(&raw::result("done")));
    eventually(PATIENCE, "the breaker is closed again", async || {
        let scrape = Scrape::of(&address).await.map_err(|error| error.to_string())?;
        let recovered = scrape.value(r#"david_tasks_breaker_changes_total{change="recovered"}"#);
        let shown = scrape.samples.keys().any(|name| name.starts_with("david_tasks_server_closed"));
        if recovered == 1.0 && !shown { Ok(()) } else { Err(format!("{scrape:#?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_replica_is_ready_while_its_database_is_there_and_until_it_is_asked_to_stop() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", Reply::Hang);
    world.execute("update david.mcp_server_registrations set timeout_seconds = 60").await.unwrap();
    let proxy = PgProxy::start(Postgres::shared().unwrap().addr().unwrap()).await.unwrap();
    let replica = world.replica_at(REPLICA, &proxy.url(&world.db.url).unwrap());
    let replica = replica.env("DAVID_TASKS_STATEMENT_TIMEOUT", "1s").env("DAVID_TASKS_LISTEN", "127.0.0.1:0");

    // Before the database is there it is alive, and not ready.
    proxy.refuse();
    let replica = replica.start().unwrap();
    let address = scrape::address_of(&replica).await.unwrap();
    assert_eq!(until_answers(&address, "/healthz", 200).await, "alive\n");
    until_answers(&address, "/readyz", 503).await;
    proxy.pass();
    assert_eq!(until_answers(&address, "/readyz", 200).await, "ready\n");

    // An outage is no reason to restart it.
    proxy.refuse();
    let words = until_answers(&address, "/readyz", 503).await;
    assert!(words.contains("database") && !words.contains("127.0.0.1"), "{words}");
    until_answers(&address, "/healthz", 200).await;
    let scrape = Scrape::of(&address).await.unwrap();
    assert!(scrape.samples.contains_key("david_tasks_held_rows"));
    proxy.pass();
    until_answers(&address, "/readyz", 200).await;

    // A schema that is not the one it needs.
    world.execute("update david._sqlx_migrations set success = false where version = (select max(version) from david._sqlx_migrations)").await.unwrap();
    let words = until_answers(&address, "/readyz", 503).await;
    assert!(words.contains("david-tasks migrate"), "{words}");
    world.execute("update david._sqlx_migrations set success = true").await.unwrap();
    until_answers(&address, "/readyz", 200).await;

    // While it waits for a call that is out it takes no more, and is as alive as before.
    world.submit(Submission::raw()).await.unwrap();
    server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    replica.terminate().unwrap();
    assert_eq!(until_answers(&address, "/readyz", 503).await, "stopping\n");
    until_answers(&address, "/healthz", 200).await;
    let scrape = Scrape::of(&address).await.unwrap();
    assert_eq!(scrape.value(r#"david_tasks_in_flight{lane="calls"}"#), 1.0);
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_replica_with_the_reason() {
    let world = World::new().await.unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_LISTEN", &address).start().unwrap();
    assert_eq!(replica.wait_exit(PATIENCE).await.unwrap().code(), Some(1));
    assert!(replica.logs().contains(&format!("--listen {address} is not to be had")), "{}", replica.logs());
}

/// Name, type and labels of every row of the tables in docs/metrics.md.
fn documented() -> BTreeMap<String, (String, Vec<String>)> {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `david_tasks_"));
    let row = |line: &str| {
        let inner = line.strip_prefix('|').unwrap().strip_suffix('|').unwrap();
        let columns: Vec<&str> = inner.splitn(4, '|').map(str::trim).collect();
        assert_eq!(columns.len(), 4, "{line}");
        let mut labels: Vec<String> = columns[2].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        labels.sort();
        (columns[0].trim_matches('`').to_owned(), (columns[1].to_owned(), labels))
    };
    rows.map(row).collect()
}

#[tokio::test]
async fn docs_metrics_md_lists_exactly_what_is_exposed() {
    let world = World::new().await.unwrap();
    world.raw_server().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    // A series that is only there in trouble.
    world.execute("select david.pause_registration('reg_raw', 'why', 'somebody')").await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_LISTEN", "127.0.0.1:0").start().unwrap();
    let address = scrape::address_of(&replica).await.unwrap();
    world.until_ended(&action).await.unwrap();
    let scrape = eventually(PATIENCE, "the paused server shows", async || {
        let scrape = Scrape::of(&address).await.map_err(|error| error.to_string())?;
        let shown = scrape.types.contains_key("david_tasks_server_closed");
        if shown { Ok(scrape) } else { Err(format!("{:#?}", scrape.types)) }
    })
    .await
    .unwrap();
    let exposed: BTreeMap<String, (String, Vec<String>)> = scrape
        .types
        .iter()
        .map(|(name, kind)| (name.clone(), (kind.clone(), scrape.labels(name).into_iter().collect())))
        .collect();
    assert_eq!(documented(), exposed, "left: docs/metrics.md, right: /metrics");
}
