//! `fail`.

use clap::Args;
use david_reconciler::ActionId;
use serde_json::json;

use super::Ended;
use super::arguments::{Common, NeededReason};
use super::output::{Format, plain, print, print_json};

/// Settings of `david-tasks fail`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The Action.
    action: String,

    #[command(flatten)]
    why: NeededReason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let changed = operator.fail(&ActionId::new(&arguments.action), &arguments.why.signed()).await?;
    let message = if changed {
        format!("{} has ended as failed (quarantined).", arguments.action)
    } else {
        format!("{} was ended by an operator before; nothing was changed.", arguments.action)
    };
    match arguments.common.format() {
        Format::Json => {
            print_json(&json!({ "action_id": arguments.action, "changed": changed, "message": message }))?;
        }
        Format::Human => print(&format!("{}\n", plain(&message)))?,
    }
    Ok(Ended::Done)
}
