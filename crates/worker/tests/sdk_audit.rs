//! `david-tasks sdk-audit`, as run by a person or a script: the lines, the exit code, and that a server
//! which breaks a contract fails that contract's gate.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use david_sample::{Options, Server};
use david_testkit::{RawServer, Reply};
use serde_json::{Value, json};

const GATES: [&str; 7] = [
    "SDK_TASKS_EXTENSION",
    "TASK_ID_CONTRACT",
    "TASK_STATUS_ENUM",
    "RESULT_RETRIEVAL_CONTRACT",
    "CANCEL_CONTRACT",
    "TTL_CONTRACT",
    "INPUT_REQUIRED_CONTINUATION_CONTRACT",
];

const PROVEN: &str = "SDK_TASKS_EXTENSION=PASS
TASK_ID_CONTRACT=KNOWN
TASK_STATUS_ENUM=KNOWN
RESULT_RETRIEVAL_CONTRACT=KNOWN
CANCEL_CONTRACT=KNOWN
TTL_CONTRACT=KNOWN
INPUT_REQUIRED_CONTINUATION_CONTRACT=KNOWN
";

/// What `sdk-audit` exits with when not every gate is passed.
const NOT_PASSED: Option<i32> = Some(4);

async fn audit(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_david-tasks"));
    command.arg("sdk-audit").args(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Audits a server that lists the sample's tools, and returns the word on each gate.
async fn words(server: &RawServer) -> Vec<(String, String)> {
    let names = ["work", "fail", "tool_error", "ask", "cancelled", "short_ttl", "ask_first"];
    let tools: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
    server.on(
        "tools/list",
        Reply::Result(json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
        })),
    );
    let output = audit(&[&server.url()]).await;
    assert_eq!(output.status.code(), NOT_PASSED, "{}", stderr(&output));
    let lines = stdout(&output);
    let words: Vec<_> = lines
        .lines()
        .map(|line| line.split_once('=').map(|(gate, word)| (gate.to_owned(), word.to_owned())).unwrap())
        .collect();
    assert_eq!(words.iter().map(|(gate, _)| gate.as_str()).collect::<Vec<_>>(), GATES, "{lines}");
    words
}

fn word<'a>(words: &'a [(String, String)], gate: &str) -> &'a str {
    words.iter().find(|(name, _)| name == gate).map(|(_, word)| word.as_str()).unwrap()
}

fn task(request: &david_testkit::Recorded, changes: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": request.params["taskId"], "status": "working", "ttlMs": 1000,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
    });
    for (name, value) in changes.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

