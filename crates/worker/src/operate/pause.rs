//! `pause`.

use clap::Args;
use david_reconciler::RegistrationId;
use serde_json::json;

use super::Ended;
use super::arguments::{Common, NeededReason};
use super::output::{Format, plain, print, print_json};

/// Settings of `david-tasks pause`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The server's registration.
    registration: String,

    #[command(flatten)]
    why: NeededReason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let changed =
        operator.pause(&RegistrationId::new(&arguments.registration), &arguments.why.signed()).await?;
    let message = if changed {
        format!(
            "{} is paused: nothing of it is leased; calls that are out are waited for, deadlines go on.",
            arguments.registration
        )
    } else {
        format!("{} was paused already; nothing was changed.", arguments.registration)
    };
    match arguments.common.format() {
        Format::Json => {
            print_json(
                &json!({ "registration_id": arguments.registration, "changed": changed, "message": message }),
            )?;
        }
        Format::Human => print(&format!("{}\n", plain(&message)))?,
    }
    Ok(Ended::Done)
}
