//! `status`, and what `watch` redraws.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use david_schema::operate::{BacklogLane, Status, Time};
use serde::Serialize;

use super::Ended;
use super::advice::{self, Advice};
use super::arguments::Common;
use super::output::{Format, plain, print, print_json, span, table};

/// Lines of each table at most: it is to be one screen.
const MOST: usize = 10;

const PHASES: [&str; 5] = ["queued", "calling", "working", "input_required", "cancelling"];

/// Settings of `david-tasks status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    status: &'a Status,
    next: Vec<Advice>,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let status = arguments.common.operator().await?.status().await?;
    match arguments.common.format() {
        Format::Json => print_json(&Told { next: advice::of_status(&status), status: &status })?,
        Format::Human => print(&screen(&status))?,
    }
    Ok(Ended::Done)
}

/// One screen.
pub(super) fn screen(status: &Status) -> String {
    let mut text = format!("{}\n", status.at);
    waiting(&mut text, status);
    replicas(&mut text, status);
    ended(&mut text, status);
    wrong(&mut text, status);
    let next = advice::of_status(status);
    if !next.is_empty() {
        text.push_str("\nNEXT\n");
    }
    for advice in next {
        append(&mut text, format_args!("  {}\n", plain(&advice.why)));
        if let Some(command) = advice.command {
            append(&mut text, format_args!("    {}\n", plain(&command)));
        }
    }
    text
}

fn waiting(text: &mut String, status: &Status) {
    text.push_str("\nWAITING\n");
    if status.backlog.is_empty() {
        text.push_str("  nothing\n");
        return;
    }
    let mut servers: BTreeMap<&str, Vec<&BacklogLane>> = BTreeMap::new();
    for lane in &status.backlog {
        servers.entry(&lane.registration_id).or_default().push(lane);
    }
    let mut servers: Vec<_> = servers.into_iter().collect();
    let due = |lanes: &[&BacklogLane]| lanes.iter().map(|lane| lane.due).sum::<i64>();
    let tasks = |lanes: &[&BacklogLane]| lanes.iter().map(|lane| lane.tasks).sum::<i64>();
    servers.sort_by_key(|(id, lanes)| (-due(lanes), -tasks(lanes), *id));

    let headings: Vec<&str> =
        ["  registration"].into_iter().chain(PHASES).chain(["due", "oldest due"]).collect();
    let mut lines = table(&headings);
    for (id, lanes) in servers.iter().take(MOST) {
        let mut cells = vec![format!("  {}", plain(id))];
        for phase in PHASES {
            let lane = lanes.iter().find(|lane| lane.phase == phase);
            cells.push(lane.map_or_else(String::new, |lane| count(lane.tasks, lane.estimated)));
        }
        cells.push(count(due(lanes), lanes.iter().any(|lane| lane.estimated && lane.due == lane.tasks)));
        let lag = status.due_lag.iter().find(|lag| lag.registration_id.as_deref() == Some(*id));
        cells.push(seconds(lag.and_then(|lag| lag.oldest_seconds)));
        lines.add_row(cells);
    }
    append(text, format_args!("{}\n", lines.trim_fmt()));
    if servers.len() > MOST {
        let rest: i64 = servers.iter().skip(MOST).map(|(_, lanes)| tasks(lanes)).sum();
        append(text, format_args!("  … and {} more registrations with {rest} rows\n", servers.len() - MOST));
    }
    if let Some(all) = status.due_lag.iter().find(|lag| lag.registration_id.is_none() && lag.due > 0) {
        let lag = |value| seconds(value);
        append(
            text,
            format_args!(
                "  {} due in all; half of them for {}, 99 in 100 for less than {}, the oldest for {}\n",
                count(all.due, all.estimated),
                lag(all.p50_seconds),
                lag(all.p99_seconds),
                lag(all.oldest_seconds)
            ),
        );
    }
}

