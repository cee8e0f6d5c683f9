//! `resume`.

use clap::Args;
use david_reconciler::RegistrationId;
use serde_json::json;

use super::Ended;
use super::arguments::{Common, Reason};
use super::output::{Format, plain, print, print_json};

/// Settings of `david-tasks resume`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The server's registration.
    registration: String,

    #[command(flatten)]
    why: Reason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let changed = operator
        .resume(
            &RegistrationId::new(&arguments.registration),
            &arguments.why.or("resumed by david-tasks resume"),
        )
        .await?;
    let message = if changed {
        format!(
            "{} is resumed and its circuit breaker closed: what is due is leased at once.",
            arguments.registration
        )
    } else {
        format!(
            "{} was neither paused nor cut off by its circuit breaker; nothing was changed.",
            arguments.registration
        )
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
