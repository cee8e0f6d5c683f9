//! The schema: is everything there that migrations made, and does it work?

use david_schema::operate::{Damage, MigrationState, Operator, OperatorError};

use super::finding::{Finding, Severity};

/// Things that a sentence names.
const NAMED: usize = 5;

pub(super) async fn check(operator: &Operator) -> Result<Vec<Finding>, OperatorError> {
    // What a migration brings that is not applied yet, or took away, is no damage.
    if operator.migrations().await?.iter().any(|migration| migration.state != MigrationState::Applied) {
        return Ok(Vec::new());
    }
    let damage = operator.damage().await?;
    let (off, gone): (Vec<&Damage>, Vec<&Damage>) = damage.iter().partition(|damage| damage.fix.is_some());
    let mut findings = Vec::new();
    if !off.is_empty() {
        let fixes: Vec<&str> = off.iter().filter_map(|damage| damage.fix.as_deref()).collect();
        findings.push(
            Finding::new(Severity::Error, "trigger_off", format!("Switched off: {}.", named(&off)))
                .of(named(&off))
                .because("Triggers keep the promises that hold whoever writes: a cancel is final in its own commit, a task is born as its Run stands.")
                .fix(fixes.join(" ")),
        );
    }
    if !gone.is_empty() {
        let what = format!("The schema lacks what its migrations made: {}.", named(&gone));
        findings.push(
            Finding::new(Severity::Error, "schema_damaged", what)
                .of(named(&gone))
                .because("Statements fail, or read a whole table, or write what nothing checks.")
                .fix("Make it again as docs/schema.txt and migrations/ have it, or restore the database from a backup."),
        );
    }
    Ok(findings)
}

fn named(damage: &[&Damage]) -> String {
    let names: Vec<&str> = damage.iter().take(NAMED).map(|damage| damage.thing.as_str()).collect();
    match damage.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
