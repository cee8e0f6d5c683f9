//! Why an Action stands as it does, in a sentence.

use david_reconciler::Outcome;
use david_schema::operate::{ActionRow, History};

use super::advice;

/// Why it stands as it does.
pub(super) fn of(history: &History, action: &ActionRow) -> String {
    if let Some(stuck) = &history.stuck {
        return stuck.explanation.clone();
    }
    let closed = history.server.as_ref().and_then(advice::closed).map(|advice| format!(" {}", advice.why));
    let closed = closed.unwrap_or_default();
    let waiting = action.due_at.before(&history.at).is_none();
    let failures = match action.attempt {
        0 => String::new(),
        1 => " The last try failed.".to_owned(),
        tries => format!(" The last {tries} tries failed."),
    };
    let holder = |doing: &str| match (&action.leased_by, waiting) {
        (Some(replica), _) => format!("Replica {replica} {doing}.{failures}"),
        (None, true) => format!("It waits until {}.{failures}{closed}", action.due_at),
        (None, false) if closed.is_empty() => {
            format!("It is due, and leased by the next replica with room.{failures}")
        }
        (None, false) => format!("It is due.{failures}{closed}"),
    };
    let ended = action
        .outcome
        .as_deref()
        .map_or_else(String::new, |outcome| format!("It has ended as {outcome}: {}", meaning(outcome)));
    match action.phase.as_str() {
        "queued" => format!("Not called yet. {}", holder("is about to call")),
        "calling" => format!(
            "The call is on the wire, or its replica died: it ends by itself, or counts as lost from {} on.",
            action.due_at
        ),
        "working" => format!("The server works on it. {}", holder("polls it")),
        "input_required" => {
            let asked = history.questions.iter().filter(|question| question.state == "pending").count();
            match asked {
                0 => format!("The server asked, and was answered. {}", holder("takes the answer there")),
                1 => "The server waits for an answer, which Core gives (david.answer_input).".to_owned(),
                asked => {
                    format!("The server waits for {asked} answers, which Core gives (david.answer_input).")
                }
            }
        }
        "cancelling" => format!("{ended} Its remote task is owed a cancel. {}", holder("is at it")),
        "finalised" => ended,
        other => format!("It is {other}."),
    }
}

/// What an outcome means.
fn meaning(word: &str) -> &'static str {
    let Some(outcome) = Outcome::parse(word) else { return "an outcome that this program does not know." };
    match outcome {
        Outcome::Succeeded => "the tool gave its result.",
        Outcome::ToolError => "the tool gave a result that says it is an error.",
        Outcome::RemoteFailed => "the remote task failed.",
        Outcome::CallRejected => "the server refused the call.",
        Outcome::RemoteCancelled => "the server cancelled the task by itself.",
        Outcome::RunCancelled => "its Run was cancelled.",
        Outcome::TaskExpired => "the server forgot the task after its time to live.",
        Outcome::TaskMissing => "the server forgot the task before its time to live had passed.",
        Outcome::DeadlineExceeded => "its deadline passed.",
        Outcome::OutcomeUnknown => "the call or its reply was lost; nobody can know whether the tool ran.",
        Outcome::RegistrationMissing => "its registration was deleted.",
        Outcome::RegistrationDisabled => "its registration is disabled.",
        Outcome::RegistrationForbidden => "its registration is another user's.",
        Outcome::EndpointForbidden => "its registration's URL may not be talked to (--trusted-hosts).",
        Outcome::Unauthorised => "the server does not accept the credential.",
        Outcome::InputUnsupported => "the server asked for input, and nobody is to be asked.",
        Outcome::InputTimedOut => "nobody answered the server's question in time.",
        Outcome::ProtocolError => "the server broke the protocol.",
        Outcome::Quarantined => "it was taken out, by an operator or because replicas died with it.",
        Outcome::ResultTooLarge => "its result was too large.",
        Outcome::RemoteUnreachable => "the server could not be reached for too long.",
    }
}
