//! A row that kills whoever takes it must not do so for ever.

use david_e2e::{Submission, World};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

#[tokio::test]
async fn a_row_that_kills_every_replica_is_quarantined_and_the_next_row_is_not() {
    let world = World::new().await.unwrap();
    let poison = world.submit(Submission::of("sync", json!({}))).await.unwrap();
    let command = world.replica(REPLICA).env("DAVID_TASKS_QUARANTINE_LAPSES", "3");
    for _ in 0..3 {
        let killed = command.clone().env("DAVID_TASKS_CRASH_AT", "leased").start().unwrap();
        world.until_dead(&killed).await.unwrap();
        world.let_leases_lapse_of(&killed).await.unwrap();
    }
    let harmless = world.submit(Submission::of("sync", json!({}))).await.unwrap();

    let _replica = command.start().unwrap();
    let standing = world.until_ended(&poison).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("quarantined"), "{standing:?}");
    assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1));
    assert_eq!(world.ledger().calls_with_key(&poison.id), 0);
    let standing = world.until_ended(&harmless).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
}

#[tokio::test]
async fn a_row_that_lapsed_by_bad_luck_is_forgiven_once_it_is_committed() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.1)).await.unwrap();
    let command = world.replica(REPLICA).env("DAVID_TASKS_QUARANTINE_LAPSES", "3");
    for _ in 0..2 {
        let killed = command.clone().env("DAVID_TASKS_CRASH_AT", "before_begin_call").start().unwrap();
        world.until_dead(&killed).await.unwrap();
        world.let_leases_lapse_of(&killed).await.unwrap();
    }
    assert_eq!(world.of::<i32>(&action, "t.lapses").await.unwrap(), 2);
    let _replica = command.start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(world.of::<i32>(&action, "t.lapses").await.unwrap(), 0);
    assert_eq!(world.ledger().calls_with_key(&action.id), 1);
}
