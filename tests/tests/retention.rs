//! What ended long ago goes by itself, and nothing else does.

use std::time::Duration;

use david_e2e::{Submission, World};
use david_testkit::eventually;
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn replicas_throw_away_what_ended_long_ago_and_keep_outputs_that_nobody_acknowledged() {
    let world = World::new().await.unwrap();
    let done = Submission::of("sync", json!({ "seconds": 0 }));
    let old = world.submit(done.clone()).await.unwrap();
    let unread = world.submit(done.clone()).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    world.until_ended(&old).await.unwrap();
    world.until_ended(&unread).await.unwrap();
    replica.terminate().unwrap();
    replica.wait_exit(PATIENCE).await.unwrap();

    world.execute("select david.ack_outputs(array[(select min(id) from david.actions)])").await.unwrap();
    for aged in [
        "update david.mcp_action_tasks set finalised_at = now() - interval '31 days'",
        "update david.tool_outputs set created_at = now() - interval '31 days', acknowledged_at = acknowledged_at - interval '31 days'",
        "update david.mcp_task_events set at = now() - interval '31 days'",
    ] {
        world.execute(aged).await.unwrap();
    }
    let fresh = world.submit(done).await.unwrap();
    let (_one, _other) = (world.replica(REPLICA).start().unwrap(), world.replica(REPLICA).start().unwrap());

    let left = "select string_agg(action_id, ' ' order by action_id) from david.";
    let left = async |table: &str| -> Option<String> {
        let query = sqlx::AssertSqlSafe(format!("{left}{table}"));
        sqlx::query_scalar(query).fetch_one(&world.db.pool).await.unwrap()
    };
    eventually(PATIENCE, "only the fresh Action has a task", async || {
        let tasks = left("mcp_action_tasks").await.unwrap_or_default();
        if tasks == fresh.id { Ok(()) } else { Err(tasks) }
    })
    .await
    .unwrap();
    world.until_ended(&fresh).await.unwrap();
    assert_eq!(left("tool_outputs").await.unwrap(), format!("{} {}", unread.id, fresh.id));
}
