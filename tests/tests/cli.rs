//! The operator's commands, as processes against a real Postgres and with an operator's rights.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::said::{Said, sorted};
use david_e2e::{REGISTRATION, Submission, World, raw};
use david_testkit::{Replica, eventually};
use serde_json::Value;

const DAVID_TASKS: &str = env!("CARGO_BIN_EXE_replica");
const PATIENCE: Duration = Duration::from_secs(30);

async fn run_as(world: &World, role: &str, args: &[&str]) -> Said {
    let url = match role {
        // The test's own superuser.
        "none" => world.db.url.clone(),
        role => format!("{}?options=-c%20role%3D{role}", world.db.url),
    };
    run_at(&url, args).await
}

async fn run_at(url: &str, args: &[&str]) -> Said {
    Said::by(DAVID_TASKS, url, args).await.unwrap()
}

async fn run(world: &World, args: &[&str]) -> Said {
    run_as(world, "david_operator", args).await
}

/// Makes what is due long overdue.
async fn age(world: &World) {
    world
        .execute("update david.mcp_action_tasks set due_at = now() - interval '10 minutes' where phase <> 'finalised'")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stuck_action_is_found_by_status_understood_by_show_resumed_and_proven_to_end() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    let paused =
        run(&world, &["pause", REGISTRATION, "--reason", "it sends nonsense", "--by", "alice"]).await;
    assert_eq!(paused.code, 0, "{paused:?}");
    let _replica = world.replica(DAVID_TASKS).start().unwrap();
    age(&world).await;

    let status = run(&world, &["status"]).await;
    assert_eq!(status.code, 0, "{status:?}");
    for word in ["paused", &action.id, "it sends nonsense", &format!("david-tasks resume {REGISTRATION}")] {
        assert!(status.out.contains(word), "no {word:?} in {}", status.out);
    }
    let shown = run(&world, &["show", &action.id]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains("alice paused this server"), "{}", shown.out);
    assert!(shown.out.contains(&format!("david-tasks resume {REGISTRATION}")), "{}", shown.out);

    // What it says is what is typed.
    let resumed = run(&world, &["resume", REGISTRATION, "--reason", "it is repaired", "--by", "bob"]).await;
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!((standing.outcome.as_deref(), standing.outputs), (Some("succeeded"), 1), "{standing:?}");

    let shown = run(&world, &["show", &action.id, "--json"]).await.json();
    assert_eq!(shown["action"]["phase"], "finalised");
    assert_eq!(shown["action"]["outcome"], "succeeded");
    assert_eq!(shown["stuck"], Value::Null);
    assert_eq!(shown["next"], serde_json::json!([]));
    assert!(shown["reason"].as_str().unwrap().contains("the tool gave its result"), "{shown}");
    let events: Vec<_> =
        shown["timeline"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!(events, ["MCP_TASK_CREATED", "MCP_TASK_COMPLETED"]);
    let log: Vec<(String, String, String)> =
        sqlx::query_as("select function, acting_for, reason from david.mcp_operator_log order by id")
            .fetch_all(&world.db.pool)
            .await
            .unwrap();
    let words = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(
        log,
        [
            words("pause_registration", "alice", "it sends nonsense"),
            words("resume_registration", "bob", "it is repaired")
        ]
    );
}

#[tokio::test]
async fn an_action_that_goes_on_failing_is_retried_by_hand_when_its_server_is_back() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let address = server.address();
    drop(server);
    // A replica that tries, and then waits for a minute.
    let replica = world
        .replica(DAVID_TASKS)
        .env("DAVID_TASKS_RETRY_BASE", "1m")
        .env("DAVID_TASKS_RETRY_CAP", "1m")
        .start()
        .unwrap();
    eventually(PATIENCE, "the call has failed", async || {
        let shown = run(&world, &["show", &action.id, "--json"]).await.json();
        match shown["action"]["attempt"].as_i64() {
            Some(1..) => Ok(()),
            _ => Err(shown.to_string()),
        }
    })
    .await
    .unwrap();
    let shown = run(&world, &["show", &action.id]).await;
    assert!(
        shown.out.contains("The last try failed") && shown.out.contains("cannot be reached"),
        "{}",
        shown.out
    );

    let server = david_testkit::RawServer::start_on(address).await.unwrap();
    server.on("tasks/get", raw::completed(&raw::result("done")));
    let retried = run(&world, &["retry", &action.id, "--json"]).await;
    assert_eq!((retried.code, &retried.json()["changed"]), (0, &Value::Bool(true)), "{retried:?}");
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}; {}", replica.logs());
    assert!(standing.events.contains(&"MCP_TASK_RECOVERED".to_owned()), "{standing:?}");
}