#[tokio::test]
async fn the_sdks_own_server_passes_every_gate() {
    let started = Instant::now();
    let output = audit(&[]).await;
    assert_eq!(stdout(&output), PROVEN, "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    for gate in GATES {
        assert!(stderr(&output).contains(&format!("# {gate}: ")), "no evidence of {gate}");
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_server_that_runs_already_is_audited_at_its_url() {
    let server = Server::start(Options::default()).await.unwrap();
    let output = audit(&[&server.url()]).await;
    assert_eq!(stdout(&output), PROVEN, "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test]
async fn the_json_says_the_same_with_the_evidence() {
    let output = audit(&["--json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let gates = json["gates"].as_array().unwrap();
    let lines: String = gates
        .iter()
        .map(|gate| format!("{}={}\n", gate["gate"].as_str().unwrap(), gate["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(lines, PROVEN);
    assert!(
        gates.iter().all(|gate| gate["evidence"].as_str().is_some_and(|text| !text.is_empty())),
        "{json}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_clear_error_and_no_verdict() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = audit(&[&format!("http://{closed}/mcp")]).await;
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("cannot be audited"), "{}", stderr(&output));
}

#[tokio::test]
async fn a_server_without_the_samples_tools_is_unproven_and_none_of_its_own_is_called() {
    let server = RawServer::start().await.unwrap();
    let tools = json!([{ "name": "drop_all_tables", "inputSchema": { "type": "object" } }]);
    server.on(
        "tools/list",
        Reply::Result(
            json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }),
        ),
    );
    let output = audit(&[&server.url()]).await;
    let expected: String = GATES.iter().map(|gate| format!("{gate}=UNPROVEN\n")).collect();
    assert_eq!((output.status.code(), stdout(&output)), (NOT_PASSED, expected));
    assert!(server.requests_of("tools/call").is_empty());
}

#[tokio::test]
async fn a_server_of_the_older_protocol_fails_the_extension() {
    let server = RawServer::start().await.unwrap();
    server.on("server/discover", Reply::error(-32601, "Method not found")).on(
        "initialize",
        Reply::Result(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        })),
    );
    let words = words(&server).await;
    assert_eq!(word(&words, "SDK_TASKS_EXTENSION"), "FAIL");
}

#[tokio::test]
async fn replies_about_another_task_fail_every_gate_that_polls() {
    let server = RawServer::start().await.unwrap();
    server
        .on("tasks/get", Reply::with(|request| Reply::Result(task(request, json!({ "taskId": "another" })))));
    let words = words(&server).await;
    assert!(words.iter().all(|(_, word)| word == "FAIL"), "{words:?}");
}

#[tokio::test]
async fn one_id_for_every_task_fails_the_id_contract() {
    let server = RawServer::start().await.unwrap();
    server.on(
        "tasks/get",
        Reply::with(|request| Reply::Result(task(request, json!({ "status": "cancelled" })))),
    );
    assert_eq!(word(&words(&server).await, "TASK_ID_CONTRACT"), "FAIL");
}

#[tokio::test]
async fn completed_without_a_result_fails_the_result_contract() {
    let server = RawServer::start().await.unwrap();
    server.on(
        "tasks/get",
        Reply::with(|request| Reply::Result(task(request, json!({ "status": "completed" })))),
    );
    let words = words(&server).await;
    assert_eq!(word(&words, "RESULT_RETRIEVAL_CONTRACT"), "FAIL");
    assert_eq!(word(&words, "TASK_STATUS_ENUM"), "FAIL");
}

#[tokio::test]
async fn an_unknown_status_fails_the_status_enum() {
    let server = RawServer::start().await.unwrap();
    server
        .on("tasks/get", Reply::with(|request| Reply::Result(task(request, json!({ "status": "paused" })))));
    assert_eq!(word(&words(&server).await, "TASK_STATUS_ENUM"), "FAIL");
}

#[tokio::test]
async fn a_cancel_that_is_refused_fails_the_cancel_contract() {
    let server = RawServer::start().await.unwrap();
    server.on("tasks/cancel", Reply::error(-32601, "Method not found"));
    // Whatever is asked about is over at once, so that no gate waits.
    server.on(
        "tasks/get",
        Reply::with(|request| Reply::Result(task(request, json!({ "status": "cancelled" })))),
    );
    let words = words(&server).await;
    assert_eq!(word(&words, "CANCEL_CONTRACT"), "FAIL");
}

#[tokio::test]
async fn a_task_that_is_forgotten_at_once_fails_the_ttl_contract() {
    let server = RawServer::start().await.unwrap();
    server.on("tasks/get", Reply::error(-32602, "unknown task"));
    let words = words(&server).await;
    assert_eq!(word(&words, "TTL_CONTRACT"), "FAIL");
    assert_eq!(word(&words, "SDK_TASKS_EXTENSION"), "FAIL");
}

#[tokio::test]
async fn a_server_that_never_answers_a_poll_is_given_up() {
    let server = RawServer::start().await.unwrap();
    server.on("tasks/get", Reply::Hang);
    let started = Instant::now();
    let words = words(&server).await;
    assert!(words.iter().all(|(_, word)| word == "FAIL" || word == "UNPROVEN"), "{words:?}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_url_with_a_password_is_refused_and_not_repeated() {
    let output = audit(&["http://user:hunter2@127.0.0.1:1/mcp"]).await;
    let words = format!("{}{}", stdout(&output), stderr(&output));
    assert!(!output.status.success() && words.contains("leave them out"), "{words}");
    assert!(!words.contains("hunter2"), "{words}");
}
