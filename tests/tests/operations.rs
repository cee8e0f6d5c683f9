//! docs/operations.md, as it stands there, in psql and with an operator's rights.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::World;
use david_e2e::shown::matches;
use david_testkit::eventually;
use tokio::process::Command;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
const REPLICA: &str = "<!-- a replica is started -->";

/// A block of statements and what psql shows after it.
struct Step {
    sql: String,
    shown: Option<String>,
    replica_before: bool,
}

/// The blocks of the walk-through, up to the next chapter.
fn steps(text: &str) -> Vec<Step> {
    let chapter = text.split("## A stuck Action").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut before = "";
    for (number, part) in chapter.split("```").enumerate() {
        if number % 2 == 0 {
            before = part;
        } else if let Some(sql) = part.strip_prefix("sql\n") {
            steps.push(Step { sql: sql.to_owned(), shown: None, replica_before: before.contains(REPLICA) });
        } else if let Some(shown) = part.strip_prefix("text\n") {
            steps.last_mut().unwrap().shown = Some(shown.to_owned());
        }
    }
    steps
}

async fn psql(url: &str, role: &str, sql: &str) -> Result<String, String> {
    let done = Command::new("psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", url, "-f", "-"])
        .env("PGOPTIONS", format!("-c role={role}"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn();
    let mut done = done.map_err(|error| format!("psql is needed (postgresql-client): {error}"))?;
    let mut stdin = done.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, sql.as_bytes()).await.unwrap();
    drop(stdin);
    let done = done.wait_with_output().await.unwrap();
    if done.status.success() {
        Ok(String::from_utf8(done.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

#[tokio::test]
async fn a_stuck_action_is_found_understood_fixed_and_proven_in_psql() {
    let steps = steps(&std::fs::read_to_string(DOCUMENT).unwrap());
    assert!(steps.len() >= 7, "only {} steps; is the search broken?", steps.len());

    let world = World::new().await.unwrap();
    world.execute("delete from david.mcp_server_registrations").await.unwrap();
    let mut replica = None;
    for (number, step) in steps.iter().enumerate() {
        if step.replica_before {
            replica = Some(world.replica(env!("CARGO_BIN_EXE_replica")).start().unwrap());
        }
        // The first one prepares what is practised on.
        let role = if number == 0 { "none" } else { "david_operator" };
        let sql = step.sql.replace("http://127.0.0.1:8765/mcp", &world.server.url());
        let Some(shown) = &step.shown else {
            psql(&world.db.url, role, &sql).await.unwrap();
            continue;
        };
        if sql.contains("david.v_") {
            // The replica needs a moment.
            eventually(Duration::from_secs(30), &sql, async || {
                let actual = psql(&world.db.url, role, &sql).await?;
                if matches(shown, &actual) {
                    Ok(())
                } else {
                    Err(format!("psql shows\n{actual}\nand not\n{shown}"))
                }
            })
            .await
            .unwrap();
        } else {
            let actual = psql(&world.db.url, role, &sql).await.unwrap();
            assert!(matches(shown, &actual), "{sql}: psql shows\n{actual}\nand not\n{shown}");
        }
    }
    assert!(replica.is_some(), "no step starts a replica; is the search broken?");
}