#[tokio::test]
async fn a_cancel_ends_one_run_and_is_not_made_for_the_neighbours_of_an_action() {
    let world = World::new().await.unwrap();
    let first = world.submit(Submission::work(0.0)).await.unwrap();
    let second = david_e2e::Action { id: "act_second".to_owned(), run: first.run.clone() };
    world.submit_to(&second, Submission::work(0.0)).await.unwrap();

    let refused = run(&world, &["cancel", &first.id]).await;
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains(&format!("david-tasks cancel --run {}", first.run)), "{refused:?}");
    assert_eq!(world.standing(&first).await.unwrap().phase, "queued");

    let failed = run(&world, &["fail", &second.id, "--reason", "not this one"]).await;
    assert_eq!(failed.code, 0, "{failed:?}");
    let cancelled = run(&world, &["cancel", &first.id, "--json"]).await;
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    assert_eq!(
        (&cancelled.json()["run_id"], &cancelled.json()["changed"]),
        (&Value::from(first.run.as_str()), &true.into())
    );
    let standing = world.standing(&first).await.unwrap();
    assert_eq!((standing.phase.as_str(), standing.outcome.as_deref()), ("finalised", Some("run_cancelled")));
    assert_eq!(world.standing(&second).await.unwrap().outcome.as_deref(), Some("quarantined"));
    for again in [vec!["cancel", "--run", &first.run, "--json"], vec!["cancel", &first.id, "--json"]] {
        let again = run(&world, &again).await;
        assert_eq!((again.code, &again.json()["changed"]), (0, &false.into()), "{again:?}");
    }
}

#[tokio::test]
async fn a_cancel_of_an_action_that_has_ended_does_not_end_the_rest_of_its_run() {
    let world = World::new().await.unwrap();
    let ended = world.submit(Submission::work(0.0)).await.unwrap();
    run(&world, &["fail", &ended.id, "--reason", "enough"]).await;
    let refused = run(&world, &["cancel", &ended.id]).await;
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains(&format!("david-tasks cancel --run {}", ended.run)), "{refused:?}");
    let cancelled: bool = sqlx::query_scalar("select cancelled_at is not null from david.runs where id = $1")
        .bind(&ended.run)
        .fetch_one(&world.db.pool)
        .await
        .unwrap();
    assert!(!cancelled, "the Run goes on");
}

#[tokio::test]
async fn every_refusal_has_its_exit_code_and_says_what_to_do() {
    let world = World::new().await.unwrap();
    let ended = world.submit(Submission::work(0.0)).await.unwrap();
    run(&world, &["fail", &ended.id, "--reason", "enough"]).await;
    let calling = world.submit(Submission::raw()).await.unwrap();
    world
        .execute(
            "update david.mcp_action_tasks set phase = 'calling', call_fence = fence, due_at = now() + interval '1 minute'
              where phase = 'queued'",
        )
        .await
        .unwrap();
    let nobody = "00000000-0000-4000-8000-000000000000";
    let because = ["--reason", "a test"];
    let with = |args: &[&'static str], more: &[&'static str]| [args, more].concat();
    for (args, code, kind) in [
        (vec!["show", "act_nowhere"], 5, "not_found"),
        (vec!["cancel", "act_nowhere"], 5, "not_found"),
        (vec!["cancel", "--run", "run_nowhere"], 5, "not_found"),
        (vec!["retry", "act_nowhere"], 5, "not_found"),
        (with(&["fail", "act_nowhere"], &because), 5, "not_found"),
        (with(&["give-up", "act_nowhere"], &because), 5, "not_found"),
        (with(&["pause", "reg_nowhere"], &because), 5, "not_found"),
        (vec!["resume", "reg_nowhere"], 5, "not_found"),
        (vec!["retry", &ended.id], 6, "too_late"),
        (vec!["retry", &calling.id], 6, "not_now"),
        (vec!["give-up", &calling.id, "--reason", "a test"], 6, "senseless"),
    ] {
        let said = run(&world, &args).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert!(
            said.err.lines().count() >= 2 && !said.err.contains("david.fail_action"),
            "{args:?}: {said:?}"
        );
        let said = run(&world, &[&args[..], &["--json"]].concat()).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert_eq!(said.keys("/error"), sorted("kind message what_to_do"), "{args:?}");
        assert_eq!(said.json()["error"]["kind"], kind, "{args:?}");
    }
    // Of a replica nothing is known for certain; that it had nothing is told by the code.
    assert_eq!(run(&world, &["release", nobody]).await.code, 5);
    // Wrong usage never reaches the database.
    for args in [
        vec!["cancel"],
        vec!["cancel", "act_1", "--run", "run_1"],
        vec!["fail", "act_1"],
        vec!["pause", "reg_1", "--reason", " "],
        vec!["release", "no-uuid"],
        vec!["prune"],
        vec!["prune", "--older-than", "soon"],
        vec!["watch", "--interval", "1ms"],
        vec!["man", "nonsense"],
    ] {
        let said = run_at("postgres://nobody@127.0.0.1:1/nowhere", &args).await;
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
    }
    // A role that may look may not steer, and an operator reads no result.
    let viewer = run_as(&world, "david_viewer", &["retry", &ended.id]).await;
    assert_eq!(viewer.code, 9, "{viewer:?}");
    let result = run(&world, &["show", &ended.id, "--result"]).await;
    assert_eq!(result.code, 9, "{result:?}");
    assert!(result.out.contains("TIMELINE") && result.err.contains("david_core"), "{result:?}");
    let unreachable = run_at("postgres://nobody@127.0.0.1:1/nowhere", &["status", "--json"]).await;
    assert_eq!((unreachable.code, &unreachable.json()["error"]["kind"]), (1, &"failed".into()));
}

