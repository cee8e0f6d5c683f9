//! `prune`.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use david_schema::Pruned;
use david_schema::operate::Outputs;
use futures::FutureExt as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Ended;
use super::arguments::{Common, Reason};
use super::output::{Format, print, print_json};
use crate::config::duration;

/// Settings of `david-tasks prune`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// How long to keep what has ended (duration, such as 30d).
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    older_than: Duration,

    /// Rows of each kind per transaction at most (count).
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    batch: u32,

    /// Transactions at most (count); without a bound, until nothing is left.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    max_batches: Option<u64>,

    /// Which outputs to delete.
    #[arg(long, default_value = "acknowledged", value_name = "WHICH")]
    outputs: OutputsChoice,

    #[command(flatten)]
    why: Reason,

    #[command(flatten)]
    pub(super) common: Common,
}

/// `acknowledged` or `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputsChoice {
    /// Those that Core has acknowledged.
    Acknowledged,
    /// All, for a Core that reads them where they stand.
    All,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let operator = arguments.common.operator().await?;
    let signed = arguments.why.or("retention");
    let outputs = match arguments.outputs {
        OutputsChoice::Acknowledged => Outputs::Acknowledged,
        OutputsChoice::All => Outputs::All,
    };
    let (mut total, mut batches, mut left) = (Pruned::default(), 0, true);
    let shows_progress = arguments.common.format() == Format::Human && std::io::stderr().is_terminal();
    // Between two batches nothing is half done, so there is the place to stop.
    let mut interrupt = signal(SignalKind::interrupt())?;
    while left && arguments.max_batches.is_none_or(|most| batches < most) {
        let batch = operator.prune(arguments.older_than, arguments.batch, outputs, &signed).await?;
        batches += 1;
        left = batch.total() > 0;
        total += batch;
        if shows_progress {
            eprint!("\r{} so far, {batches} batches ", words(total));
        }
        if interrupt.recv().now_or_never().is_some() {
            break;
        }
    }
    if shows_progress {
        eprintln!();
    }
    match arguments.common.format() {
        Format::Json => print_json(&json!({
            "tasks": total.tasks, "outputs": total.outputs, "events": total.events, "batches": batches, "complete": !left,
        }))?,
        Format::Human => {
            let rest = if left { "; there may be more" } else { "; nothing is left that is old enough" };
            print(&format!("Deleted {}{rest}.\n", words(total)))?;
        }
    }
    Ok(Ended::Done)
}

fn words(pruned: Pruned) -> String {
    format!("{} tasks, {} outputs, {} lines of history", pruned.tasks, pruned.outputs, pruned.events)
}
