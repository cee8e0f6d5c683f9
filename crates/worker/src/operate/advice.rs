//! What to do next, as commands.

use std::collections::BTreeSet;

use david_schema::operate::{ServerHealth, Status, Stuck};
use serde::Serialize;

use super::output::quoted;

/// Commands on one screen at most.
const MOST: usize = 8;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Advice {
    /// Why, a sentence.
    pub(super) why: String,
    /// What to type; none when it is not a matter of typing.
    pub(super) command: Option<String>,
}

impl Advice {
    fn new(why: impl Into<String>, command: impl Into<String>) -> Self {
        Self { why: why.into(), command: Some(command.into()) }
    }
}

/// What a status calls for, the most pressing first.
pub(super) fn of_status(status: &Status) -> Vec<Advice> {
    let mut all = Vec::new();
    if status.stuck.iter().any(is_overdue) {
        let alive = status.replicas.iter().filter(|replica| replica.lapsed < replica.leases).count();
        all.push(match alive {
            0 => Advice::new(
                "Rows are overdue and no replica holds a lease: start one, or see why it does not work.",
                "david-tasks worker",
            ),
            alive => Advice::new(
                format!("Rows are overdue although {alive} replicas hold leases: see what slows them."),
                DOCTOR,
            ),
        });
    }
    all.extend(status.servers.iter().filter_map(closed));
    // One Action of each reason and server stands for its likes.
    let mut seen = BTreeSet::new();
    for row in status.stuck.iter().filter(|row| !is_overdue(row)) {
        if seen.insert((row.reason.as_str(), row.registration_id.as_str())) {
            all.extend(of_row(row));
        }
    }
    if let Some(owed) = status.cancelling.iter().find(|owed| owed.attempt >= 3) {
        all.push(Advice::new(
            "A cancel does not get through; it is given up by itself after a few more tries, or now:",
            format!("david-tasks give-up {} --reason 'the server is gone'", quoted(&owed.action_id)),
        ));
    }
    if let Some(question) = status.input_required.iter().find(|question| question.state == "pending") {
        all.push(Advice::new(
            "A server waits for an answer, which Core gives (david.answer_input).",
            format!("david-tasks show {}", quoted(&question.action_id)),
        ));
    }
    // The same command twice is one thing to do.
    let mut typed = BTreeSet::new();
    all.retain(|advice| advice.command.as_ref().is_none_or(|command| typed.insert(command.clone())));
    all.truncate(MOST);
    all
}

/// Due, and nobody takes it.
fn is_overdue(row: &Stuck) -> bool {
    matches!(row.reason.as_str(), "not_leased" | "call_lost")
}

/// It has to know what the worker knows.
const DOCTOR: &str =
    "david-tasks doctor   # with the worker's settings: --trusted-hosts, --credentials-dir, …";

/// What a server that is closed calls for, if it is.
pub(super) fn closed(server: &ServerHealth) -> Option<Advice> {
    let id = &server.registration_id;
    if let Some(at) = &server.paused_at {
        let by = server.paused_by.as_deref().unwrap_or("somebody");
        let reason = server.paused_reason.as_deref().unwrap_or("no reason given");
        return Some(Advice::new(
            format!("{by} paused {id} at {at}: {reason}."),
            format!("david-tasks resume {}", quoted(id)),
        ));
    }
    let until = server.open_until.as_ref().filter(|_| server.breaker == "open")?;
    let error = server.last_error.as_deref().unwrap_or("its error is not for this role to read");
    Some(Advice::new(
        format!(
            "{id} failed too often and is left alone until {until}; then it is tried by itself, or at once when it is repaired. \
             Last: {error}"
        ),
        repaired(id),
    ))
}

/// What closes a breaker.
fn repaired(registration: &str) -> String {
    format!("david-tasks resume {} --reason 'it is repaired'", quoted(registration))
}

/// What one stuck row calls for.
pub(super) fn of_row(row: &Stuck) -> Vec<Advice> {
    let action = quoted(&row.action_id);
    let end = if row.phase == "cancelling" {
        Advice::new(
            format!("If the server is gone for good, give the cancel of {} up.", row.action_id),
            format!("david-tasks give-up {action} --reason 'the server is gone'"),
        )
    } else {
        Advice::new(
            format!("If there is no hope for {}, end it.", row.action_id),
            format!("david-tasks fail {action} --reason 'there is no hope for it'"),
        )
    };
    let retry =
        |why: &str| Advice::new(format!("{why} {}.", row.action_id), format!("david-tasks retry {action}"));
    match row.reason.as_str() {
        "paused" => vec![Advice::new(
            row.explanation.clone(),
            format!("david-tasks resume {}", quoted(&row.registration_id)),
        )],
        "server_down" => vec![
            Advice::new(
                "Its server is tried by itself from time to time; at once when it is repaired.",
                repaired(&row.registration_id),
            ),
            end,
        ],
        "call_lost" | "not_leased" => {
            vec![Advice::new(
                format!("{} is overdue; which replicas work?", row.action_id),
                "david-tasks status",
            )]
        }
        "lapsing" => vec![
            Advice { why: "Look in the replicas' logs for why they died.".to_owned(), command: None },
            end,
        ],
        "failing" => vec![retry("When its server is repaired, try"), end],
        "unanswered" => vec![
            Advice { why: format!("Core answers {} with david.answer_input.", row.action_id), command: None },
            end,
        ],
        "put_off" => vec![retry("Do not wait any longer with")],
        // A newer database knows more reasons than this program.
        _ => vec![Advice { why: row.what_to_do.clone(), command: None }],
    }
}
