//! The table and the JSON file.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

/// What was measured so far.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Row>);

#[derive(Debug)]
struct Row {
    letter: &'static str,
    figure: &'static str,
    unit: &'static str,
    target: &'static str,
    samples: Vec<f64>,
    /// Why there are no samples.
    missing: Option<String>,
}

impl Report {
    /// One figure, measured as often as there are samples. An empty target means that it is context.
    pub(crate) fn add(
        &mut self,
        letter: &'static str,
        figure: &'static str,
        unit: &'static str,
        target: &'static str,
        samples: &[f64],
    ) {
        eprintln!("{letter:<3} {figure}: {samples:.3?} {unit}");
        let mut samples = samples.to_vec();
        samples.sort_by(f64::total_cmp);
        self.0.push(Row { letter, figure, unit, target, samples, missing: None });
    }

    /// A figure that could not be measured here. The others can, so it ends nothing.
    pub(crate) fn missing(
        &mut self,
        letter: &'static str,
        figure: &'static str,
        target: &'static str,
        why: String,
    ) {
        eprintln!("{letter:<3} {figure}: not measured: {why}");
        self.0.push(Row { letter, figure, unit: "", target, samples: Vec::new(), missing: Some(why) });
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let rows: Vec<Value> = self
            .0
            .iter()
            .map(|row| {
                json!({
                    "figure": row.letter, "name": row.figure, "unit": row.unit, "target": row.target,
                    "median": row.median(), "samples": row.samples, "not_measured": row.missing,
                })
            })
            .collect();
        let text = serde_json::to_string_pretty(&rows)?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Row {
    fn median(&self) -> f64 {
        self.samples.get(self.samples.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | figure | median | range | target |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        for row in &self.0 {
            if let Some(why) = &row.missing {
                writeln!(f, "| {} | {} | not measured: {why} | | {} |", row.letter, row.figure, row.target)?;
                continue;
            }
            let (first, last) = (row.samples.first(), row.samples.last());
            let range = match (first, last) {
                (Some(first), Some(last)) if row.samples.len() > 1 => {
                    format!("{}–{}", short(*first), short(*last))
                }
                _ => String::new(),
            };
            let median = short(row.median());
            writeln!(
                f,
                "| {} | {} | {median} {} | {range} | {} |",
                row.letter, row.figure, row.unit, row.target
            )?;
        }
        Ok(())
    }
}

/// Three digits that say something.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
