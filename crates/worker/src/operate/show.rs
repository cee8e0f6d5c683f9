//! `show`.

use clap::Args;
use david_reconciler::ActionId;
use david_schema::operate::{ActionRow, History, OperatorError, Refused, RefusedKind};
use serde::Serialize;
use serde_json::value::RawValue;

use super::advice::{self, Advice};
use super::arguments::Common;
use super::output::{Format, plain, plain_json, print, print_json, table};
use super::refusal::refuse;
use super::{Ended, reason};

/// Settings of `david-tasks show`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The Action.
    action: String,

    /// Show its result, too: the envelope as Core reads it. Takes the right to read outputs.
    #[arg(long)]
    result: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    history: &'a History,
    reason: &'a str,
    next: &'a [Advice],
    /// The envelope; null when there is none, or it was not asked for.
    result: Option<Box<RawValue>>,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let format = arguments.common.format();
    let action = ActionId::new(&arguments.action);
    let history = operator.history(&action).await?;
    if history.action.is_none() && history.timeline.is_empty() {
        let message = format!("Action {action} does not exist, or has no remote work");
        return refuse(&Refused { kind: RefusedKind::NotFound, message, hint: None }, format);
    }
    let envelope = match arguments.result {
        true => operator.envelope(&action).await,
        false => Ok(None),
    };
    let (envelope, refused) = match envelope {
        Err(OperatorError::Refused(refused)) => (None, Some(refused)),
        envelope => (envelope?, None),
    };
    let (why, next) = match &history.action {
        Some(row) => (reason::of(&history, row), advise(&history, row)),
        None => (
            "Its row is gone: pruned, or deleted by Core. This is what is left of its history.".to_owned(),
            Vec::new(),
        ),
    };
    match (format, refused) {
        // One object is what a program reads.
        (Format::Json, Some(refused)) => return refuse(&refused, format),
        (Format::Json, None) => {
            let result = envelope.map(RawValue::from_string).transpose()?;
            print_json(&Told { history: &history, reason: &why, next: &next, result })?;
        }
        (Format::Human, refused) => {
            print(&text(&history, &why, &next))?;
            if let Some(refused) = refused {
                return refuse(&refused, format);
            }
            match envelope {
                Some(envelope) => print(&format!("\nRESULT\n{}\n", plain_json(&envelope)))?,
                None if arguments.result => print("\nRESULT\n  none\n")?,
                None => {}
            }
        }
    }
    Ok(Ended::Done)
}

fn advise(history: &History, action: &ActionRow) -> Vec<Advice> {
    if let Some(stuck) = &history.stuck {
        return advice::of_row(stuck);
    }
    match action.phase.as_str() {
        "finalised" => Vec::new(),
        _ => history.server.as_ref().and_then(advice::closed).into_iter().collect(),
    }
}

fn text(history: &History, why: &str, next: &[Advice]) -> String {
    let mut text = String::new();
    if let Some(action) = &history.action {
        let mut facts = table(&[]);
        let mut fact = |name: &str, value: String| {
            if !value.is_empty() {
                facts.add_row([name.to_owned(), plain(&value)]);
            }
        };
        let optional = |value: &Option<String>| value.clone().unwrap_or_default();
        let time = |value: &Option<david_schema::operate::Time>| {
            value.as_ref().map_or_else(String::new, ToString::to_string)
        };
        fact("action", action.action_id.clone());
        fact("run", action.run_id.clone());
        let name = action.registration_name.as_deref().unwrap_or("deleted");
        fact("server", format!("{} ({name})", action.registration_id));
        fact("tool", action.tool_name.clone());
        fact("phase", action.phase.clone());
        fact("outcome", optional(&action.outcome));
        fact("status", format!("{} (as Core sees it)", action.status));
        fact("due at", if action.finalised_at.is_none() { action.due_at.to_string() } else { String::new() });
        fact("leased by", optional(&action.leased_by));
        fact("tries failed", if action.attempt > 0 { action.attempt.to_string() } else { String::new() });
        fact("remote task", optional(&action.remote_task));
        fact("remote status", optional(&action.remote_status));
        fact("remote expiry", time(&action.remote_expires_at));
        fact("deadline", time(&action.execution_deadline));
        fact("created", action.created_at.to_string());
        fact("finalised", time(&action.finalised_at));
        fact("last error", optional(&action.last_error));
        text.push_str(&format!("{}\n", facts.trim_fmt()));
    }
    text.push_str(&format!("\nWHY\n  {}\n", plain(why)));
    text.push_str("\nTIMELINE\n");
    let mut lines = table(&["  at", "event", "transition", "phase", "outcome", "detail"]);
    for event in &history.timeline {
        let optional = |value: &Option<String>| plain(value.as_deref().unwrap_or_default());
        lines.add_row([
            format!("  {}", event.at),
            plain(&event.event),
            plain(&event.transition),
            optional(&event.phase),
            optional(&event.outcome),
            optional(&event.detail),
        ]);
    }
    if history.timeline.is_empty() {
        text.push_str("  nothing has happened yet\n");
    } else {
        text.push_str(&format!("{}\n", lines.trim_fmt()));
    }
    if !next.is_empty() {
        text.push_str("\nNEXT\n");
    }
    for advice in next {
        text.push_str(&format!("  {}\n", plain(&advice.why)));
        if let Some(command) = &advice.command {
            text.push_str(&format!("    {}\n", plain(command)));
        }
    }
    text
}