#[tokio::test]
async fn a_viewer_sees_the_status_and_an_action_but_not_what_servers_said() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    world
        .execute("update david.mcp_action_tasks set attempt = 9, last_error = 'secret words'")
        .await
        .unwrap();
    age(&world).await;
    for args in [vec!["status"], vec!["show", &action.id]] {
        let seen = run_as(&world, "david_viewer", &args).await;
        assert_eq!(seen.code, 0, "{seen:?}");
        assert!(seen.out.contains(&action.id) && !seen.out.contains("secret words"), "{seen:?}");
    }
    let seen = run(&world, &["show", &action.id]).await;
    assert!(seen.out.contains("secret words"), "{seen:?}");
}

#[tokio::test]
async fn json_has_the_keys_that_are_promised() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    run(&world, &["pause", REGISTRATION, "--reason", "a test"]).await;
    age(&world).await;

    let status = run(&world, &["status", "--json"]).await;
    let keys = "at backlog due_lag replicas servers stuck cancelling input_required outcomes next";
    assert_eq!(status.keys(""), sorted(keys));
    let keys = "registration_id registration_name phase tasks due oldest_due_at estimated";
    assert_eq!(status.keys("/backlog/0"), sorted(keys));
    let keys = "registration_id registration_name due p50_seconds p99_seconds oldest_seconds estimated";
    assert_eq!(status.keys("/due_lag/0"), sorted(keys));
    let stuck = "action_id run_id registration_id registration_name phase reason explanation what_to_do since due_at \
                 attempt lapses execution_deadline last_error";
    assert_eq!(status.keys("/stuck/0"), sorted(stuck));
    let server = "registration_id registration_name enabled breaker open_until trips paused_at paused_by paused_reason \
                  last_success_at last_failure_at last_error";
    assert_eq!(status.keys("/servers/0"), sorted(server));
    assert_eq!(status.keys("/next/0"), sorted("why command"));

    let shown = run_as(&world, "none", &["show", &action.id, "--json", "--result"]).await;
    assert_eq!(shown.keys(""), sorted("at action stuck server questions timeline reason next result"));
    let keys = "action_id run_id registration_id registration_name tool_name status phase outcome due_at leased_by fence \
                attempt lapses polls last_polled_at remote_task remote_status remote_expires_at execution_deadline \
                created_at updated_at finalised_at last_error";
    assert_eq!(shown.keys("/action"), sorted(keys));

    run(&world, &["fail", &action.id, "--reason", "a test"]).await;
    let shown = run_as(&world, "none", &["show", &action.id, "--json", "--result"]).await;
    assert_eq!(shown.json()["result"]["outcome"], "quarantined");
    let keys =
        "at event transition phase outcome fence replica run_id registration_id tool_name position detail";
    assert_eq!(shown.keys("/timeline/0"), sorted(keys));
    let outcome = run(&world, &["status", "--json"]).await;
    assert_eq!(outcome.keys("/outcomes/0"), sorted("outcome last_hour last_day estimated"));
    let resumed = run(&world, &["resume", REGISTRATION, "--json"]).await;
    assert_eq!(resumed.keys(""), sorted("registration_id changed message"));
    let pruned = run(&world, &["prune", "--older-than", "30d", "--json"]).await;
    assert_eq!(pruned.keys(""), sorted("tasks outputs events batches complete"));
    let checked = run(&world, &["migrate", "--check", "--json"]).await;
    assert_eq!((checked.code, checked.keys("")), (0, sorted("pending migrations")));
    assert_eq!(checked.keys("/migrations/0"), sorted("version name state"));
}

