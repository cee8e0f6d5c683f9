//! Dashboard, alerts and runbook: that they name what exists, and fire when they should.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const ALERTS: &str = "deploy/prometheus/alerts.yml";
const DASHBOARD: &str = "deploy/grafana/david-tasks.json";

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// Every series that docs/metrics.md, which is what /metrics exposes, makes: a histogram's are three.
fn series() -> BTreeSet<String> {
    let text = read("docs/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `david_tasks_"));
    let names = rows.flat_map(|row| {
        let (name, rest) = row.split_once('`').unwrap();
        let suffixes: &[&str] =
            if rest.starts_with(" | histogram") { &["_bucket", "_sum", "_count"] } else { &[""] };
        suffixes.iter().map(|suffix| format!("david_tasks_{name}{suffix}")).collect::<Vec<_>>()
    });
    names.collect()
}

/// Every word of a text that looks like one of our metrics.
fn named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("david_tasks_")).map(str::to_owned).collect()
}

fn assert_exposed(file: &str) {
    let (series, named) = (series(), named_in(&read(file)));
    assert!(series.len() > 20 && named.len() > 5, "is the search broken? {named:?}");
    let missing: Vec<&String> = named.difference(&series).collect();
    assert!(missing.is_empty(), "{file} names what /metrics does not expose: {missing:?}");
}

#[test]
fn every_metric_in_the_alerts_their_tests_and_the_dashboard_is_one_that_is_exposed() {
    for file in [ALERTS, "deploy/prometheus/alerts_test.yml", DASHBOARD] {
        assert_exposed(file);
    }
}

/// So that none is forgotten that was added.
#[test]
fn every_metric_that_is_exposed_is_in_the_dashboard() {
    let shown = named_in(&read(DASHBOARD));
    let text = read("docs/metrics.md");
    for row in
        text.lines().filter_map(|line| line.strip_prefix("| `")).filter(|row| row.starts_with("david_"))
    {
        let name = row.split('`').next().unwrap();
        assert!(shown.iter().any(|metric| metric.starts_with(name)), "{name} is in no panel");
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_something_of_the_datasource_that_is_chosen() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have the id {}", panel["id"]);
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && !panel["description"].as_str().unwrap().is_empty(), "{panel}");
        for target in targets {
            let expr = target["expr"].as_str().unwrap();
            assert!(expr.contains(r#"job="$job""#), "another deployment's figures would be mixed in: {expr}");
        }
    }
    assert!(ids.len() > 15);
}

#[test]
fn every_alert_has_its_section_in_the_runbook_and_every_section_its_alert() {
    let (alerts, runbook) = (read(ALERTS), read("docs/runbook.md"));
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let urls: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    let anchors: Vec<String> =
        names.iter().map(|name| format!("docs/runbook.md#{}", name.to_lowercase())).collect();
    assert_eq!(urls, anchors, "an alert's runbook_url leads to its own section");
    let mut sections = runbook.split("\n## ").skip(1);
    for name in &names {
        let section = sections.next().unwrap_or_default();
        assert_eq!(section.lines().next(), Some(*name), "sections come in the order of the alerts");
        for part in ["**Symptom.**", "**Look at**", "**Do"] {
            assert!(section.contains(part), "{name} lacks {part}");
        }
    }
    assert_eq!(sections.next(), None, "a section without an alert");
    assert!(names.len() > 8);
}

/// The views and functions that the runbook sends people to.
#[tokio::test]
async fn every_statement_of_the_runbook_runs() {
    let world = david_e2e::World::new().await.unwrap();
    let runbook = read("docs/runbook.md");
    let mut ran = 0;
    for statement in runbook.split('`').skip(1).step_by(2).filter(|code| code.starts_with("select ")) {
        // Of a function only whether there is one of that name and kind; it is called with an id that is none.
        let planned = format!("prepare looked_at as {}", statement.trim_end_matches(';'));
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
            "{}; deallocate looked_at",
            planned.replace("'…'", "null")
        )))
        .execute(&world.db.pool)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
        ran += 1;
    }
    assert!(ran > 10, "only {ran}; is the search broken?");
}

fn promtool(arguments: &[&str]) {
    let mut command = Command::new("promtool");
    let done = command.current_dir(Path::new(ROOT).join("deploy/prometheus")).args(arguments).output();
    let done =
        done.unwrap_or_else(|error| panic!("promtool is needed (Debian's package prometheus): {error}"));
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn prometheus_takes_the_alerts() {
    promtool(&["check", "rules", "alerts.yml"]);
}

#[test]
fn every_alert_fires_when_it_should_and_none_in_health() {
    promtool(&["test", "rules", "alerts_test.yml"]);
    let (alerts, tests) = (read(ALERTS), read("deploy/prometheus/alerts_test.yml"));
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let (health, trouble) = tests.split_once("- name: replicas that are gone").unwrap();
        assert!(health.contains(&format!("alertname: {name} ")), "{name} is not tested in health");
        assert!(trouble.contains(&format!("alertname: {name}\n")), "{name} is not tested to fire");
    }
}
