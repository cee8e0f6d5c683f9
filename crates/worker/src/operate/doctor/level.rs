//! The schema: is it what this program needs?

use david_schema::operate::{Migration, MigrationState, Operator, OperatorError};

use super::finding::{Finding, Severity};

pub(super) async fn check(operator: &Operator) -> Result<Vec<Finding>, OperatorError> {
    let migrations = operator.migrations().await?;
    let of = |state: MigrationState| {
        let numbers: Vec<String> =
            migrations.iter().filter(|migration| migration.state == state).map(number).collect();
        (!numbers.is_empty()).then(|| numbers.join(", "))
    };
    let mut findings = Vec::new();
    if let Some(numbers) = of(MigrationState::Pending) {
        findings.push(
            Finding::new(Severity::Error, "migration_pending", format!("Migrations are pending: {numbers}."))
                .of(numbers)
                .because("The worker of this version does not start before they are applied.")
                .fix("david-tasks migrate"),
        );
    }
    if let Some(numbers) = of(MigrationState::Different) {
        let what = format!("Migrations were applied in another version than this program's: {numbers}.");
        findings.push(
            Finding::new(Severity::Error, "migration_different", what)
                .of(numbers)
                .because("Somebody changed a migration, or the database is another program's; statements may not fit.")
                .fix("Find out which program migrated this database (select * from david._sqlx_migrations), and use that one."),
        );
    }
    if let Some(numbers) = of(MigrationState::Failed) {
        findings.push(
            Finding::new(
                Severity::Error,
                "migration_failed",
                format!("Migrations did not go through: {numbers}."),
            )
            .of(numbers)
            .because("Nothing is ever migrated further from there.")
            .fix("delete from david._sqlx_migrations where not success; then: david-tasks migrate"),
        );
    }
    if let Some(numbers) = of(MigrationState::Unknown) {
        findings.push(
            Finding::new(Severity::Notice, "migration_ahead", format!("The database is newer than this program: {numbers}."))
                .of(numbers)
                .because("Migrations only add what older programs can ignore, so this works; but this program is not the newest.")
                .fix("Update david-tasks here."),
        );
    }
    Ok(findings)
}

fn number(migration: &Migration) -> String {
    format!("{:04}", migration.version)
}
