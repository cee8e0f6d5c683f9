//! docs/examples/core_contract.py, as it stands there, with Core's rights, against a replica and a server.

use david_e2e::World;
use tokio::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[tokio::test]
async fn the_python_core_submits_cancels_answers_and_brings_results_home() {
    let python = Command::new(format!("{ROOT}/scripts/python")).output().await.unwrap();
    assert!(python.status.success(), "no Python: {}", String::from_utf8_lossy(&python.stderr));
    let python = String::from_utf8(python.stdout).unwrap();

    let world = World::new().await.unwrap();
    let _replica = world.replica(env!("CARGO_BIN_EXE_replica")).start().unwrap();
    let done = Command::new(python.trim())
        .arg(format!("{ROOT}/docs/examples/core_contract.py"))
        .env("DATABASE_URL", &world.db.url)
        .env("MCP_URL", world.server.url())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    for line in ["asked: Which year?", "result: work ok forty-two", "result: ask ok", "dropped: cancelled"] {
        assert!(said.contains(line), "'{line}' is missing:\n{said}");
    }
    let unacknowledged: i64 =
        sqlx::query_scalar("select count(*) from david.tool_outputs where acknowledged_at is null")
            .fetch_one(&world.db.pool)
            .await
            .unwrap();
    assert_eq!(unacknowledged, 0);
}
