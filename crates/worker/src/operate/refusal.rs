//! A clear no of the database, in words and as an exit code.

use david_schema::MigrateError;
use david_schema::operate::{OperatorError, Refused, RefusedKind};
use serde_json::json;

use super::Ended;
use super::output::{Format, plain, print_json};

/// Says why a command was refused and what to do. What is no refusal stays an error.
pub(super) fn tell(error: anyhow::Error, format: Format) -> anyhow::Result<Ended> {
    if let Some(error) = error.downcast_ref::<MigrateError>().filter(|error| error.is_forbidden()) {
        let hint =
            "Connect as the owner of the database: it makes a schema, and roles if there are none yet.";
        let message = david_schema::causes(error);
        return refuse(
            &Refused { kind: RefusedKind::NotPermitted, message, hint: Some(hint.to_owned()) },
            format,
        );
    }
    let Some(OperatorError::Refused(refused)) = error.downcast_ref::<OperatorError>() else {
        if format == Format::Json {
            let message = david_schema::causes(error.as_ref());
            print_json(&json!({ "error": { "kind": "failed", "message": message, "what_to_do": null } }))?;
        }
        return Err(error);
    };
    refuse(refused, format)
}

/// The same, of one that is known.
pub(super) fn refuse(refused: &Refused, format: Format) -> anyhow::Result<Ended> {
    let (kind, ended) = kind_of(refused.kind);
    let what_to_do = what_to_do(refused);
    match format {
        Format::Json => print_json(
            &json!({ "error": { "kind": kind, "message": refused.message, "what_to_do": what_to_do } }),
        )?,
        Format::Human => {
            eprintln!("david-tasks: {}", plain(&refused.message));
            eprintln!("{}", plain(&what_to_do));
        }
    }
    Ok(ended)
}

fn kind_of(kind: RefusedKind) -> (&'static str, Ended) {
    match kind {
        RefusedKind::Senseless => ("senseless", Ended::Senseless),
        RefusedKind::Different => ("different", Ended::Refused),
        RefusedKind::NotFound => ("not_found", Ended::NotFound),
        RefusedKind::TooLate => ("too_late", Ended::Refused),
        RefusedKind::NotNow => ("not_now", Ended::Refused),
        RefusedKind::NotPermitted => ("not_permitted", Ended::NotPermitted),
        RefusedKind::NoSchema => ("migration_pending", Ended::Pending),
    }
}

/// The database's hint, which speaks of functions, in words of this program; or what helps in general.
fn what_to_do(refused: &Refused) -> String {
    if let Some(hint) = &refused.hint
        && refused.kind != RefusedKind::NoSchema
    {
        return in_commands(hint);
    }
    match refused.kind {
        RefusedKind::Senseless => "Correct the command; `--help` says what it takes.",
        RefusedKind::Different => "Nothing was changed; look with `david-tasks show ACTION`.",
        RefusedKind::NotFound => "Is the id right, and DATABASE_URL? `david-tasks status` shows what there is.",
        RefusedKind::TooLate => "An Action ends once; `david-tasks show ACTION` says how.",
        RefusedKind::NotNow => "Wait until the call has ended; `david-tasks show ACTION` says when that is at the latest.",
        RefusedKind::NotPermitted => {
            "Connect with a login that is a member of david_operator (docs/core-contract.md, Roles), or of david_core to read results."
        }
        RefusedKind::NoSchema => {
            "The database has not the schema that this program needs: `david-tasks migrate --check` says what is pending, `david-tasks migrate` applies it."
        }
    }
    .to_owned()
}

fn in_commands(hint: &str) -> String {
    [
        (
            "select registration_id, registration_name from david.v_registration_health;",
            "`select registration_id from david.v_registration_health`",
        ),
        ("select replica from david.v_leases;", "`david-tasks status`"),
        ("david.fail_action", "`david-tasks fail`"),
        ("david.give_up_cancel", "`david-tasks give-up`"),
        ("david.retry_now", "`david-tasks retry`"),
        ("david.resume_registration", "`david-tasks resume`"),
    ]
    .iter()
    .fold(hint.to_owned(), |text, (function, command)| text.replace(function, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do_in_commands() {
        for kind in [
            RefusedKind::Senseless,
            RefusedKind::Different,
            RefusedKind::NotFound,
            RefusedKind::TooLate,
            RefusedKind::NotNow,
            RefusedKind::NotPermitted,
            RefusedKind::NoSchema,
        ] {
            let refused = Refused { kind, message: "no".to_owned(), hint: None };
            assert!(what_to_do(&refused).len() > 20, "{kind:?}");
            let hint = Some("Only a remote cancel is owed; david.give_up_cancel gives that up.".to_owned());
            let told = what_to_do(&Refused { kind, message: "no".to_owned(), hint });
            assert!(!told.contains("david.give_up_cancel"), "{told}");
        }
    }
}
