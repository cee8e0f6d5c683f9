//! `watch`.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use david_schema::operate::{OperatorError, Status};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::Ended;
use super::arguments::Common;
use super::output::{Format, plain, print, print_json};
use super::status::screen;
use crate::config::duration;

/// Clears the screen and goes to its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Settings of `david-tasks watch`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Between two looks (duration).
    #[arg(long, default_value = "2s", value_parser = pause, allow_hyphen_values = true, value_name = "DURATION")]
    interval: Duration,

    #[command(flatten)]
    pub(super) common: Common,
}

fn pause(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        // A look costs the database some milliseconds.
        short if short < Duration::from_millis(100) => Err("100ms at least".to_owned()),
        long => Ok(long),
    }
}

/// Something that is not as it was at the last look.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Change {
    /// When it was seen, by the database's clock.
    at: String,
    /// Which view it is of.
    kind: &'static str,
    /// What it is about: a registration, an Action, a replica, an outcome.
    subject: String,
    /// Null when it was not there.
    was: Value,
    /// Null when it is not there any more.
    is: Value,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.prepare()?;
    let redraws = arguments.common.format() == Format::Human && std::io::stdout().is_terminal();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut look = tokio::time::interval(arguments.interval);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut silent) = (None::<Status>, false);
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(Ended::Done),
            _ = terminate.recv() => return Ok(Ended::Done),
            _ = look.tick() => {}
        }
        let seen = tokio::select! {
            _ = interrupt.recv() => return Ok(Ended::Done),
            _ = terminate.recv() => return Ok(Ended::Done),
            seen = operator.status() => seen,
        };
        let status = match seen {
            Ok(status) => status,
            // An outage is what one watches for. What is refused now is refused next time.
            Err(OperatorError::Database { what, source }) => {
                if !silent {
                    let error = OperatorError::Database { what, source };
                    eprintln!("david-tasks: {}; trying again", david_schema::causes(&error));
                }
                silent = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        silent = false;
        if redraws {
            print(&format!("{CLEAR}{}", screen(&status)))?;
            continue;
        }
        for change in changes(before.as_ref(), &status) {
            match arguments.common.format() {
                Format::Json => print_json(&change)?,
                Format::Human => print(&format!("{}\n", line(&change)))?,
            }
        }
        before = Some(status);
    }
}

/// A fact by its kind and subject.
type Facts = BTreeMap<(&'static str, String), Value>;

fn facts(status: &Status) -> Facts {
    let mut facts = Facts::new();
    for lane in &status.backlog {
        facts.insert(("backlog", format!("{} {}", lane.registration_id, lane.phase)), json!(lane.tasks));
    }
    for replica in &status.replicas {
        let word = if replica.lapsed < replica.leases { "alive" } else { "lapsed" };
        facts.insert(("replica", replica.replica.clone()), json!(word));
    }
    for server in &status.servers {
        let word = if server.paused_at.is_some() { "paused" } else { server.breaker.as_str() };
        facts.insert(("server", server.registration_id.clone()), json!(word));
    }
    for row in &status.stuck {
        facts.insert(("stuck", row.action_id.clone()), json!(row.reason));
    }
    for owed in &status.cancelling {
        facts.insert(("owed_cancel", owed.action_id.clone()), json!(owed.attempt));
    }
    for question in status.input_required.iter().filter(|question| question.state == "pending") {
        facts.insert(("input_required", question.action_id.clone()), json!(question.round));
    }
    for outcome in &status.outcomes {
        facts.insert(("ended_last_day", outcome.outcome.clone()), json!(outcome.last_day));
    }
    facts
}

/// What differs; everything, at the first look.
fn changes(before: Option<&Status>, now: &Status) -> Vec<Change> {
    let (before, after) = (before.map(facts).unwrap_or_default(), facts(now));
    let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter_map(|key| {
            let of = |facts: &Facts| facts.get(key).cloned().unwrap_or_default();
            let (was, is) = (of(&before), of(&after));
            let (kind, subject) = key.clone();
            (was != is).then(|| Change { at: now.at.to_string(), kind, subject, was, is })
        })
        .collect()
}

fn line(change: &Change) -> String {
    let word = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (was, is) = (word(&change.was), word(&change.is));
    plain(&format!("{} {} {}: {was} -> {is}", change.at, change.kind, change.subject))
}
