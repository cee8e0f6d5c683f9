//! The connecting role: may it do what it is for?

use david_schema::operate::{Expected, Operator, OperatorError, Right, rights_of};

use super::finding::{Finding, Severity, quoted_name};

/// Rights that a sentence names.
const NAMED: usize = 5;

pub(super) async fn check(
    operator: &Operator,
    expected: Option<Expected>,
) -> Result<Vec<Finding>, OperatorError> {
    let migrations = operator.migrations().await;
    if migrations
        .is_ok_and(|all| all.iter().all(|one| one.state == david_schema::operate::MigrationState::Pending))
    {
        // There is nothing yet to have rights on.
        return Ok(Vec::new());
    }
    let role = operator.server().await?.role;
    let missing = |expected: Expected| async move { operator.missing_rights(&rights_of(expected)).await };
    let (kind, missing) = match expected {
        Some(kind) => (kind, missing(kind).await?),
        None => {
            let (worker, other) = (missing(Expected::Worker).await?, missing(Expected::Operator).await?);
            // In shares: a worker has more rights to lack.
            let share = |lacks: &[Right], of| lacks.len() * 1000 / rights_of(of).len().max(1);
            if share(&other, Expected::Operator) < share(&worker, Expected::Worker) {
                (Expected::Operator, other)
            } else {
                (Expected::Worker, worker)
            }
        }
    };
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let (word, group) = match kind {
        Expected::Worker => ("a worker", "david_worker"),
        Expected::Operator => ("an operator", "david_operator"),
    };
    let names: Vec<String> = missing.iter().take(NAMED).map(name).collect();
    let more = missing.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let what =
        format!("Role {} lacks rights that {word} needs: {}{more}.", quoted_name(&role), names.join(", "));
    Ok(vec![
        Finding::new(Severity::Error, "right_missing", what)
            .of(role.clone())
            .because("Statements fail with 42501 (insufficient_privilege) when they get there, perhaps only in the middle of an outage.")
            .fix(format!(
                "select david.set_up_roles(); grant {group} to {}; -- as the owner of schema david",
                quoted_name(&role)
            )),
    ])
}

fn name(right: &Right) -> String {
    match right.column.as_str() {
        "" => format!("{} on {}", right.privilege, right.object),
        column => format!("{} on {}.{column}", right.privilege, right.object),
    }
}
