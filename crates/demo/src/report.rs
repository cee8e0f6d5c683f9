//! The table at the end, and whether it is right.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use david_reconciler::Outcome;

use crate::plan::Plan;
use crate::servers::Servers;
use crate::store::Store;

pub(crate) struct Report {
    kinds: Vec<KindRow>,
    outputs: BTreeMap<i64, usize>,
    duplicate_calls: usize,
    unknown_outcomes: usize,
    faults: Vec<String>,
    took: Duration,
}

struct KindRow {
    name: &'static str,
    submitted: usize,
    expected: &'static str,
    outcomes: BTreeMap<String, usize>,
}

impl Report {
    pub(crate) async fn gather(
        store: &Store,
        plan: &Plan,
        servers: &Servers,
        took: Duration,
    ) -> anyhow::Result<Self> {
        let standings = store.standings(plan).await?;
        let calls = servers.calls().await?;
        let mut report = Self {
            kinds: Plan::kinds()
                .map(|name| KindRow { name, submitted: 0, expected: "", outcomes: BTreeMap::new() })
                .collect(),
            outputs: BTreeMap::new(),
            duplicate_calls: 0,
            unknown_outcomes: 0,
            faults: Vec::new(),
            took,
        };
        for action in &plan.actions {
            let Some(standing) = standings.get(&action.action) else {
                report.faults.push(format!("{} is gone", action.action));
                continue;
            };
            let outcome = standing.outcome.clone().unwrap_or_else(|| format!("none ({})", standing.phase));
            if let Some(row) = report.kinds.iter_mut().find(|row| row.name == action.kind) {
                row.submitted += 1;
                row.expected = action.expected.as_str();
                *row.outcomes.entry(outcome.clone()).or_default() += 1;
            }
            let ended_as = Outcome::parse(&outcome);
            let lost = action.may_be_lost && ended_as == Some(Outcome::OutcomeUnknown);
            report.unknown_outcomes += usize::from(lost);
            if ended_as != Some(action.expected) && !lost {
                report.faults.push(format!("{} ({}) ended as {outcome}", action.action, action.kind));
            }
            if let Some(ended_as) = ended_as {
                // A cancelled Run's Actions have no output; every other end has exactly one.
                let wanted = i64::from(ended_as != Outcome::RunCancelled);
                if wanted == 1 {
                    *report.outputs.entry(standing.outputs).or_default() += 1;
                }
                if standing.outputs != wanted {
                    report.faults.push(format!("{} has {} outputs", action.action, standing.outputs));
                }
                if standing.status != ended_as.action_status().as_str() {
                    report.faults.push(format!(
                        "{} is {}, not {}",
                        action.action,
                        standing.status,
                        ended_as.action_status().as_str()
                    ));
                }
            }
            let called = calls.get(&action.action).copied().unwrap_or(0);
            if called > 1 {
                report.duplicate_calls += 1;
                report.faults.push(format!("{} was called {called} times", action.action));
            }
        }
        Ok(report)
    }

    pub(crate) fn is_right(&self) -> bool {
        self.faults.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>9}  {:<18} ended as", "Actions", "submitted", "must end as")?;
        for row in &self.kinds {
            let outcomes: Vec<String> =
                row.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
            writeln!(
                f,
                "{:<24} {:>9}  {:<18} {}",
                row.name,
                row.submitted,
                row.expected,
                outcomes.join(", ")
            )?;
        }
        let outputs: Vec<String> =
            self.outputs.iter().map(|(outputs, actions)| format!("{outputs} for {actions}")).collect();
        writeln!(f)?;
        writeln!(f, "outputs per Action that ended with one (must be 1)   {}", outputs.join(", "))?;
        writeln!(f, "duplicate tools/call seen by the servers (must be 0) {}", self.duplicate_calls)?;
        writeln!(f, "outcome_unknown, in mid-call at the kill             {}", self.unknown_outcomes)?;
        writeln!(f, "time                                                 {:.1} s", self.took.as_secs_f64())?;
        for fault in self.faults.iter().take(20) {
            writeln!(f, "WRONG: {fault}")?;
        }
        writeln!(
            f,
            "\n{}",
            if self.is_right() {
                "Every Action ended exactly once, as it should."
            } else {
                "NOT as submitted."
            }
        )
    }
}