#[tokio::test]
async fn a_result_is_shown_as_it_was_stored_and_nothing_in_it_reaches_the_terminal() {
    let world = World::new().await.unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    run(&world, &["fail", &action.id, "--reason", "\u{1b}[2Jgone"]).await;
    world
        .execute("update david.tool_outputs set envelope = '{\"n\": 1e400, \"text\": \"\u{9b}2J\\ud800\", \"zero\": \"\\u0000\"}'")
        .await
        .unwrap();
    let shown = run_as(&world, "none", &["show", &action.id, "--result"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.out.contains(r#"{"n": 1e400, "text": "\u009b2J\ud800", "zero": "\u0000"}"#),
        "{}",
        shown.out
    );
    assert!(!shown.out.chars().any(|c| c.is_control() && c != '\n'), "{:?}", shown.out);
}

#[tokio::test]
async fn watch_prints_each_change_once_and_ends_on_sigint_with_0() {
    let world = World::new().await.unwrap();
    let watching = Replica::command(DAVID_TASKS, &world.db.url)
        .arg("watch")
        .arg("--json")
        .arg("--interval")
        .arg("100ms")
        .start()
        .unwrap();
    let action = world.submit(Submission::work(0.0)).await.unwrap();
    watching.wait_log("\"kind\":\"backlog\"", PATIENCE).await.unwrap();
    run(&world, &["pause", REGISTRATION, "--reason", "a test"]).await;
    watching.wait_log("\"is\":\"paused\"", PATIENCE).await.unwrap();
    run(&world, &["fail", &action.id, "--reason", "a test"]).await;
    watching.wait_log("quarantined", PATIENCE).await.unwrap();
    world.execute("delete from david.mcp_registration_health").await.unwrap();
    watching.wait_log("\"was\":\"paused\"", PATIENCE).await.unwrap();
    watching.interrupt().unwrap();
    assert_eq!(watching.wait_exit(PATIENCE).await.unwrap().code(), Some(0), "{}", watching.logs());
    let logs = watching.logs();
    let lines: Vec<Value> = logs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let keys: Vec<_> = line.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, sorted("at kind subject was is"));
    }
    let paused = lines.iter().filter(|line| line["is"] == "paused" && line["kind"] == "server").count();
    assert_eq!(paused, 1, "a change is told once: {lines:?}");
}

#[tokio::test]
async fn retention_deletes_in_batches_what_is_old_enough_and_says_so() {
    let world = World::new().await.unwrap();
    for _ in 0..5 {
        let action = world.submit(Submission::work(0.0)).await.unwrap();
        run(&world, &["fail", &action.id, "--reason", "a test"]).await;
    }
    world
        .execute("update david.mcp_action_tasks set finalised_at = now() - interval '40 days'")
        .await
        .unwrap();
    let bounded =
        run(&world, &["prune", "--older-than", "30d", "--batch", "2", "--max-batches", "1", "--json"]).await;
    assert_eq!(
        (&bounded.json()["tasks"], &bounded.json()["complete"]),
        (&2.into(), &false.into()),
        "{bounded:?}"
    );
    let kept = run(&world, &["prune", "--older-than", "60d", "--json"]).await;
    assert_eq!((&kept.json()["tasks"], &kept.json()["complete"]), (&0.into(), &true.into()), "{kept:?}");
    let rest = run(&world, &["prune", "--older-than", "30d", "--batch", "2"]).await;
    assert!(rest.out.contains("Deleted 3 tasks") && rest.out.contains("nothing is left"), "{rest:?}");
}

#[tokio::test]
async fn the_leases_of_a_replica_that_hangs_are_released_by_its_name_in_the_status() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let hung = world.replica(DAVID_TASKS).env("DAVID_TASKS_LEASE_TERM", "10m").start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    let replica = eventually(PATIENCE, "the lease is shown", async || {
        let status = run(&world, &["status", "--json"]).await.json();
        status["replicas"][0]["replica"].as_str().map(str::to_owned).ok_or(status.to_string())
    })
    .await
    .unwrap();
    hung.pause().unwrap();
    let released = run(&world, &["release", &replica, "--reason", "it hangs"]).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert!(released.out.contains("1 leases"), "{released:?}");
    server.on("tasks/get", raw::completed(&raw::result("done")));
    let _other = world.replica(DAVID_TASKS).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
}

