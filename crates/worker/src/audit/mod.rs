//! The migration gate, proven by real calls (docs/sdk-audit.md).
//!
//! Every gate is tried on a real server through the worker's own adapter, so that an upgrade of the
//! SDK, or a server somebody is about to register, is judged by what it does.

mod gate;
mod probe;
mod proofs;
mod seen;

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use david_sample::{Options, Server};
use serde_json::json;
use tokio::time::Instant;

pub use gate::{Gate, Judgement};
use probe::Probe;

/// How the gate is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// `GATE=WORD` lines on stdout, and what was seen on stderr.
    Lines,
    /// One JSON object on stdout.
    Json,
}

/// Whether every gate is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every one.
    Passed,
    /// Not every one: some failed, or could not be tried.
    NotPassed,
}

/// The whole audit takes no longer, whatever the server does. (A sample server takes up to two seconds
/// more to stop.)
const LIMIT: Duration = Duration::from_secs(15);

fn holds_credential(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

/// Audits the server at `url`, or a sample server started for the purpose, and prints the gate.
///
/// Another server's tools are called only where they have the sample's names; what cannot be tried so
/// is `UNPROVEN`.
///
/// # Errors
/// When the server cannot be reached at all, or the output cannot be written.
pub async fn run(url: Option<String>, format: OutputFormat) -> anyhow::Result<Verdict> {
    if url.as_deref().is_some_and(holds_credential) {
        // Not the URL: it would be in the log then.
        anyhow::bail!("the URL to audit holds a user name or a password; leave them out");
    }
    let sample = match &url {
        Some(_) => None,
        None => Some(Server::start(Options::default()).await.context("the sample server cannot start")?),
    };
    let url = url.or(sample.as_ref().map(Server::url)).context("there is no server to audit")?;
    let judgements = judge(&url).await?;
    print(&judgements, &url, format)?;
    if let Some(sample) = sample {
        sample.shutdown().await?;
    }
    let passed = judgements.iter().all(|(_, judgement)| judgement.is_good());
    Ok(if passed { Verdict::Passed } else { Verdict::NotPassed })
}

async fn judge(url: &str) -> anyhow::Result<Vec<(Gate, Judgement)>> {
    let probe = Probe::reach(url, Instant::now() + LIMIT).await?;
    let (extension, ids, statuses, results, cancel, ttl, input) = tokio::join!(
        proofs::extension(&probe),
        proofs::task_ids(&probe),
        proofs::statuses(&probe),
        proofs::results(&probe),
        proofs::cancel(&probe),
        proofs::ttl(&probe),
        proofs::input(&probe),
    );
    let proofs = [extension, ids, statuses, results, cancel, ttl, input];
    Ok(Gate::ALL.into_iter().zip(proofs).map(|(gate, proof)| (gate, Judgement::of(proof))).collect())
}

fn print(judgements: &[(Gate, Judgement)], url: &str, format: OutputFormat) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        OutputFormat::Lines => {
            let mut notes = std::io::stderr().lock();
            writeln!(notes, "# {url}")?;
            for (gate, judgement) in judgements {
                writeln!(out, "{}={}", gate.name(), judgement.word(*gate))?;
                writeln!(notes, "# {}: {}", gate.name(), judgement.evidence())?;
            }
        }
        OutputFormat::Json => {
            let gates: Vec<_> = judgements
                .iter()
                .map(|(gate, judgement)| {
                    json!({
                        "gate": gate.name(),
                        "verdict": judgement.word(*gate),
                        "evidence": judgement.evidence(),
                    })
                })
                .collect();
            writeln!(out, "{}", json!({ "server": url, "gates": gates }))?;
        }
    }
    Ok(())
}
