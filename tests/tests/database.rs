//! The database goes away at the worst moments; what was decided is written once all the same.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, Submission, World, raw};
use david_testkit::{PgProxy, Postgres, RawServer, Replica, Reply, eventually};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// A world whose replica reaches the database through a proxy.
struct Proxied {
    world: World,
    proxy: PgProxy,
    server: RawServer,
}

impl Proxied {
    async fn new() -> Self {
        let world = World::new().await.unwrap();
        let proxy = PgProxy::start(Postgres::shared().unwrap().addr().unwrap()).await.unwrap();
        let server = world.raw_server().await.unwrap();
        server.on("tools/call", later(Reply::Default));
        server.on("tasks/get", later(raw::completed(&raw::result("kept"))));
        Self { world, proxy, server }
    }

    fn start(&self) -> Replica {
        let url = self.proxy.url(&self.world.db.url).unwrap();
        // How soon a connection that leads nowhere is given up depends on it.
        let replica = self.world.replica_at(REPLICA, &url).env("DAVID_TASKS_STATEMENT_TIMEOUT", "1s");
        replica.start().unwrap()
    }

    /// One call, one result, one line of history for each: whatever happened to the database.
    async fn assert_succeeds_once(&self, action: &Action) {
        let standing = self.world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("completed", 1), "{standing:?}");
        assert_eq!(standing.envelope.unwrap()["content"][0]["text"], "kept");
        // A lease whose answer was lost lapsed; that is told, once.
        let events = standing.events.iter().map(String::as_str).collect::<Vec<_>>();
        let events = events.strip_prefix(&["MCP_TASK_RECOVERED"]).unwrap_or(&events);
        assert_eq!(events, ["MCP_TASK_CREATED", "MCP_TASK_COMPLETED"]);
        assert_eq!(self.server.requests_of("tools/call").len(), 1);
        assert_eq!(self.server.requests_of("tasks/cancel").len(), 0);
    }
}

fn later(reply: Reply) -> Reply {
    Reply::Delay(Duration::from_millis(300), Box::new(reply))
}

/// Which write loses its connection.
#[derive(Debug, Clone, Copy)]
enum Moment {
    CallBegins,
    TaskIsKept,
    ResultIsKept,
}

/// On which side of its COMMIT.
#[derive(Debug, Clone, Copy)]
enum Side {
    Before,
    After,
}

async fn connection_cut(moment: Moment, side: Side) {
    let proxied = Proxied::new().await;
    let replica = proxied.start();
    replica.wait_log("the worker leases", PATIENCE).await.unwrap();
    let cut = || match side {
        Side::Before => proxied.proxy.cut_before_commit(),
        Side::After => proxied.proxy.cut_after_commit(),
    };
    // Leasing sends no COMMIT: the next one is the write that is meant.
    if matches!(moment, Moment::CallBegins) {
        cut();
    }
    let action = proxied.world.submit(Submission::raw()).await.unwrap();
    match moment {
        Moment::CallBegins => {}
        Moment::TaskIsKept => {
            proxied.server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
            cut();
        }
        Moment::ResultIsKept => {
            proxied.server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
            cut();
        }
    }
    proxied.assert_succeeds_once(&action).await;
    assert_eq!(proxied.proxy.cuts(), 1, "no connection was cut, so nothing was tested");
    assert!(replica.logs().contains("the write is tried again"), "{}", replica.logs());
}

#[tokio::test]
async fn a_call_whose_begin_is_not_committed_is_begun_again() {
    connection_cut(Moment::CallBegins, Side::Before).await;
}

#[tokio::test]
async fn a_call_whose_begin_is_committed_without_an_answer_is_made_once() {
    connection_cut(Moment::CallBegins, Side::After).await;
}

#[tokio::test]
async fn a_task_whose_id_is_not_committed_is_kept_by_the_next_try() {
    connection_cut(Moment::TaskIsKept, Side::Before).await;
}

#[tokio::test]
async fn a_task_whose_id_is_committed_without_an_answer_is_kept_and_not_cancelled() {
    connection_cut(Moment::TaskIsKept, Side::After).await;
}

#[tokio::test]
async fn a_result_that_is_not_committed_is_written_by_the_next_try() {
    connection_cut(Moment::ResultIsKept, Side::Before).await;
}

#[tokio::test]
async fn a_result_that_is_committed_without_an_answer_is_written_once() {
    connection_cut(Moment::ResultIsKept, Side::After).await;
}

#[tokio::test]
async fn a_lease_whose_answer_is_lost_lapses_and_is_taken_again() {
    let proxied = Proxied::new().await;
    let action = proxied.world.submit(Submission::raw()).await.unwrap();
    proxied.proxy.cut_after("visibility timeout, bumps the fence");
    let replica = proxied.start();
    replica.wait_log("cannot lease; trying again", PATIENCE).await.unwrap();
    assert_eq!(proxied.proxy.cuts(), 1);
    assert_eq!(proxied.world.of::<i32>(&action, "t.lapses").await.unwrap(), 1);
    assert_eq!(proxied.world.standing(&action).await.unwrap().phase, "queued");

    proxied.world.let_leases_lapse().await.unwrap();
    proxied.assert_succeeds_once(&action).await;
}

