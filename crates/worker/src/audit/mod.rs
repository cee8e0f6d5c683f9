//! The migration gate, proven by real calls (docs/sdk-audit.md).

/// How the gate is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// `GATE=VERDICT` lines.
    Lines,
    /// One JSON object.
    Json,
}

/// Whether every gate is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every one.
    Passed,
    /// Not every one.
    NotPassed,
}

/// Audits.
pub async fn run(_url: Option<String>, _format: OutputFormat) -> anyhow::Result<Verdict> {
    anyhow::bail!("not yet")
}
