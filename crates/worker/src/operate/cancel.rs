//! `cancel`.

use clap::Args;
use david_reconciler::{ActionId, Outcome, RunId};
use david_schema::operate::{Refused, RefusedKind, RunOf};
use serde_json::json;

use super::Ended;
use super::arguments::{Common, Reason};
use super::output::{Format, plain, print, print_json, quoted};
use super::refusal::refuse;

/// Settings of `david-tasks cancel`.
#[derive(Debug, Clone, Args)]
#[group(id = "what", required = true, multiple = false, args = ["action", "run"])]
pub(crate) struct Arguments {
    /// The Action whose Run is cancelled. Refused when it has ended, or the Run has other unfinished Actions.
    action: Option<String>,

    /// The Run to cancel, with all its unfinished Actions.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    #[command(flatten)]
    why: Reason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let format = arguments.common.format();
    let run = match (&arguments.run, &arguments.action) {
        (Some(run), _) => RunId::new(run),
        (None, action) => {
            let action = ActionId::new(action.clone().unwrap_or_default());
            match operator.run_of(&action).await? {
                None => return refuse(&unknown(&action), format),
                // Whoever names one Action does not mean its neighbours.
                Some(RunOf { run, others: others @ 1.., .. }) => {
                    return refuse(&shared(&action, &run, others), format);
                }
                // A second time is no mistake.
                Some(RunOf { run, outcome: None | Some(Outcome::RunCancelled), .. }) => run,
                Some(RunOf { run, outcome: Some(outcome), .. }) => {
                    return refuse(&ended(&action, &run, outcome), format);
                }
            }
        }
    };
    let changed = operator.cancel_run(&run, &arguments.why.or("cancelled by david-tasks cancel")).await?;
    let message = match changed {
        true => format!(
            "Run {run} is cancelled, for good; remote tasks are told as soon as a replica gets to it."
        ),
        false => format!("Run {run} was cancelled already; nothing was changed."),
    };
    match format {
        Format::Json => {
            print_json(&json!({ "run_id": run.as_str(), "changed": changed, "message": message }))?
        }
        Format::Human => print(&format!("{}\n", plain(&message)))?,
    }
    Ok(Ended::Done)
}

fn unknown(action: &ActionId) -> Refused {
    let message = format!("Action {action} does not exist, or has no remote work");
    Refused { kind: RefusedKind::NotFound, message, hint: None }
}

fn ended(action: &ActionId, run: &RunId, outcome: Outcome) -> Refused {
    Refused {
        kind: RefusedKind::TooLate,
        message: format!("Action {action} has ended already, {}", outcome.as_str()),
        hint: Some(format!("What else Run {run} does: `david-tasks cancel --run {}`.", quoted(run.as_str()))),
    }
}

fn shared(action: &ActionId, run: &RunId, others: usize) -> Refused {
    let run_word = quoted(run.as_str());
    Refused {
        kind: RefusedKind::NotNow,
        message: format!("Action {action} is one of {} unfinished Actions of Run {run}", others + 1),
        hint: Some(format!(
            "All of them: `david-tasks cancel --run {run_word}`. This one alone: `david-tasks fail {} --reason WHY`.",
            quoted(action.as_str())
        )),
    }
}
