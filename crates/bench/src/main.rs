//! `scripts/bench`: what durability costs, beside the bare SDK, against the same server in the same run.
//!
//! Ratios within one run are what counts: the machine is small, shared and noisy, and the server and the
//! load live on it too. Every figure is measured several times; the table shows the median and the range.

mod bare;
mod figures;
mod load;
mod memory;
mod process;
mod queue;
mod report;
mod stand;

use std::path::PathBuf;

use clap::Parser;
use mimalloc::MiMalloc;

use report::Report;
use stand::{Scale, Stand};

/// The product's, so that the bare SDK is not slower for want of it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures david-tasks beside the bare SDK.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// A tenth of everything, once: shows that it runs, not how fast
    #[arg(long)]
    quick: bool,
    /// Only these figures, by letter
    #[arg(long, value_delimiter = ',', value_name = "LETTER")]
    only: Vec<String>,
    /// Measurements per figure, instead of three (one with --quick)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    repeats: Option<u8>,
    /// Where the figures go as JSON (path)
    #[arg(long, default_value = "target/bench.json", value_name = "FILE")]
    json: PathBuf,
    /// Be the server under load, and nothing else
    #[arg(long, hide = true)]
    serve: bool,
    /// Be so many idle clients of the bare SDK at --url, and nothing else
    #[arg(long, hide = true, requires = "url", value_name = "N")]
    hold_clients: Option<usize>,
    /// For --hold-clients
    #[arg(long, hide = true)]
    url: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.serve {
        return load::serve().await;
    }
    if let (Some(count), Some(url)) = (args.hold_clients, &args.url) {
        return memory::hold_clients(url, count).await;
    }
    let mut scale = if args.quick { Scale::quick() } else { Scale::full() };
    scale.repeats = args.repeats.map_or(scale.repeats, usize::from);
    let wanted =
        |letter: &str| args.only.is_empty() || args.only.iter().any(|only| only.eq_ignore_ascii_case(letter));
    let mut report = Report::default();
    // Idle first, since everything after it leaves rows behind.
    let stand = Stand::new(scale).await?;
    if wanted("I") {
        figures::idle(&stand, &mut report).await?;
    }
    if wanted("A") || wanted("B") {
        figures::polling(&stand, &mut report).await?;
    }
    if wanted("H") {
        memory::held(&stand, &mut report).await?;
    }
    if wanted("J") {
        figures::replicas(&stand, &mut report).await?;
    }
    if wanted("K") {
        figures::kill(&stand, &mut report).await?;
    }
    if wanted("M") {
        figures::cancel(&stand, &mut report).await?;
    }
    if wanted("L") {
        figures::completion(&stand, &mut report).await?;
    }
    if wanted("N") {
        figures::dead_server(&stand, &mut report).await?;
    }
    if wanted("G") {
        figures::wake_up(&stand, &mut report).await?;
        queue::inserts(&stand, &mut report).await?;
    }
    if wanted("F2") {
        figures::whole_path(&stand, &mut report).await?;
    }
    if wanted("C") {
        queue::schedule(&stand, &mut report).await?;
    }
    if wanted("D") {
        queue::snapshot(&stand, &mut report).await?;
    }
    if wanted("E") {
        queue::resting(&stand, &mut report).await?;
    }
    if wanted("F1") {
        queue::whole(&stand, &mut report).await?;
    }
    report.write(&args.json)?;
    println!("{report}");
    Ok(())
}