#[tokio::test]
async fn migrate_check_tells_by_its_exit_code_whether_anything_is_pending() {
    let empty = david_testkit::TestDb::empty().await.unwrap();
    let pending = run_at(&empty.url, &["migrate", "--check"]).await;
    assert_eq!(pending.code, 8, "{pending:?}");
    assert!(pending.out.contains("durable tasks") && pending.out.contains("pending"), "{pending:?}");
    let status = run_at(&empty.url, &["status"]).await;
    assert_eq!(status.code, 8, "{status:?}");
    assert!(status.err.contains("david-tasks migrate"), "{status:?}");
    let migrated = run_at(&empty.url, &["migrate"]).await;
    assert_eq!(migrated.code, 0, "{migrated:?}");
    let checked = run_at(&empty.url, &["migrate", "--check"]).await;
    assert_eq!((checked.code, checked.out.as_str()), (0, "nothing is pending\n"), "{checked:?}");
}

#[tokio::test]
async fn every_command_has_a_manual_page_and_is_completed_by_every_shell() {
    let help = run_at("", &["--help"]).await;
    for code in ["0  done", "5  there is no such", "9  the role may not"] {
        assert!(help.out.contains(code), "{}", help.out);
    }
    let page = run_at("", &["man"]).await;
    assert!(page.code == 0 && page.out.contains(".TH david-tasks 1"), "{page:?}");
    let page = run_at("", &["man", "status"]).await;
    assert!(page.code == 0 && page.out.contains(".TH david-tasks-status 1"), "{page:?}");
    let dir = tempfile::tempdir().unwrap();
    let written = run_at("", &["man", "--dir", dir.path().to_str().unwrap()]).await;
    assert_eq!(written.code, 0, "{written:?}");
    let commands = help.out.split("Commands:").nth(1).and_then(|rest| rest.split("Options:").next()).unwrap();
    let mut count = 0;
    for command in
        commands.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '))
    {
        let name = command.split_whitespace().next().unwrap();
        if name != "help" {
            count += 1;
            assert!(dir.path().join(format!("david-tasks-{name}.1")).exists(), "{name} has no page");
        }
    }
    assert!(count >= 16, "only {count} commands; is the search broken?");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run_at("", &["completions", shell]).await;
        assert!(script.code == 0 && script.out.contains("give-up"), "{shell}: {script:?}");
    }
}

/// `script` of util-linux gives it a terminal.
#[tokio::test]
async fn on_a_terminal_watch_draws_the_status_again_and_ends_on_ctrl_c_with_0() {
    let world = World::new().await.unwrap();
    let watching = Replica::command("/usr/bin/script", &world.db.url)
        .arg("-qec")
        // The child of `script` is to be the program itself, whichever shell runs it.
        .arg(format!("exec {DAVID_TASKS} watch --interval 100ms"))
        .arg("/dev/null")
        .start()
        .unwrap();
    eventually(PATIENCE, "it is drawn three times", async || {
        let logs = watching.logs();
        if logs.matches("\u{1b}[2J\u{1b}[H").count() >= 3 && logs.contains("WAITING") {
            Ok(())
        } else {
            Err(logs)
        }
    })
    .await
    .unwrap();
    world.submit(Submission::work(0.0)).await.unwrap();
    watching.wait_log(REGISTRATION, PATIENCE).await.unwrap();
    // Its child is what the terminal's Ctrl-C would reach.
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", watching.pid())).unwrap();
    let child = children.split_whitespace().next().unwrap().to_owned();
    let sent = tokio::process::Command::new("kill").args(["-INT", &child]).status().await.unwrap();
    assert!(sent.success());
    assert_eq!(watching.wait_exit(PATIENCE).await.unwrap().code(), Some(0), "{}", watching.logs());
}

#[tokio::test]
async fn watch_outlasts_an_outage_of_the_database_and_tells_it_once() {
    let world = World::new().await.unwrap();
    let proxy = david_testkit::PgProxy::start(david_testkit::Postgres::shared().unwrap().addr().unwrap())
        .await
        .unwrap();
    let url = proxy.url(&world.db.url).unwrap();
    let watching =
        Replica::command(DAVID_TASKS, &url).arg("watch").arg("--interval").arg("100ms").start().unwrap();
    world.submit(Submission::work(0.0)).await.unwrap();
    watching.wait_log("backlog reg_sample queued: - -> 1", PATIENCE).await.unwrap();
    proxy.refuse();
    watching.wait_log("trying again", PATIENCE).await.unwrap();
    proxy.pass();
    world.submit(Submission::work(0.0)).await.unwrap();
    watching.wait_log("backlog reg_sample queued: 1 -> 2", PATIENCE).await.unwrap();
    assert_eq!(watching.logs().matches("trying again").count(), 1, "{}", watching.logs());
}
