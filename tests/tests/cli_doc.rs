//! docs/cli.md: its examples are run, and what it lists is complete.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use david_e2e::World;
use david_e2e::said::Said;
use david_e2e::shown::matches;
use david_testkit::eventually;

const DAVID_TASKS: &str = env!("CARGO_BIN_EXE_replica");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
const REPLICA: &str = "<!-- a replica is started -->";

/// One command line, and what it prints.
struct Example {
    command: String,
    shown: String,
    replica_before: bool,
}

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut before = "";
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 0 {
            before = part;
            continue;
        }
        let Some(block) = part.strip_prefix("console\n") else { continue };
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    let replica_before = before.contains(REPLICA);
                    before = "";
                    examples.push(Example {
                        command: command.to_owned(),
                        shown: String::new(),
                        replica_before,
                    });
                }
                None => examples.last_mut().unwrap().shown.push_str(&format!("{line}\n")),
            }
        }
    }
    examples
}

/// A line of a shell in which `david-tasks` is the program under test.
async fn shell(url: &str, bin: &std::path::Path, line: &str) -> String {
    let mut bash = tokio::process::Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    bash.args(["-c", &format!("exec 2>&1\n{line}")]).env("DATABASE_URL", url).env("PATH", path);
    Said::of(bash).await.unwrap().out
}

#[tokio::test]
async fn every_example_in_docs_cli_md_prints_what_stands_there() {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let examples = examples(&text);
    assert!(examples.len() >= 20, "only {} examples; is the search broken?", examples.len());
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(DAVID_TASKS, bin.path().join("david-tasks")).unwrap();

    let world = World::new().await.unwrap();
    world.execute("delete from david.mcp_server_registrations").await.unwrap();
    let set_up = text.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let set_up = set_up.replace("http://127.0.0.1:8765/mcp", &world.server.url());
    sqlx::raw_sql(sqlx::AssertSqlSafe(set_up)).execute(&world.db.pool).await.unwrap();

    let url = format!("{}?options=-c%20role%3Ddavid_operator", world.db.url);
    let mut replica = None;
    for example in &examples {
        if example.replica_before {
            replica = Some(world.replica(DAVID_TASKS).start().unwrap());
        }
        if replica.is_some()
            && example.command.starts_with("david-tasks show act_report")
            && example.shown.contains("finalised")
        {
            // The replica needs a moment.
            eventually(Duration::from_secs(30), &example.command, async || {
                let printed = shell(&url, bin.path(), &example.command).await;
                if matches(&example.shown, &printed) { Ok(()) } else { Err(printed) }
            })
            .await
            .unwrap();
            continue;
        }
        let printed = shell(&url, bin.path(), &example.command).await;
        assert!(
            matches(&example.shown, &printed),
            "{} prints\n{printed}\nand not\n{}",
            example.command,
            example.shown
        );
    }
    assert!(replica.is_some(), "no example has a replica; is the search broken?");
}

#[tokio::test]
async fn every_command_has_a_chapter_and_every_check_of_doctor_is_listed() {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let help = Said::by(DAVID_TASKS, "", &["--help"]).await.unwrap().out;
    let commands = help.split("Commands:").nth(1).and_then(|rest| rest.split("Options:").next()).unwrap();
    for line in
        commands.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '))
    {
        let name = line.split_whitespace().next().unwrap();
        let chapter = text.lines().any(|line| {
            line.strip_prefix("## ").is_some_and(|title| title.split(" and ").any(|part| part == name))
        });
        assert!(chapter || ["worker", "sdk-audit", "help"].contains(&name), "{name} has no chapter");
    }
    // The exit codes of --help are those of the document.
    let codes = help.split("Exit codes:").nth(1).unwrap();
    for code in codes.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.len() == 1)
    {
        assert!(text.contains(&format!("| {code} | ")), "exit code {code} is not in the document");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/worker/src/operate/doctor");
    let mut checks = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let code = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let words =
            code.split('"').skip(1).step_by(2).filter(|word| {
                word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            });
        for word in words.filter(|word| {
            code.contains(&format!("Severity::Error, \"{word}\""))
                || code.contains(&format!("Severity::Warning, \"{word}\""))
        }) {
            checks += 1;
            assert!(text.contains(&format!("`{word}`")), "{word} is not listed");
        }
    }
    assert!(checks >= 15, "only {checks} checks; is the search broken?");
}
