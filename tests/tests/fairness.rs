//! No server stands in the way of another, and none is asked more than it may be.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::raw_server::Recorded;
use david_testkit::{RawServer, Reply, eventually};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

async fn submit(world: &World, registration: &'static str, count: usize) -> Vec<Action> {
    let mut actions = Vec::new();
    for _ in 0..count {
        actions.push(world.submit(Submission { registration, ..Submission::raw() }).await.unwrap());
    }
    actions
}

/// A server registered under this name, each call of which makes a task of its own, which works.
async fn server(world: &World, name: &str) -> RawServer {
    let server = RawServer::start().await.unwrap();
    world.register(name, &server.url()).await.unwrap();
    server.on("tools/call", with_handle());
    server.on("tasks/get", Reply::with(|get| Reply::Result(raw::task(&id_in(get), "working"))));
    server
}

/// A handle named after the Action.
fn with_handle() -> Reply {
    Reply::with(|call| {
        let key = call.params["arguments"]["key"].as_str().unwrap_or_default();
        Reply::Result(raw::handle(&format!("task of {key}")))
    })
}

/// Whichever task is asked about is completed.
fn completed() -> Reply {
    Reply::with(|get| {
        let mut task = raw::task(&id_in(get), "completed");
        task["result"] = json!({ "content": [] });
        Reply::Result(task)
    })
}

fn id_in(get: &Recorded) -> String {
    get.params["taskId"].as_str().unwrap_or_default().to_owned()
}

/// Waits until these have ended, whatever the others do.
async fn until_ended(world: &World, actions: &[Action]) {
    for action in actions {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    }
}

/// Waits until no row is leased, by replicas all of which have read what is closed since it was.
async fn until_given_back(world: &World, registration: &str) {
    eventually(PATIENCE, "everything is given back", async || {
        let query = "select (select count(*) from david.mcp_action_tasks where leased_by is not null),
                            coalesce((select opened_at < now() - interval '1500 milliseconds'
                                        from david.mcp_registration_health where registration_id = $1), false)";
        let (held, read): (i64, bool) =
            sqlx::query_as(query).bind(registration).fetch_one(&world.db.pool).await.unwrap();
        if held == 0 && read { Ok(()) } else { Err(format!("{held} are held; all know: {read}")) }
    })
    .await
    .unwrap();
}

async fn trips(world: &World, registration: &str) -> i32 {
    let query =
        "select coalesce((select trips from david.mcp_registration_health where registration_id = $1), 0)";
    sqlx::query_scalar(query).bind(registration).fetch_one(&world.db.pool).await.unwrap()
}

