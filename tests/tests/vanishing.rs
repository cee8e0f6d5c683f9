//! Core purges: an Action, its Run or its registration is deleted at every step of the path. The row
//! goes with its Action, nothing is written for it any more, what still runs remotely is told to stop
//! where somebody knows of it, and the replica goes on with its work.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, RAW, Submission, World, raw};
use david_testkit::{RawServer, Replica, Reply};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Waits to be called again.
    Queued,
    /// Its call is on the wire.
    Calling,
    /// A poll is on the wire.
    Polling,
    /// Waits for an answer.
    Asked,
    /// Its remote cancel is tried again and again.
    Cancelling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    Action,
    Run,
    Registration,
}

struct Scene {
    world: World,
    server: RawServer,
    replica: Replica,
    action: Action,
}

fn slow(reply: Reply) -> Reply {
    Reply::Delay(Duration::from_millis(600), Box::new(reply))
}

impl Scene {
    async fn at(step: Step) -> Self {
        let world = World::new().await.unwrap();
        let server = world.raw_server().await.unwrap();
        match step {
            Step::Queued => {
                let retry_after = vec![("retry-after".to_owned(), "1200".to_owned())];
                server.on("tools/call", Reply::Status(429, retry_after, String::new()));
            }
            Step::Calling => drop(server.push("tools/call", slow(Reply::Default))),
            Step::Polling => drop(server.push("tasks/get", slow(raw::working()))),
            Step::Asked => drop(server.on("tasks/get", raw::asks("q", "Why?"))),
            Step::Cancelling => drop(server.on("tasks/cancel", Reply::status(503))),
        }
        let action = world.submit(Submission::raw()).await.unwrap();
        let replica = world.replica(REPLICA).start().unwrap();
        match step {
            Step::Queued => {
                server.wait_for("tools/call", 1, PATIENCE).await.unwrap();
                world.until_phase(&action, "queued").await.unwrap();
            }
            Step::Calling => drop(server.wait_for("tools/call", 1, PATIENCE).await.unwrap()),
            Step::Polling => drop(server.wait_for("tasks/get", 1, PATIENCE).await.unwrap()),
            Step::Asked => drop(world.until_phase(&action, "input_required").await.unwrap()),
            Step::Cancelling => {
                world.until_phase(&action, "working").await.unwrap();
                world.cancel(&action).await.unwrap();
                server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
            }
        }
        Self { world, server, replica, action }
    }

    async fn delete(&self, gone: Gone) {
        let (statement, id) = match gone {
            Gone::Action => ("delete from david.actions where id = $1", self.action.id.as_str()),
            Gone::Run => ("delete from david.runs where id = $1", self.action.run.as_str()),
            Gone::Registration => ("delete from david.mcp_server_registrations where id = $1", RAW),
        };
        let deleted = sqlx::query(statement).bind(id).execute(&self.world.db.pool).await.unwrap();
        assert_eq!(deleted.rows_affected(), 1);
    }

    /// Rows that wait for something are looked at now. Not one in `calling`: its replica lives.
    async fn look_again(&self) {
        let due =
            "update david.mcp_action_tasks set due_at = now() where phase not in ('calling', 'finalised')";
        self.world.execute(due).await.unwrap();
    }

    /// The replica is as good as before.
    async fn assert_goes_on(&self) {
        let other = self.world.submit(Submission::work(0.0)).await.unwrap();
        let standing = self.world.until_ended(&other).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
        assert!(self.replica.exited().unwrap().is_none(), "{}", self.replica.logs());
        assert!(!self.replica.logs().contains("panicked"), "{}", self.replica.logs());
    }
}

async fn its_rows_are_gone(step: Step, gone: Gone) {
    let scene = Scene::at(step).await;
    scene.delete(gone).await;
    // Where a reply is under way, its task is known to this replica and to nobody else.
    if matches!(step, Step::Calling | Step::Polling) {
        let cancels = scene.server.wait_for("tasks/cancel", 1, PATIENCE).await.unwrap();
        assert_eq!(cancels[0].params["taskId"], RawServer::TASK_ID, "{step:?} {gone:?}");
    }
    scene.assert_goes_on().await;
    let calls = scene.server.requests_of("tools/call").len();
    assert_eq!(calls, 1, "{step:?} {gone:?}: called again");
    let written = scene.world.everything_written().await.unwrap();
    let left: Vec<&str> = written.lines().filter(|row| row.contains(&scene.action.id)).collect();
    // Only history is left, which has no foreign keys so that it can be.
    assert!(left.iter().all(|row| row.contains("MCP_TASK_")), "{step:?} {gone:?}: {left:#?}");
}

#[tokio::test]
async fn an_action_deleted_at_any_step_leaves_nothing_but_its_history() {
    for step in [Step::Queued, Step::Calling, Step::Polling, Step::Asked, Step::Cancelling] {
        its_rows_are_gone(step, Gone::Action).await;
    }
}

#[tokio::test]
async fn a_run_deleted_at_any_step_leaves_nothing_but_its_history() {
    for step in [Step::Queued, Step::Calling, Step::Polling, Step::Asked, Step::Cancelling] {
        its_rows_are_gone(step, Gone::Run).await;
    }
}

#[tokio::test]
async fn a_registration_deleted_at_any_step_ends_its_actions_without_another_request() {
    for step in [Step::Queued, Step::Calling, Step::Polling, Step::Asked, Step::Cancelling] {
        let scene = Scene::at(step).await;
        scene.delete(Gone::Registration).await;
        let requests = scene.server.requests().len();
        if step == Step::Calling {
            // A reply to a request that was authorised when it was sent counts.
            scene.world.until_phase(&scene.action, "working").await.unwrap();
        }
        scene.look_again().await;
        let standing = scene.world.until_ended(&scene.action).await.unwrap();
        let outcome = if step == Step::Cancelling { "run_cancelled" } else { "registration_missing" };
        assert_eq!(standing.outcome.as_deref(), Some(outcome), "{step:?}: {standing:?}");
        assert_eq!(standing.outputs, i64::from(step != Step::Cancelling), "{step:?}: {standing:?}");
        scene.assert_goes_on().await;
        assert_eq!(scene.server.requests().len(), requests, "{step:?}: traffic without a registration");
    }
}
