//! `release`.

use clap::Args;
use david_schema::ReplicaId;
use serde_json::json;
use uuid::Uuid;

use super::Ended;
use super::arguments::{Common, Reason};
use super::output::{Format, print, print_json};

/// Leases per transaction.
const BATCH: u32 = 10_000;

/// Settings of `david-tasks release`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The replica, as `david-tasks status` and its own log name it (UUID).
    replica: Uuid,

    #[command(flatten)]
    why: Reason,

    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let replica = ReplicaId(arguments.replica);
    let signed = arguments.why.or("released by david-tasks release");
    let mut released = 0;
    loop {
        let rows = operator.release(replica, &signed, BATCH).await?;
        released += rows;
        if rows < i64::from(BATCH) {
            break;
        }
    }
    let calls = operator.calls_of(replica).await?;
    let mut message = match released {
        0 => format!("Replica {} had no lease that can be taken away.", replica.0),
        rows => format!(
            "{rows} leases of replica {} are taken away: whoever leases next has these rows.",
            replica.0
        ),
    };
    if calls > 0 {
        message.push_str(&format!(
            " {calls} calls of it may be on the wire; these rows stay, and lapse by themselves."
        ));
    }
    match arguments.common.format() {
        Format::Json => print_json(&json!({
            "replica": replica.0.to_string(), "released": released, "calls": calls, "message": message,
        }))?,
        Format::Human => print(&format!("{message}\n"))?,
    }
    // A replica of which nothing is known may be a slip of the pen.
    Ok(if released == 0 && calls == 0 { Ended::NotFound } else { Ended::Done })
}