async fn until_trips(world: &World, registration: &str, what: &str, enough: impl Fn(i32) -> bool) {
    eventually(PATIENCE, what, async || {
        let trips = trips(world, registration).await;
        if enough(trips) { Ok(()) } else { Err(format!("{trips} trips")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_server_that_never_answers_delays_no_other_servers_actions() {
    let world = World::new().await.unwrap();
    let silent = server(&world, "silent").await;
    silent.on("tools/call", Reply::Hang);
    let healthy = server(&world, "healthy").await;
    // Far more than can be in flight, and all of them due before the healthy server's.
    submit(&world, "silent", 60).await;
    let _replica = world
        .replica(REPLICA)
        .env("DAVID_TASKS_MAX_IN_FLIGHT", "4")
        .env("DAVID_TASKS_BREAKER_BASE", "1h")
        .env("DAVID_TASKS_BREAKER_CAP", "1h")
        .start()
        .unwrap();
    silent.wait_for("tools/call", 1, PATIENCE).await.unwrap();

    let actions = submit(&world, "healthy", 5).await;
    healthy.wait_for("tools/call", 5, PATIENCE).await.unwrap();
    let ended = world.ended().await.unwrap();
    assert!(ended < 60, "the silent server's calls were in nobody's way: {ended} had ended");
    healthy.on("tasks/get", completed());
    until_ended(&world, &actions).await;
    assert!(silent.requests_of("tools/call").len() < 60, "the silent server is not asked all the same");
}

/// Rows that are held come round again and again; those that are not yet leased must not wait for their leases to end.
#[tokio::test]
async fn all_rows_of_a_server_that_answers_too_slowly_for_them_are_asked_about_in_turn() {
    let world = World::new().await.unwrap();
    let slow = server(&world, "slow").await;
    let answer = Reply::with(|get| {
        let mut task = raw::task(&id_in(get), "working");
        task["pollIntervalMs"] = json!(1);
        Reply::Result(task)
    });
    slow.on("tasks/get", Reply::Delay(Duration::from_millis(100), Box::new(answer)));
    const TASKS: usize = 60;
    for number in 0..TASKS {
        let task = Some(format!("task {number}"));
        world
            .submit(Submission { registration: "slow", remote_task_id: task, ..Submission::raw() })
            .await
            .unwrap();
    }
    let _replica = world
        .replica(REPLICA)
        .env("DAVID_TASKS_MAX_IN_FLIGHT", "4")
        .env("DAVID_TASKS_LEASE_BATCH", "8")
        .env("DAVID_TASKS_LEASE_TERM", "60s")
        .start()
        .unwrap();
    let mut asked = HashMap::new();
    eventually(PATIENCE * 3, "each was asked about", async || {
        let gets = slow.requests_of("tasks/get");
        asked = gets.iter().fold(HashMap::new(), |mut asked, get| {
            *asked.entry(id_in(get)).or_insert(0) += 1;
            asked
        });
        if asked.len() == TASKS { Ok(()) } else { Err(format!("{} were, {} times", asked.len(), gets.len())) }
    })
    .await
    .unwrap();
    let most = asked.values().max().unwrap();
    assert!(*most <= 15, "one was asked about {most} times before the last one was once");
}

#[tokio::test]
async fn a_server_that_goes_on_failing_is_left_alone_by_all_replicas_and_tried_again_by_one() {
    let world = World::new().await.unwrap();
    let server = server(&world, "sick").await;
    let actions = submit(&world, "sick", 20).await;
    let replica = |base: &'static str| {
        world.replica(REPLICA).env("DAVID_TASKS_BREAKER_BASE", base).env("DAVID_TASKS_BREAKER_CAP", base)
    };
    let _first = replica("1h").start().unwrap();
    let _second = replica("1h").start().unwrap();
    server.wait_for("tasks/get", 20, PATIENCE).await.unwrap();

    server.on("tasks/get", Reply::status(503));
    until_trips(&world, "sick", "the breaker is open", |trips| trips > 0).await;
    until_given_back(&world, "sick").await;
    let asked = server.requests_of("tasks/get").len();

    // Nothing is due but the time until the next try.
    server.on("tasks/get", completed());
    let other = self::server(&world, "other").await;
    let beside = submit(&world, "other", 3).await;
    other.on("tasks/get", completed());
    until_ended(&world, &beside).await;
    assert_eq!(server.requests_of("tasks/get").len(), asked, "it is left alone meanwhile");

    world.execute("update david.mcp_registration_health set open_until = now()").await.unwrap();
    until_ended(&world, &actions).await;
    until_trips(&world, "sick", "an answer closes the breaker", |trips| trips == 0).await;
}

#[tokio::test]
async fn a_failed_try_opens_the_breaker_again_after_one_request() {
    let world = World::new().await.unwrap();
    let server = server(&world, "sick").await;
    submit(&world, "sick", 10).await;
    let replica =
        world.replica(REPLICA).env("DAVID_TASKS_BREAKER_BASE", "1h").env("DAVID_TASKS_BREAKER_CAP", "2h");
    let _replica = replica.start().unwrap();
    server.wait_for("tasks/get", 10, PATIENCE).await.unwrap();
    server.on("tasks/get", Reply::status(503));
    until_trips(&world, "sick", "the breaker is open", |trips| trips == 1).await;
    until_given_back(&world, "sick").await;
    let asked = server.requests_of("tasks/get").len();

    world.execute("update david.mcp_registration_health set open_until = now()").await.unwrap();
    until_trips(&world, "sick", "the breaker is open again", |trips| trips == 2).await;
    assert_eq!(server.requests_of("tasks/get").len(), asked + 1);
    let doubled: bool = sqlx::query_scalar(
        "select open_until > now() + interval '90 minutes' from david.mcp_registration_health",
    )
    .fetch_one(&world.db.pool)
    .await
    .unwrap();
    assert!(doubled, "the pause doubles");
}

#[tokio::test]
async fn a_deadline_ends_an_action_though_its_server_is_left_alone() {
    let world = World::new().await.unwrap();
    let server = server(&world, "sick").await;
    let actions = submit(&world, "sick", 1).await;
    let _replica = world.replica(REPLICA).start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    world
        .execute(
            "insert into david.mcp_registration_health (registration_id, paused_at, paused_by)
             values ('sick', now(), 'a test')",
        )
        .await
        .unwrap();
    eventually(PATIENCE, "the pause is heard of", async || {
        let held = world.of::<bool>(&actions[0], "t.leased_by is not null").await.unwrap();
        if held { Err("it is held".to_owned()) } else { Ok(()) }
    })
    .await
    .unwrap();
    let asked = server.requests().len();
    world.execute("update david.mcp_action_tasks set execution_deadline = now()").await.unwrap();
    eventually(PATIENCE, "the Action ends", async || {
        let standing = world.standing(&actions[0]).await.unwrap();
        if standing.outcome.as_deref() == Some("deadline_exceeded") {
            Ok(())
        } else {
            Err(format!("{standing:?}"))
        }
    })
    .await
    .unwrap();
    assert_eq!(server.requests().len(), asked, "nothing is sent to a server that is paused");
}

#[tokio::test]
async fn a_paused_server_is_asked_nothing_until_it_is_resumed() {
    let world = World::new().await.unwrap();
    let server = server(&world, "paused").await;
    server.on("tasks/get", completed());
    world
        .execute(
            "insert into david.mcp_registration_health (registration_id, paused_at, paused_by)
             values ('paused', now(), 'a test')",
        )
        .await
        .unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    // Whatever is leased before the first look at what is paused is given back.
    let beside = self::server(&world, "beside").await;
    beside.on("tasks/get", completed());
    let first = submit(&world, "beside", 1).await;
    until_ended(&world, &first).await;
    eventually(PATIENCE, "the pause is known", async || {
        let read = world
            .of::<bool>(&first[0], "now() > t.finalised_at + interval '1200 milliseconds'")
            .await
            .unwrap();
        if read { Ok(()) } else { Err("it is read every second".to_owned()) }
    })
    .await
    .unwrap();

    let actions = submit(&world, "paused", 3).await;
    let others = submit(&world, "beside", 3).await;
    until_ended(&world, &others).await;
    assert_eq!(server.requests().len(), 0);
    world
        .execute("update david.mcp_registration_health set paused_at = null, paused_by = null")
        .await
        .unwrap();
    until_ended(&world, &actions).await;
}

#[tokio::test]
async fn no_more_calls_are_in_flight_than_a_registration_allows_whoever_makes_them() {
    let world = World::new().await.unwrap();
    let server = server(&world, "narrow").await;
    server.on("tools/call", Reply::Delay(Duration::from_millis(60), Box::new(with_handle())));
    server.on("tasks/get", completed());
    world
        .execute("update david.mcp_server_registrations set max_calls = 3 where id = 'narrow'")
        .await
        .unwrap();
    let actions = submit(&world, "narrow", 30).await;
    let replicas = [(); 3].map(|()| world.replica(REPLICA).start().unwrap());
    until_ended(&world, &actions).await;
    assert_eq!(server.requests_of("tools/call").len(), 30);
    assert_eq!(server.peak("tools/call"), 3, "the bound is kept, and used");
    drop(replicas);
}

#[tokio::test]
async fn an_idle_replica_is_woken_at_once_by_new_work_and_by_a_cancel() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    // Ten minutes: without a wake-up nothing happens within this test.
    let replica = world.replica(REPLICA).env("DAVID_TASKS_IDLE_INTERVAL", "10m").start().unwrap();
    eventually(PATIENCE, "the replica listens", async || {
        let query = "select count(*) from pg_stat_activity where datname = current_database() and query = 'LISTEN \"david_tasks\"'";
        let listening: i64 = sqlx::query_scalar(query).fetch_one(&world.db.pool).await.unwrap();
        if listening > 0 { Ok(()) } else { Err(replica.logs()) }
    })
    .await
    .unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    world.until_phase(&action, "working").await.unwrap();
    world.cancel(&action).await.unwrap();
    server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn without_wake_ups_everything_happens_all_the_same() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let _replica = world.replica(REPLICA).env("DAVID_TASKS_WAKE_UPS", "off").start().unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    world.until_phase(&action, "working").await.unwrap();
    world.cancel(&action).await.unwrap();
    server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_server_of_which_only_rows_that_killed_leases_are_left_is_tried_again_all_the_same() {
    let world = World::new().await.unwrap();
    let server = server(&world, "sick").await;
    server.on("tasks/get", completed());
    let actions = submit(&world, "sick", 2).await;
    world.execute("update david.mcp_action_tasks set lapses = 2").await.unwrap();
    world
        .execute(
            "insert into david.mcp_registration_health (registration_id, trips, opened_at, open_until)
             values ('sick', 1, now() - interval '1 minute', now())",
        )
        .await
        .unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    until_ended(&world, &actions).await;
    until_trips(&world, "sick", "its breaker is closed again", |trips| trips == 0).await;
}