#[tokio::test]
async fn a_database_that_is_down_at_the_start_is_waited_for() {
    let proxied = Proxied::new().await;
    proxied.proxy.refuse();
    let action = proxied.world.submit(Submission::raw()).await.unwrap();
    let replica = proxied.start();
    replica.wait_log("the database does not answer", PATIENCE).await.unwrap();
    proxied.proxy.pass();
    proxied.assert_succeeds_once(&action).await;
}

#[tokio::test]
async fn a_result_in_hand_outlasts_an_outage_of_the_database() {
    let proxied = Proxied::new().await;
    let action = proxied.world.submit(Submission::raw()).await.unwrap();
    let replica = proxied.start();
    proxied.server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
    proxied.proxy.refuse();
    replica.wait_log("the write is tried again", PATIENCE).await.unwrap();
    assert_eq!(proxied.world.standing(&action).await.unwrap().phase, "calling");
    proxied.proxy.pass();
    proxied.assert_succeeds_once(&action).await;
}

#[tokio::test]
async fn a_database_connection_that_leads_nowhere_is_given_up_and_leasing_goes_on() {
    let proxied = Proxied::new().await;
    let replica = proxied.start();
    replica.wait_log("the worker leases", PATIENCE).await.unwrap();
    proxied.proxy.blackhole();
    replica.wait_log("the connection gave no answer", PATIENCE).await.unwrap();
    let action = proxied.world.submit(Submission::raw()).await.unwrap();
    proxied.proxy.pass();
    proxied.assert_succeeds_once(&action).await;
}

#[tokio::test]
async fn a_result_in_hand_outlasts_a_connection_that_leads_nowhere() {
    let proxied = Proxied::new().await;
    let action = proxied.world.submit(Submission::raw()).await.unwrap();
    let replica = proxied.start();
    proxied.server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();
    proxied.proxy.blackhole();
    replica.wait_log("the write is tried again", PATIENCE).await.unwrap();
    assert_eq!(proxied.world.standing(&action).await.unwrap().phase, "working");
    proxied.proxy.pass();
    proxied.assert_succeeds_once(&action).await;
}

/// A lease whose answer was lost with its connection would have to be waited for. Not a row in
/// `calling`: its replica lives, and its call with it.
const LOST_LEASES_LAPSE: &str = "update david.mcp_action_tasks set due_at = now()
      where phase not in ('calling', 'finalised') and leased_by is not null
        and updated_at < now() - interval '1 s'";

const KILL_CONNECTIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'david-tasks'";

#[tokio::test]
async fn a_database_that_kills_its_connections_again_and_again_is_worked_with() {
    let world = World::new().await.unwrap();
    let mut actions = Vec::new();
    for number in 0..40_u32 {
        let submission =
            Submission::of(if number % 2 == 0 { "sync" } else { "work" }, json!({ "seconds": 0.1 }));
        actions.push(world.submit(submission).await.unwrap());
    }
    let replica = world.replica(REPLICA).start().unwrap();
    let until_ended = async |wanted: usize| {
        eventually(PATIENCE, &format!("{wanted} Actions have ended"), async || {
            world.execute(LOST_LEASES_LAPSE).await.unwrap();
            let ended = world.ended().await.unwrap();
            if ended >= wanted { Ok(()) } else { Err(format!("{ended} have\n{}", replica.logs())) }
        })
        .await
        .unwrap();
    };
    let mut killed = 0;
    for wanted in [1, 10, 20, 30] {
        until_ended(wanted).await;
        killed += world.execute(KILL_CONNECTIONS).await.unwrap();
    }
    assert!(killed >= 4, "only {killed} connections were there to kill");
    until_ended(actions.len()).await;
    for action in &actions {
        let standing = world.standing(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}\n{}", replica.logs());
        assert_eq!((standing.outputs, world.ledger().calls_with_key(&action.id)), (1, 1));
    }
}

#[tokio::test]
async fn a_call_is_not_sent_when_its_begin_took_the_time_that_its_answer_needs() {
    let proxied = Proxied::new().await;
    let world = &proxied.world;
    world.execute("update david.mcp_server_registrations set timeout_seconds = 2").await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let mut other = PgConnection::connect(&world.db.url).await.unwrap();
    sqlx::raw_sql("begin; select from david.runs for update").execute(&mut other).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    eventually(PATIENCE, "the begin of the call has waited for most of its time", async || {
        let query = "select exists (select from pg_stat_activity
                                     where datname = current_database() and wait_event_type = 'Lock'
                                       and clock_timestamp() - query_start > interval '1500 milliseconds')";
        let waits: bool = sqlx::query_scalar(query).fetch_one(&world.db.pool).await.unwrap();
        if waits { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
    // An answer takes longer than what is left.
    proxied.server.on("tools/call", Reply::Delay(Duration::from_secs(1), Box::new(Reply::Default)));
    sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    proxied.assert_succeeds_once(&action).await;
}
