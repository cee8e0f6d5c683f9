//! Bearer credentials from a directory and from a broker, through real replicas.

use std::time::Duration;

use david_e2e::{CREDENTIAL, Submission, World, raw};
use david_testkit::replica::ReplicaCommand;
use david_testkit::{RawServer, Reply};
use serde_json::json;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(20);

/// Whoever shows one of these tokens is answered with `reply`.
fn admit(server: &RawServer, method: &str, tokens: &[&str], reply: Reply) {
    let headers: Vec<String> = tokens.iter().map(|token| format!("Bearer {token}")).collect();
    server.on(
        method,
        Reply::with(move |request| match request.header("authorization") {
            Some(shown) if headers.iter().any(|header| header == shown) => reply.clone(),
            _ => Reply::Status(
                401,
                vec![("www-authenticate".to_owned(), "Bearer error=\"invalid_token\"".to_owned())],
                format!("who is {:?}?", request.header("authorization")),
            ),
        }),
    );
}

fn with_files(world: &World, directory: &tempfile::TempDir) -> ReplicaCommand {
    world.replica(REPLICA).env("DAVID_TASKS_CREDENTIALS_DIR", directory.path())
}

#[tokio::test]
async fn a_token_that_is_rotated_in_mid_task_is_read_again_and_the_task_goes_on() {
    let world = World::new().await.unwrap();
    let server = world.raw_server_with_credential().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(CREDENTIAL), "old").unwrap();
    for method in ["server/discover", "tools/call"] {
        admit(&server, method, &["old"], Reply::Default);
    }
    admit(&server, "tasks/get", &["old"], raw::working());
    let action = world.submit(Submission::raw()).await.unwrap();
    // As patient as a replica is by default; five refusals in a row would be the end.
    let replica = with_files(&world, &directory).env("DAVID_TASKS_RETRY_BASE", "1s");
    let _replica = replica.env("DAVID_TASKS_RETRY_CAP", "2s").start().unwrap();
    server.wait_for("tasks/get", 1, PATIENCE).await.unwrap();

    // The server first, as happens when a token expires.
    admit(&server, "tasks/get", &["new"], raw::completed(&raw::result("rotated")));
    let refused = server.requests_of("tasks/get").len() + 1;
    server.wait_for("tasks/get", refused, PATIENCE).await.unwrap();
    std::fs::write(directory.path().join(CREDENTIAL), "new\n").unwrap();

    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_token_that_expires_in_mid_task_is_replaced_by_the_broker_without_a_failure() {
    let world = World::new().await.unwrap();
    let server = world.raw_server_with_credential().await.unwrap();
    let broker = RawServer::start().await.unwrap();
    broker.on(
        "POST",
        Reply::with(|request| {
            let token = if request.params["refused"] == json!(true) { "second" } else { "first" };
            Reply::json_text(&json!({ "access_token": token, "expires_in": 3600 }).to_string())
        }),
    );
    for method in ["server/discover", "tools/call"] {
        admit(&server, method, &["first"], Reply::Default);
    }
    admit(&server, "tasks/get", &["second"], raw::completed(&raw::result("renewed")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_CREDENTIAL_BROKER", broker.url());
    let _replica = replica.start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_eq!(standing.last_error, None, "a refused poll that was mended is no failure");
    let asked: Vec<_> = broker.requests_of("POST").into_iter().map(|request| request.params).collect();
    let request = |refused| json!({ "credential_id": CREDENTIAL, "refused": refused });
    assert_eq!(asked, [request(false), request(true)]);
}

#[tokio::test]
async fn a_credential_that_is_not_to_be_had_ends_unauthorised_without_a_request() {
    let directory = tempfile::tempdir().unwrap();
    for (what, tries) in [("no source", 1), ("no file", 5)] {
        let world = World::new().await.unwrap();
        let server = world.raw_server_with_credential().await.unwrap();
        let action = world.submit(Submission::raw()).await.unwrap();
        let replica = match what {
            "no source" => world.replica(REPLICA),
            _ => with_files(&world, &directory),
        };
        let _replica = replica.start().unwrap();
        let standing = world.until_ended(&action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some("unauthorised"), "{what}: {standing:?}");
        let message = standing.envelope.unwrap()["error"]["message"].to_string();
        let words = if tries == 1 { "no source of credentials" } else { "not in the credentials directory" };
        assert!(message.contains(words), "{what}: {message}");
        assert_eq!(server.requests().len(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_task_outlives_a_broker_that_is_down_for_a_while() {
    let world = World::new().await.unwrap();
    let server = world.raw_server_with_credential().await.unwrap();
    let broker = RawServer::start().await.unwrap();
    broker.on("POST", Reply::status(503));
    for method in ["server/discover", "tools/call"] {
        admit(&server, method, &["token"], Reply::Default);
    }
    admit(&server, "tasks/get", &["token"], raw::completed(&raw::result("late")));
    let action = world.submit(Submission::raw()).await.unwrap();
    let replica = world.replica(REPLICA).env("DAVID_TASKS_CREDENTIAL_BROKER", broker.url());
    let _replica = replica.start().unwrap();
    // More often than a refused credential is tried.
    broker.wait_for("POST", 8, PATIENCE).await.unwrap();
    // It may be in the middle of another try; the server has heard of none.
    let phase = world.standing(&action).await.unwrap().phase;
    assert!(phase == "queued" || phase == "calling", "{phase}");
    assert_eq!(server.requests().len(), 0);
    broker.on("POST", Reply::json_text(r#"{"access_token": "token"}"#));
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
}

#[tokio::test]
async fn no_token_stands_in_anything_that_the_system_wrote() {
    const TOKENS: [&str; 3] = ["hunter2-of-file", "hunter2-of-broker", "hunter2-own"];
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(CREDENTIAL), TOKENS[0]).unwrap();
    let own = directory.path().join("own");
    std::fs::write(&own, TOKENS[2]).unwrap();
    let broker = RawServer::start().await.unwrap();
    broker.on("POST", Reply::json_text(&json!({ "access_token": TOKENS[1] }).to_string()));

    for admitted in [true, false] {
        for with_broker in [true, false] {
            let world = World::new().await.unwrap();
            let server = world.raw_server_with_credential().await.unwrap();
            for method in ["server/discover", "tools/call"] {
                admit(&server, method, &TOKENS, Reply::Default);
            }
            let polled: &[&str] = if admitted { &TOKENS } else { &[] };
            admit(&server, "tasks/get", polled, raw::completed(&raw::result("seen")));
            let action = world.submit(Submission::raw()).await.unwrap();
            let replica = if with_broker {
                let replica = world.replica(REPLICA).env("DAVID_TASKS_CREDENTIAL_BROKER", broker.url());
                replica.env("DAVID_TASKS_CREDENTIAL_BROKER_TOKEN_FILE", &own)
            } else {
                with_files(&world, &directory)
            };
            let replica = replica.env("DAVID_TASKS_LOG", "trace").start().unwrap();
            let standing = world.until_ended(&action).await.unwrap();
            let outcome = if admitted { "succeeded" } else { "unauthorised" };
            assert_eq!(standing.outcome.as_deref(), Some(outcome), "{standing:?}");
            replica.terminate().unwrap();
            replica.wait_exit(PATIENCE).await.unwrap();
            let written = world.everything_written().await.unwrap();
            assert!(written.contains(CREDENTIAL) && written.contains(&action.id), "{written}");
            assert!(!written.contains("hunter2"), "{written}");
            assert!(!replica.logs().contains("hunter2"), "{}", replica.logs());
            let shown = server.requests_of("tasks/get");
            assert!(shown[0].header("authorization").unwrap().contains("hunter2"), "nothing was tested");
        }
    }
    let shown = broker.requests_of("POST");
    assert!(shown.iter().all(|request| request.header("authorization") == Some("Bearer hunter2-own")));
}
