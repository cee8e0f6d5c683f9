//! Questions of every kind and number, and who may answer them until when.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::{Action, RAW, Submission, World, raw};
use david_testkit::{RawServer, Reply, eventually};
use serde_json::{Value, json};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

/// Shorter than the 15 s after which a row that waits for input would be looked at anyway.
const WOKEN: Duration = Duration::from_secs(10);

fn accept(answer: &str) -> Value {
    json!({ "action": "accept", "content": { "answer": answer } })
}

/// A task of the raw server that asks for all of these.
fn asks_for(requests: &Value) -> Reply {
    let Reply::Result(mut task) = raw::asks("q", "Why?") else { panic!("a question is a result") };
    task["inputRequests"] = requests.clone();
    Reply::Result(task)
}

async fn answer(world: &World, action: &Action, key: &str, response: &Value) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select david.answer_input($1, $2, $3::json)")
        .bind(&action.id)
        .bind(key)
        .bind(response.to_string())
        .fetch_one(&world.db.pool)
        .await
}

/// Keys and states in the view, in order.
async fn waiting(world: &World, action: &Action) -> Vec<(String, String)> {
    sqlx::query_as("select key, state from david.v_input_required where action_id = $1 order by key")
        .bind(&action.id)
        .fetch_all(&world.db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn of_two_questions_each_answer_goes_out_when_it_is_there_and_the_other_stays_asked() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/update", Reply::Result(json!({ "resultType": "complete" })));
    server.on("tasks/get", asks_for(&json!({ "a": raw::form("One?"), "b": raw::form("Two?") })));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    let pending = |key: &str| (key.to_owned(), "pending".to_owned());
    assert_eq!(waiting(&world, &action).await, [pending("a"), pending("b")]);

    assert!(answer(&world, &action, "b", &accept("two")).await.unwrap());
    let updates = server.wait_for("tasks/update", 1, WOKEN).await.unwrap();
    assert_eq!(updates[0].params["inputResponses"], json!({ "b": accept("two") }));
    server.on("tasks/get", asks_for(&json!({ "a": raw::form("One?") })));
    eventually(WOKEN, "only one question is left", async || {
        let left = waiting(&world, &action).await;
        if left == [pending("a")] { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await
    .unwrap();
    assert!(answer(&world, &action, "a", &accept("one")).await.unwrap());
    let updates = server.wait_for("tasks/update", 2, WOKEN).await.unwrap();
    assert_eq!(updates[1].params["inputResponses"], json!({ "a": accept("one") }));
    server.on("tasks/get", raw::completed(&raw::result("answered")));
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(waiting(&world, &action).await, []);
    assert_eq!(server.requests_of("tasks/update").len(), 2);
}

#[tokio::test]
async fn a_question_of_any_kind_is_shown_as_it_came_and_nothing_in_it_is_opened() {
    let trap = RawServer::start().await.unwrap();
    let url = json!({
        "method": "elicitation/create",
        "params": { "mode": "url", "message": "Please log in.", "url": trap.url(), "elicitationId": "e1" },
    });
    let unknown =
        json!({ "method": "soul/read", "params": { "depth": [1, { "deep": trap.url() }], "n": null } });
    let nested = json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": "?", "requestedSchema": {
            "type": "object", "properties": { "x": { "type": "object", "properties": { "y": { "enum": ["z"] } } } } } },
    });
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    for request in [url, unknown, nested] {
        server.on("tasks/get", asks_for(&json!({ "q": request })));
        let action = world.submit(Submission::raw()).await.unwrap();
        let replica = world.replica(REPLICA).start().unwrap();
        world.until_phase(&action, "input_required").await.unwrap();
        let shown: String =
            sqlx::query_scalar("select request::text from david.v_input_required where action_id = $1")
                .bind(&action.id)
                .fetch_one(&world.db.pool)
                .await
                .unwrap();
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), request);
        world.cancel(&action).await.unwrap();
        world.until_ended(&action).await.unwrap();
        replica.kill().unwrap();
    }
    assert_eq!(trap.requests().len(), 0);
}

#[tokio::test]
async fn keys_that_come_again_in_the_next_round_are_asked_again() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let asks = |state: &str| {
        Reply::Result(json!({
            "resultType": "input_required", "inputRequests": { "q": raw::form(state) }, "requestState": state,
        }))
    };
    server.push("tools/call", asks("first")).push("tools/call", asks("second"));
    server.on("tools/call", Reply::Result(raw::result("asked twice")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    for (round, state) in [(1, "first"), (2, "second")] {
        eventually(WOKEN, &format!("round {round} is asked"), async || {
            let asked = world.of::<i32>(&action, "t.input_round").await.unwrap();
            let phase = world.standing(&action).await.unwrap().phase;
            if (asked, phase.as_str()) == (round, "input_required") {
                Ok(())
            } else {
                Err(format!("{asked} {phase}"))
            }
        })
        .await
        .unwrap();
        assert_eq!(waiting(&world, &action).await, [("q".to_owned(), "pending".to_owned())]);
        assert!(answer(&world, &action, "q", &accept(state)).await.unwrap());
    }
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    let calls = server.requests_of("tools/call");
    let legs: Vec<_> = calls
        .iter()
        .map(|call| (&call.params["requestState"], &call.params["inputResponses"]["q"]))
        .collect();
    let (first, second) = (accept("first"), accept("second"));
    assert_eq!(legs, [(&Value::Null, &Value::Null), (&json!("first"), &first), (&json!("second"), &second)]);
}

#[tokio::test]
async fn a_tool_that_never_stops_asking_is_given_up() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on(
        "tools/call",
        Reply::Result(json!({ "resultType": "input_required", "inputRequests": { "q": raw::form("And?") } })),
    );
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = eventually(Duration::from_secs(40), "the Action has ended", async || {
        world.answer(&action, &accept("and")).await.unwrap();
        let standing = world.standing(&action).await.unwrap();
        if standing.phase == "finalised" { Ok(standing) } else { Err(format!("{standing:?}")) }
    })
    .await
    .unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("input_unsupported"), "{standing:?}");
    let calls = server.requests_of("tools/call").len();
    assert!(calls < 40, "{calls} calls");
}

#[tokio::test]
async fn a_registration_that_wants_no_questions_ends_what_asks_and_another_does_not() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::asks("q", "Why?"));
    let policy = sqlx::query("update david.mcp_server_registrations set input_policy = 'fail' where id = $1");
    policy.bind(RAW).execute(&world.db.pool).await.unwrap();
    let unwanted = world.submit(Submission::raw()).await.unwrap();
    let wanted = world.submit(Submission::of("ask", json!({}))).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&unwanted).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("input_unsupported"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/cancel").len(), 1);
    world.until_phase(&wanted, "input_required").await.unwrap();
}

#[tokio::test]
async fn an_answer_after_the_end_is_refused_and_sent_nowhere() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tasks/get", raw::asks("q", "Why?"));
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "input_required").await.unwrap();
    // The task is forgotten while somebody thinks about the answer.
    server.on("tasks/get", Reply::error(-32602, "unknown task"));
    world.let_leases_lapse().await.unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("task_missing"), "{standing:?}");
    let error = answer(&world, &action, "q", &accept("late")).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("DT004"), "{error}");
    assert_eq!(server.requests_of("tasks/update").len(), 0);
}
