//! The documents name tests as proof; a name without a test proves nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const DOCUMENTS: [&str; 17] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/sdk-audit.md",
    "docs/failure-cases.md",
    "docs/exit-criteria.md",
    "docs/by-hand.md",
    "docs/cli.md",
    "docs/credentials.md",
    "docs/progress.md",
    "docs/views.md",
    "docs/operations.md",
    "docs/core-contract.md",
    "docs/envelopes/README.md",
    "docs/logging.md",
    "docs/metrics.md",
    "docs/runbook.md",
    "docs/traces.md",
];

#[test]
fn every_test_that_a_document_names_exists() {
    let mut sources = Vec::new();
    for folder in ["crates", "tests"] {
        rust_files(&Path::new(ROOT).join(folder), &mut sources);
    }
    let code: String = sources.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();

    let mut missing = BTreeSet::new();
    let mut named = 0;
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(Path::new(ROOT).join(document)).unwrap();
        for name in text.split('`').skip(1).step_by(2).filter(|word| is_sentence(word)) {
            named += 1;
            // The crash points' tests are written by a macro, as `name: "point"`.
            if !code.contains(&format!("fn {name}(")) && !code.contains(&format!("{name}: \"")) {
                missing.insert(format!("{document}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "named as proof, but there is no such test: {missing:#?}");
    assert!(named > 20, "only {named} tests are named; is the search broken?");
}

#[test]
fn every_case_names_a_test_that_exists() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/failure-cases.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| case "));
    let mut cases = 0;
    for row in rows {
        cases += 1;
        let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(columns.len(), 4, "a case has four columns: {row}");
        // That the test exists is checked with all others.
        assert!(columns[3].split('`').skip(1).step_by(2).any(is_sentence), "no test is named: {row}");
    }
    assert!(cases > 80, "only {cases} cases; is the search broken?");
}

#[test]
fn every_file_that_a_document_links_to_exists() {
    for document in DOCUMENTS {
        let path = Path::new(ROOT).join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("http") && !link.starts_with('#') {
                let target = path.with_file_name(link.split('#').next().unwrap());
                assert!(target.exists(), "{document} links to {link}, which is not there");
            }
        }
    }
}

/// A test's name is a sentence: at least five words. A metric's is none.
fn is_sentence(word: &str) -> bool {
    word.split('_').count() >= 5
        && !word.starts_with("david_tasks_")
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The SQL of docs/by-hand.md, as it stands there, against its own server.
#[tokio::test]
async fn the_action_that_is_submitted_by_hand_succeeds() {
    use david_e2e::World;
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/by-hand.md")).unwrap();
    let sql = text.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let world = World::new().await.unwrap();
    let sql = sql
        .replace("http://127.0.0.1:8765/mcp", &world.server.url())
        .replace("\"seconds\": 5", "\"seconds\": 0");
    world.execute("delete from david.mcp_server_registrations").await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone())).execute(&world.db.pool).await.unwrap();
    let _replica = world.replica(env!("CARGO_BIN_EXE_replica")).start().unwrap();
    let action = david_e2e::Action { id: "act_1".to_owned(), run: "run_1".to_owned() };
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
}
