//! `doctor`: is everything as a worker needs it? Looks, changes nothing, and runs as worker or operator.
//!
//! Each check is a file of its own and tells findings; a check that cannot be made is a finding, too.

mod clock;
mod credentials;
mod database;
mod finding;
mod level;
mod rights;
mod servers;
mod structure;
mod upkeep;
mod way;

use std::time::Duration;

use clap::Args;
use david_schema::causes;
use david_schema::operate::{Expected, OperatorError, RefusedKind};
use serde_json::json;

use super::Ended;
use super::arguments::Common;
use super::output::{Format, plain, print, print_json};
use crate::config::{CredentialsConfig, Pooling, Switch, duration, host};
use finding::{Finding, Severity};

/// Settings of `david-tasks doctor`. Those that a worker has, too, are to be the worker's.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,

    /// As what this role is judged; by default as whichever it resembles more.
    #[arg(long = "as", value_name = "ROLE")]
    role: Option<RoleChoice>,

    /// Replicas that are to run (count).
    #[arg(long, default_value_t = 2, value_name = "N")]
    replicas: u32,

    /// The worker's --db-connections.
    #[arg(long, env = "DAVID_TASKS_DB_CONNECTIONS", default_value_t = 8, value_name = "N")]
    db_connections: u32,

    /// The worker's --db-pooling.
    #[arg(long, env = "DAVID_TASKS_DB_POOLING", default_value = "session", value_name = "MODE")]
    db_pooling: Pooling,

    /// The worker's --wake-ups.
    #[arg(long, env = "DAVID_TASKS_WAKE_UPS", default_value = "on", value_name = "SWITCH")]
    wake_ups: Switch,

    /// The worker's --trusted-hosts.
    #[arg(long, env = "DAVID_TASKS_TRUSTED_HOSTS", value_delimiter = ',', value_parser = host, value_name = "HOST")]
    trusted_hosts: Vec<String>,

    #[command(flatten)]
    credentials: CredentialsConfig,

    /// From when on a transaction is a long one (duration).
    #[arg(long, default_value = "5m", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    long_transaction: Duration,

    /// How far this machine's clock may be from the database's (duration).
    #[arg(long, default_value = "2s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    clock_tolerance: Duration,

    /// Longest that one server may take to answer (duration).
    #[arg(long, default_value = "10s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    server_timeout: Duration,

    /// Longest that all servers together may take (duration); those left over are not looked at.
    #[arg(long, default_value = "1m", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    servers_within: Duration,
}

/// `worker` or `operator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RoleChoice {
    /// As a login that workers use.
    Worker,
    /// As a login that operators use.
    Operator,
}

impl From<RoleChoice> for Expected {
    fn from(choice: RoleChoice) -> Self {
        match choice {
            RoleChoice::Worker => Self::Worker,
            RoleChoice::Operator => Self::Operator,
        }
    }
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Ended> {
    let mut findings = examine(arguments).await?;
    findings.sort_by_key(|finding| finding.severity);
    let healthy = findings.iter().all(|finding| finding.severity == Severity::Notice);
    match arguments.common.format() {
        Format::Json => print_json(&json!({ "healthy": healthy, "findings": findings }))?,
        Format::Human => print(&text(&findings, healthy))?,
    }
    Ok(if healthy { Ended::Done } else { Ended::Unhealthy })
}

async fn examine(arguments: &Arguments) -> anyhow::Result<Vec<Finding>> {
    let operator = arguments.common.prepare()?;
    let (source, mut findings) = credentials::source(&arguments.credentials);
    if let Err(error) = operator.reach().await {
        let said = causes(&error);
        let fix = if said.contains("unsupported startup parameter") {
            "In pgbouncer.ini: ignore_startup_parameters = extra_float_digits (docs/deployment.md)"
        } else {
            "Correct DATABASE_URL, or start the server; `psql \"$DATABASE_URL\" -c 'select 1'` shows when it is right."
        };
        let what = format!("The database cannot be reached: {said}.");
        findings.push(
            Finding::new(Severity::Error, "database_unreachable", what)
                .because("Without it nothing else can be checked, and no worker starts.")
                .fix(fix),
        );
        return Ok(findings);
    }
    let mut add = |what: &str, told: Result<Vec<Finding>, OperatorError>| match told {
        Ok(told) => findings.extend(told),
        Err(error) => findings.extend(unchecked(what, &error)),
    };
    add("the server", database::check(&operator, arguments).await);
    add("the migrations", level::check(&operator).await);
    add("whether the schema is whole", structure::check(&operator).await);
    add("what this role may do", rights::check(&operator, arguments.role.map(Expected::from)).await);
    add("the settings for vacuum", upkeep::check_settings(&operator).await);
    add("what keeps vacuum back", upkeep::check_blockers(&operator, arguments.long_transaction).await);
    add("replication slots", upkeep::check_slots(&operator).await);
    add("the hot table", upkeep::check_dead_rows(&operator).await);
    add("the clocks", clock::check(&operator, arguments.clock_tolerance).await);
    findings.extend(way::check(&operator, arguments).await);
    match operator.registrations(servers::MOST).await {
        Ok(registrations) => {
            let named: Vec<_> =
                registrations.iter().filter_map(|(_, _, credential)| credential.clone()).collect();
            findings.extend(credentials::check_files(&arguments.credentials, &named));
            findings.extend(servers::check(&registrations, source, arguments).await?);
        }
        Err(error) => findings.extend(unchecked("the servers", &error)),
    }
    Ok(findings)
}

/// A check that could not be made. Views that are not there yet are the migrations' finding.
fn unchecked(what: &str, error: &OperatorError) -> Option<Finding> {
    let (severity, fix) = match error {
        OperatorError::Refused(refused) if refused.kind == RefusedKind::NoSchema => return None,
        OperatorError::Refused(refused) if refused.kind == RefusedKind::NotPermitted => {
            (Severity::Notice, "Run doctor with the worker's DATABASE_URL, or with an operator's.")
        }
        OperatorError::Refused(_) | OperatorError::Database { .. } | OperatorError::Unreadable(_) => {
            (Severity::Warning, "Run doctor again; if it stays, look into the server's log.")
        }
    };
    Some(Finding {
        severity,
        check: "unchecked",
        subject: None,
        what: format!("It could not be checked: {what}."),
        why: format!("{}.", causes(error).trim_end_matches('.')),
        fix: fix.to_owned(),
    })
}

fn text(findings: &[Finding], healthy: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!(
            "{} {}: {}\n    why: {}\n    fix: {}\n\n",
            finding.severity.word(),
            finding.check,
            plain(&finding.what),
            plain(&finding.why),
            plain(&finding.fix)
        ));
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    text.push_str(&match (healthy, count(Severity::Notice)) {
        (true, 0) => "All is well.\n".to_owned(),
        (true, notices) => format!("All is well; {notices} notices.\n"),
        (false, notices) => format!("{errors} errors, {warnings} warnings, {notices} notices.\n"),
    });
    text
}
