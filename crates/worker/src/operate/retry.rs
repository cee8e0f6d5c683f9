//! `retry`.

use clap::Args;
use david_reconciler::ActionId;
use david_schema::causes;
use serde_json::json;

use super::arguments::{Common, Reason};
use super::output::{Format, plain, print, print_json};
use super::{Ended, advice};

/// Settings of `david-tasks retry`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The Action.
    action: String,

    #[command(flatten)]
    why: Reason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let action = ActionId::new(&arguments.action);
    let changed = operator.retry(&action, &arguments.why.or("retried by david-tasks retry")).await?;
    let mut message = match changed {
        true => format!("{action} is due now, and its failures are forgotten."),
        false => format!("{action} was due already; nothing was changed."),
    };
    // Due is not leased: a closed server's rows stay where they are.
    let closed = match operator.history(&action).await {
        Ok(history) => history.server.and_then(|server| advice::closed(&server)),
        // It is done all the same.
        Err(error) => {
            tracing::warn!(error = causes(&error), "how its server stands could not be read");
            None
        }
    };
    if let Some(advice) = &closed {
        message.push_str(&format!(" But nothing happens yet: {}", advice.why));
    }
    match arguments.common.format() {
        Format::Json => print_json(&json!({
            "action_id": arguments.action, "changed": changed, "message": message,
            "next": closed.into_iter().collect::<Vec<_>>(),
        }))?,
        Format::Human => {
            print(&format!("{}\n", plain(&message)))?;
            if let Some(command) = closed.and_then(|advice| advice.command) {
                print(&format!("  {command}\n"))?;
            }
        }
    }
    Ok(Ended::Done)
}
