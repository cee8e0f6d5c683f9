//! `give-up`.

use clap::Args;
use david_reconciler::ActionId;
use david_schema::operate::{OperatorError, RefusedKind};
use serde_json::json;

use super::Ended;
use super::arguments::{Common, NeededReason};
use super::output::{Format, plain, print, print_json};
use super::refusal::refuse;

/// Settings of `david-tasks give-up`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The Action, which has ended and owes a cancel.
    action: String,

    #[command(flatten)]
    why: NeededReason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let changed = match operator.give_up(&ActionId::new(&arguments.action), &arguments.why.signed()).await {
        // The reason was looked at before: what makes no sense is how the Action stands.
        Err(OperatorError::Refused(refused)) if refused.kind == RefusedKind::Senseless => {
            refuse(&refused, arguments.common.format())?;
            return Ok(Ended::Refused);
        }
        changed => changed?,
    };
    let message = if changed {
        format!("The cancel of {} is given up; its remote task may run on.", arguments.action)
    } else {
        format!("{} owed no cancel any more; nothing was changed.", arguments.action)
    };
    match arguments.common.format() {
        Format::Json => {
            print_json(&json!({ "action_id": arguments.action, "changed": changed, "message": message }))?;
        }
        Format::Human => print(&format!("{}\n", plain(&message)))?,
    }
    Ok(Ended::Done)
}
