//! `david-tasks dev`: a whole world in a folder.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use david_e2e::said::Said;
use david_testkit::{Replica, eventually};

const DAVID_TASKS: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that Postgres' user may enter.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("david-dev-").tempdir().unwrap()
}

async fn start(dir: &Path) -> Replica {
    let dev = Replica::command(DAVID_TASKS, "").arg("dev").arg("--dir").arg(dir).start().unwrap();
    dev.wait_log("the worker leases", PATIENCE).await.unwrap();
    dev
}

/// The lines that are to be pasted, up to the first that needs the Action's end.
fn pasted(logs: &str) -> String {
    let lines =
        logs.split("In another terminal:").nth(1).and_then(|rest| rest.split("# And see").next()).unwrap();
    lines.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

fn url(logs: &str) -> String {
    logs.split("export DATABASE_URL=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

async fn until_succeeded(url: &str) {
    eventually(PATIENCE, "the first Action has succeeded", async || {
        let shown = Said::by(DAVID_TASKS, url, &["show", "act_1", "--json"])
            .await
            .map_err(|error| error.to_string())?;
        if shown.code == 0 && shown.json()["action"]["outcome"] == "succeeded" {
            Ok(())
        } else {
            Err(format!("{shown:?}"))
        }
    })
    .await
    .unwrap();
}

/// A process that has ended and that nobody waits for is still listed, as a zombie.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

fn postgres_of(dir: &Path) -> String {
    let file = std::fs::read_to_string(dir.join("data").join("postmaster.pid")).unwrap();
    file.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn what_dev_says_to_type_next_works_as_it_stands() {
    let dir = folder();
    let dev = start(dir.path()).await;
    let script = format!("set -e\n{}", pasted(&dev.logs()));
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", &script]);
    let said = Said::of(shell).await.unwrap();
    assert_eq!(said.code, 0, "{script}\n{said:?}");
    assert!(said.out.contains("All is well."), "{said:?}");
    until_succeeded(&url(&dev.logs())).await;
}

#[tokio::test]
async fn a_second_dev_is_refused_sigint_ends_all_in_order_and_the_next_finds_the_data() {
    let dir = folder();
    let dev = start(dir.path()).await;
    let database = url(&dev.logs());
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", &pasted(&dev.logs())]);
    Said::of(shell).await.unwrap();
    until_succeeded(&database).await;

    let second = Said::by(DAVID_TASKS, "", &["dev", "--dir", dir.path().to_str().unwrap()]).await.unwrap();
    assert_eq!(second.code, 6, "{second:?}");
    assert!(second.err.contains("in use") && second.err.contains("--dir"), "{second:?}");

    let server = postgres_of(dir.path());
    dev.interrupt().unwrap();
    let ended = dev.wait_exit(PATIENCE).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", dev.logs());
    assert!(dev.logs().contains("all has ended"), "{}", dev.logs());
    assert!(!is_running(&server), "Postgres outlives it");
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("database system is shut down"), "Postgres was not shut down in order: {log}");

    let again = start(dir.path()).await;
    assert_eq!(url(&again.logs()), database, "the URL that stands in shells and notes");
    until_succeeded(&database).await;
    assert!(!std::fs::read_to_string(dir.path().join("log")).unwrap().contains("not properly shut down"));
}

#[tokio::test]
async fn a_dev_that_is_killed_takes_postgres_along_and_loses_nothing() {
    let dir = folder();
    let dev = start(dir.path()).await;
    let database = url(&dev.logs());
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", &pasted(&dev.logs())]);
    Said::of(shell).await.unwrap();
    // The sample server keeps its tasks in memory only.
    until_succeeded(&database).await;
    let server = postgres_of(dir.path());
    dev.kill().unwrap();
    // At once: the old server may still be on its way out.
    let _again = start(dir.path()).await;
    assert!(!is_running(&server), "two servers on one folder");
    until_succeeded(&database).await;
}

#[tokio::test]
async fn a_folder_that_holds_something_else_is_refused_and_left_alone() {
    let dir = folder();
    let note = dir.path().join("note");
    std::fs::write(&note, "mine").unwrap();
    let said = Said::by(DAVID_TASKS, "", &["dev", "--dir", dir.path().to_str().unwrap()]).await.unwrap();
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.err.contains("holds something else") && said.err.contains("--dir"), "{said:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(note).unwrap(), "mine");
}

#[tokio::test]
async fn without_postgres_dev_says_how_to_install_it() {
    let dir = folder();
    let mut command = tokio::process::Command::new(DAVID_TASKS);
    command.args(["dev", "--dir"]).arg(dir.path()).env("DAVID_PG_BIN", "/nowhere");
    let said = Said::of(command).await.unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("DAVID_PG_BIN"), "{said:?}");
}
