//! Replicas as processes: small system programs stand in for `david-tasks`.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use david_testkit::{Replica, eventually};

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> anyhow::Result<Replica> {
    Replica::command("/bin/sh", "postgres://nowhere").arg("-c").arg(script).env("GREETING", "hello").start()
}

/// The state letter of a process: R, S, T (stopped), Z.
fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect()
}

#[tokio::test]
async fn output_environment_and_exit_status_are_captured() {
    let replica = shell("echo $GREETING from $DATABASE_URL; echo oops >&2; exit 3").unwrap();
    assert_eq!(replica.wait_exit(SOON).await.unwrap().code(), Some(3));
    replica.wait_log("hello from postgres://nowhere", SOON).await.unwrap();
    replica.wait_log("oops", SOON).await.unwrap();
}

#[tokio::test]
async fn a_killed_replica_is_gone_when_kill_returns() {
    let replica = shell("exec sleep 600").unwrap();
    assert_eq!(replica.kill().unwrap().signal(), Some(9));
    assert!(replica.terminate().is_err());
}

#[tokio::test]
async fn a_terminated_replica_can_say_goodbye() {
    let replica = shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done").unwrap();
    replica.wait_log("up", SOON).await.unwrap();
    replica.terminate().unwrap();
    assert_eq!(replica.wait_exit(SOON).await.unwrap().code(), Some(0));
    replica.wait_log("bye", SOON).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_paused_replica_stands_still_until_resumed() {
    let replica = shell("exec sleep 600").unwrap();
    replica.pause().unwrap();
    for (what, stopped) in [("it is stopped", true), ("it runs again", false)] {
        eventually(SOON, what, async || match state(replica.pid()) {
            seen if (seen == "T") == stopped => Ok(()),
            seen => Err(seen),
        })
        .await
        .unwrap();
        replica.resume().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_dropped_replica_is_killed_even_while_paused() {
    let replica = shell("exec sleep 600").unwrap();
    let pid = replica.pid();
    replica.pause().unwrap();
    drop(replica);
    assert_eq!(state(pid), "");
}

#[tokio::test]
async fn a_replica_that_does_not_exit_is_reported_with_its_logs() {
    let replica = shell("echo stuck in phase working; exec sleep 600").unwrap();
    replica.wait_log("stuck", SOON).await.unwrap();
    let error = replica.wait_exit(Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(error.contains("stuck in phase working"), "{error}");
}
