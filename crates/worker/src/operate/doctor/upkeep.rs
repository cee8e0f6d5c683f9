//! Vacuum: is it on, is the hot table set up for it, and does anything keep it back?

use std::time::Duration;

use david_schema::operate::{Operator, OperatorError};

use super::database::system;
use super::finding::{Finding, Severity};
use crate::operate::output::span;

const HOT: &str = "mcp_action_tasks";

/// As migration 0001 sets the hot table up.
const OPTIONS: [(&str, &str); 5] = [
    ("fillfactor", "70"),
    ("autovacuum_vacuum_scale_factor", "0.01"),
    ("autovacuum_vacuum_threshold", "1000"),
    ("autovacuum_vacuum_cost_delay", "0"),
    ("autovacuum_analyze_scale_factor", "0.05"),
];

/// A consumer of a slot may lag by so many transactions.
const SLOT_LAG: i64 = 1_000_000;

/// Fewer dead rows slow nothing down.
const DEAD_ROWS: i64 = 10_000;

pub(super) async fn check_settings(operator: &Operator) -> Result<Vec<Finding>, OperatorError> {
    let mut findings = Vec::new();
    let settings = operator.settings(&["autovacuum", "track_counts"]).await?;
    for (name, check) in [("autovacuum", "autovacuum_off"), ("track_counts", "track_counts_off")] {
        if settings.get(name).is_some_and(|value| value == "off") {
            findings.push(
                Finding::new(Severity::Error, check, format!("{name} is off."))
                    .of(name)
                    .because("Dead rows of the hot table are never removed by themselves: every lease gets slower.")
                    .fix(system(name, "on")),
            );
        }
    }
    let options = operator.table_options().await?;
    for option in &options {
        if option.name == "autovacuum_enabled"
            && matches!(option.value.as_str(), "false" | "off" | "0" | "no")
        {
            let what = format!("Autovacuum is switched off for david.{}.", option.table);
            findings.push(
                Finding::new(Severity::Error, "table_autovacuum_off", what)
                    .of(option.table.clone())
                    .because("Its dead rows are never removed by themselves: every lease gets slower.")
                    .fix(format!("alter table david.{} reset (autovacuum_enabled);", option.table)),
            );
        }
    }
    // Without the table it is the migrations' finding.
    let there = options.iter().any(|option| option.table == HOT);
    for (name, wanted) in OPTIONS.into_iter().filter(|_| there) {
        let found = options.iter().find(|option| option.table == HOT && option.name == name);
        if found.is_none_or(|found| found.value != wanted) {
            let value = found.map_or("unset", |found| found.value.as_str());
            let what = format!("{name} of david.{HOT} is {value}, not {wanted}.");
            findings.push(
                Finding::new(Severity::Warning, "table_option", what)
                    .of(name)
                    .because("The hot table is updated all the time; the migration's values keep it small and its updates out of the indexes.")
                    .fix(format!("alter table david.{HOT} set ({name} = {wanted});")),
            );
        }
    }
    Ok(findings)
}

pub(super) async fn check_blockers(
    operator: &Operator,
    long: Duration,
) -> Result<Vec<Finding>, OperatorError> {
    let mut findings = Vec::new();
    for blocker in operator.blockers().await? {
        let slot = blocker.kind == "replication slot";
        let idle = blocker.state.as_deref() == Some("inactive");
        let troubles = match blocker.age {
            Some(age) => age >= long,
            None => slot && (idle || blocker.xmin_age > SLOT_LAG),
        };
        if !troubles {
            continue;
        }
        let age = blocker.age.map_or_else(String::new, |age| format!(" for {}", span(age)));
        let role = blocker.role.as_deref().map_or_else(String::new, |role| format!(" of {role}"));
        let application = blocker.application.as_deref().filter(|name| !name.is_empty());
        let application = application.map_or_else(String::new, |name| format!(" ({name})"));
        let state = blocker.state.as_deref().unwrap_or("of unknown state");
        let what = format!(
            "A {} keeps vacuum back: {}{role}{application}, {state}{age}, {} transactions old.",
            blocker.kind, blocker.name, blocker.xmin_age
        );
        findings.push(
            Finding::new(Severity::Warning, if slot { "slot_holds_back" } else { "long_transaction" }, what)
                .of(blocker.name)
                .because("No row that died since then can be removed: the hot table grows, and every lease gets slower.")
                .fix(blocker.what_to_do),
        );
    }
    Ok(findings)
}

pub(super) async fn check_slots(operator: &Operator) -> Result<Vec<Finding>, OperatorError> {
    let slots = operator.idle_slots().await?.into_iter().map(|slot| {
        let kept = slot
            .kept_bytes
            .map_or_else(String::new, |bytes| format!(", {} MB of WAL so far", bytes / 1_000_000));
        let what = format!("Nobody reads replication slot {}{kept}.", slot.name);
        Finding::new(Severity::Warning, "idle_slot", what)
            .of(slot.name.clone())
            .because("It keeps WAL until somebody reads it; when the disk is full, the server stops.")
            .fix(format!(
                "If nobody will come back for it: select pg_drop_replication_slot('{}');",
                slot.name.replace('\'', "''")
            ))
    });
    Ok(slots.collect())
}

pub(super) async fn check_dead_rows(operator: &Operator) -> Result<Vec<Finding>, OperatorError> {
    let (live, dead) = operator.hot_table().await?;
    if dead < DEAD_ROWS || dead < live / 4 {
        return Ok(Vec::new());
    }
    let what = format!("david.{HOT} holds {dead} dead rows beside {live} live ones.");
    Ok(vec![
        Finding::new(Severity::Warning, "dead_rows", what)
            .of(HOT)
            .because("Vacuum does not keep up: every lease passes over them.")
            .fix(format!("vacuum (analyze) david.{HOT};")),
    ])
}
