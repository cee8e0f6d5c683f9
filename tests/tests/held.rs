//! Held leases: a row that works is leased once per term and polled from memory (DESIGN §7).

use std::time::Duration;

use david_e2e::{RAW, Submission, World, raw};
use david_testkit::{PgProxy, Postgres, eventually};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(30);

/// What a write would change.
const ROW: &str = "t.fence || ' ' || t.updated_at || ' ' || t.polls";

#[tokio::test]
async fn a_task_that_works_is_polled_many_times_under_one_lease_and_nothing_is_written() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::working());
    let action = world.submit(Submission::raw()).await.unwrap();
    // Longer than the test.
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_LEASE_TERM", "5m").start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    let leased: String = world.of(&action, ROW).await.unwrap();
    server.wait_for("tasks/get", 15, PATIENCE).await.unwrap();
    assert_eq!(world.of::<String>(&action, ROW).await.unwrap(), leased);

    server.on("tasks/get", raw::completed(&raw::result("held")));
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert!(
        world.of::<i32>(&action, "t.polls").await.unwrap() >= 14,
        "what was counted is written at the end"
    );
}

#[tokio::test]
async fn a_row_is_written_and_given_up_at_the_end_of_its_term_and_leased_again() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::working());
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    let fence: i64 = world.of(&action, "t.fence").await.unwrap();
    eventually(PATIENCE, "the row is leased again", async || {
        let row: String = world.of(&action, ROW).await.unwrap();
        let again = world.of::<i64>(&action, "t.fence").await.unwrap() > fence;
        if again { Ok(()) } else { Err(row) }
    })
    .await
    .unwrap();
    let seen = server.requests_of("tasks/get").len();
    let polls: i32 = world.of(&action, "t.polls").await.unwrap();
    assert!(usize::try_from(polls).unwrap() + 2 >= seen && polls > 3, "{polls} of {seen} polls are written");
    assert_eq!(world.of::<i32>(&action, "t.lapses").await.unwrap(), 1, "only the lease that is under way");
}

#[tokio::test]
async fn failed_polls_of_a_held_row_are_counted_though_they_are_not_written() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", david_testkit::Reply::json_text("<html>"));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_LEASE_TERM", "5m").start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("protocol_error"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/get").len(), 5);
}

#[tokio::test]
async fn rows_that_are_held_are_not_polled_while_nobody_knows_what_their_registration_says() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::working());
    let proxy = PgProxy::start(Postgres::shared().unwrap().addr().unwrap()).await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica_at(REPLICA, &proxy.url(&world.db.url).unwrap());
    let _replica = replica.env("DAVID_TASKS_LEASE_TERM", "5m").start().unwrap();
    server.wait_for("tasks/get", 2, PATIENCE).await.unwrap();
    proxy.refuse();
    // The polls cease, though the lease is long.
    let mut before = 0;
    eventually(PATIENCE, "nothing is polled for a second", async || {
        before = server.requests_of("tasks/get").len();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = server.requests_of("tasks/get").len();
        if now == before { Ok(()) } else { Err(format!("{now} polls")) }
    })
    .await
    .unwrap();
    // It is switched off meanwhile; so they do not begin again.
    let switch = sqlx::query("update david.mcp_server_registrations set enabled = false where id = $1");
    switch.bind(RAW).execute(&world.db.pool).await.unwrap();
    proxy.pass();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("registration_disabled"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/get").len(), before);
}

#[tokio::test]
async fn a_cancel_of_a_held_row_is_seen_at_once_by_the_replica_that_holds_it() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::working());
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_LEASE_TERM", "5m").start().unwrap();
    server.wait_for("tasks/get", 3, PATIENCE).await.unwrap();
    world.cancel(&action).await.unwrap();
    server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
    world.until_ended(&action).await.unwrap();
    // The older lease has nothing to do any more.
    let polls = server.requests_of("tasks/get").len();
    let other = world.submit(Submission::work(0.3)).await.unwrap();
    world.until_ended(&other).await.unwrap();
    assert!(server.requests_of("tasks/get").len() <= polls + 1);
}