fn replicas(text: &mut String, status: &Status) {
    text.push_str("\nREPLICAS WITH LEASES\n");
    if status.replicas.is_empty() {
        text.push_str("  none\n");
        return;
    }
    let mut lines = table(&["  replica", "leases", "calls", "lapsed", "last leased"]);
    for replica in status.replicas.iter().take(MOST) {
        lines.add_row([
            format!("  {}", replica.replica),
            count(replica.leases, replica.estimated),
            replica.calls.to_string(),
            count(replica.lapsed, replica.estimated),
            ago(replica.last_leased_at.as_ref(), &status.at),
        ]);
    }
    append(text, format_args!("{}\n", lines.trim_fmt()));
    if status.replicas.len() > MOST {
        append(text, format_args!("  … and {} more\n", status.replicas.len() - MOST));
    }
}

fn ended(text: &mut String, status: &Status) {
    if status.outcomes.is_empty() {
        return;
    }
    text.push_str("\nENDED\n");
    let mut lines = table(&["  outcome", "last hour", "last day"]);
    for outcome in &status.outcomes {
        lines.add_row([
            format!("  {}", plain(&outcome.outcome)),
            count(outcome.last_hour, outcome.estimated),
            count(outcome.last_day, outcome.estimated),
        ]);
    }
    append(text, format_args!("{}\n", lines.trim_fmt()));
}

fn wrong(text: &mut String, status: &Status) {
    text.push_str("\nWRONG\n");
    let mut lines = table(&["  what", "count", "server", "since", "such as", "why"]);
    let mut found = 0;
    let mut line = |cells: [String; 6]| {
        found += 1;
        if found <= MOST {
            lines.add_row(cells);
        }
    };
    let mut kinds: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
    for row in &status.stuck {
        kinds.entry((&row.reason, &row.registration_id)).or_default().push(row);
    }
    for ((reason, registration), rows) in &kinds {
        // They come the longest stuck first.
        let Some(first) = rows.first() else { continue };
        line([
            format!("  {}", plain(reason)),
            rows.len().to_string(),
            plain(registration),
            ago(first.since.as_ref(), &status.at),
            plain(&first.action_id),
            plain(&first.explanation),
        ]);
    }
    for server in &status.servers {
        let (what, since) = match &server.paused_at {
            Some(at) => ("paused", ago(Some(at), &status.at)),
            None => (server.breaker.as_str(), ago(server.last_success_at.as_ref(), &status.at)),
        };
        let why = match what {
            "paused" => server.paused_reason.clone(),
            "half_open" => Some("its breaker was open; one row at a time is tried".to_owned()),
            _ => server.last_error.clone(),
        };
        line([
            format!("  server {}", plain(what)),
            String::new(),
            plain(&server.registration_id),
            since,
            String::new(),
            plain(&why.unwrap_or_default()),
        ]);
    }
    if let Some(first) = status.cancelling.first() {
        line([
            "  owed cancels".to_owned(),
            status.cancelling.len().to_string(),
            String::new(),
            ago(first.since.as_ref(), &status.at),
            plain(&first.action_id),
            plain(first.last_error.as_deref().unwrap_or("sent as soon as a replica gets to it")),
        ]);
    }
    let pending: Vec<_> =
        status.input_required.iter().filter(|question| question.state == "pending").collect();
    if let Some(first) = pending.first() {
        line([
            "  input waiting".to_owned(),
            pending.len().to_string(),
            String::new(),
            ago(Some(&first.asked_at), &status.at),
            plain(&first.action_id),
            "a server asks; Core answers".to_owned(),
        ]);
    }
    if found == 0 {
        text.push_str("  nothing\n");
        return;
    }
    append(text, format_args!("{}\n", lines.trim_fmt()));
    if found > MOST {
        append(text, format_args!("  … and {} more; --json has all\n", found - MOST));
    }
}

fn count(rows: i64, estimated: bool) -> String {
    if estimated { format!("~{rows}") } else { rows.to_string() }
}

fn seconds(value: Option<f64>) -> String {
    value
        .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok())
        .map_or_else(String::new, span)
}

fn ago(time: Option<&Time>, now: &Time) -> String {
    time.and_then(|time| time.before(now)).map_or_else(String::new, span)
}

/// A String takes in everything.
fn append(text: &mut String, words: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(words);
    debug_assert!(written.is_ok());
}
