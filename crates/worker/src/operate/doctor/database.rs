//! The server: its version, whether it keeps what it acknowledged, whether it has room for the replicas.

use std::collections::BTreeMap;

use david_schema::operate::{Operator, OperatorError, Server};

use super::Arguments;
use super::finding::{Finding, Severity, quoted_name};
use crate::config::Pooling;

const SETTINGS: [&str; 9] = [
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "max_connections",
    "superuser_reserved_connections",
    "reserved_connections",
];

/// Those that are looked at where they are tied to a role, too: Core's roles are not the worker's.
const TIED: [&str; 2] = ["synchronous_commit", "default_transaction_read_only"];

pub(super) async fn check(operator: &Operator, arguments: &Arguments) -> Result<Vec<Finding>, OperatorError> {
    let server = operator.server().await?;
    let settings = operator.settings(&SETTINGS).await?;
    let mut findings = fitness(&server);
    for tied in operator.role_settings(&TIED).await? {
        let whose = match (&tied.role, &tied.database) {
            (Some(role), Some(database)) => {
                format!("role {} in database {}", quoted_name(role), quoted_name(database))
            }
            (Some(role), None) => format!("role {}", quoted_name(role)),
            (None, Some(database)) => format!("database {}", quoted_name(database)),
            (None, None) => continue,
        };
        let reset = match (&tied.role, &tied.database) {
            (Some(role), Some(database)) => {
                format!("alter role {} in database {} reset", quoted_name(role), quoted_name(database))
            }
            (Some(role), None) => format!("alter role {} reset", quoted_name(role)),
            (None, database) => {
                format!(
                    "alter database {} reset",
                    quoted_name(database.as_deref().unwrap_or(&server.database))
                )
            }
        };
        let finding = match (tied.name.as_str(), tied.value.as_str()) {
            ("synchronous_commit", "off") => synchronous_commit_off(&format!("for {whose}")),
            ("default_transaction_read_only", "on" | "true") => read_only(&format!("for {whose}")),
            _ => continue,
        };
        findings.push(finding.of(whose).fix(format!("{reset} {};", tied.name)));
    }
    // What is tied to the connecting role, or to its database, is seen in its session, too.
    let told: Vec<&str> = findings.iter().map(|finding| finding.check).collect();
    let mut of_session = durability(&server, &settings);
    of_session.retain(|finding| !told.contains(&finding.check));
    findings.extend(of_session);
    if arguments.db_pooling == Pooling::Session {
        findings.extend(room(&server, &settings, arguments, operator.replicas().await.unwrap_or_default()));
    }
    let timeout = settings.get("idle_in_transaction_session_timeout").map_or("0", String::as_str);
    if timeout == "0" {
        let what =
            "Sessions may stay idle in a transaction for ever (idle_in_transaction_session_timeout is 0).";
        findings.push(
            Finding::new(Severity::Notice, "idle_in_transaction_unbounded", what)
                .of("idle_in_transaction_session_timeout")
                .because("One forgotten transaction keeps vacuum from the hot table, and every lease gets slower. The worker's own sessions are bounded.")
                .fix(system("idle_in_transaction_session_timeout", "'5min'")),
        );
    }
    Ok(findings)
}

fn fitness(server: &Server) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !server.is_supported {
        let what = format!("The server is Postgres {}; 14 or newer is needed.", server.version);
        findings.push(
            Finding::new(Severity::Error, "old_server", what)
                .because("Nothing here is tested with older ones, and they get no fixes.")
                .fix("Upgrade with pg_upgrade."),
        );
    }
    if server.encoding != "UTF8" {
        let what = format!("The database's encoding is {}.", server.encoding);
        findings.push(
            Finding::new(Severity::Error, "encoding", what)
                .because("It cannot hold every string a server may send.")
                .fix("create database … encoding 'UTF8' template template0;"),
        );
    }
    if server.is_standby {
        findings.push(
            Finding::new(Severity::Error, "standby", "The connection leads to a standby.")
                .because("Nothing can be written there, so nothing can be leased.")
                .fix("Point DATABASE_URL at the primary."),
        );
    }
    findings
}

fn durability(server: &Server, settings: &BTreeMap<String, String>) -> Vec<Finding> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|set| set == value);
    let mut findings = Vec::new();
    if is("fsync", "off") {
        findings.push(
            Finding::new(Severity::Error, "fsync_off", "fsync is off.")
                .of("fsync")
                .because("A power failure may corrupt the database, or forget that a call was begun: it would be made twice.")
                .fix(system("fsync", "on")),
        );
    }
    if is("full_page_writes", "off") {
        findings.push(
            Finding::new(Severity::Error, "full_page_writes_off", "full_page_writes is off.")
                .of("full_page_writes")
                .because(
                    "A power failure in the middle of a write may leave a page that is half old, half new.",
                )
                .fix(system("full_page_writes", "on")),
        );
    }
    if is("synchronous_commit", "off") {
        let subject = format!("role {}", quoted_name(&server.role));
        findings.push(synchronous_commit_off("for the connecting role").of(subject).fix(format!(
            "alter role {} reset synchronous_commit; {}",
            quoted_name(&server.role),
            system("synchronous_commit", "on")
        )));
    }
    if is("default_transaction_read_only", "on") {
        findings
            .push(read_only("for the connecting role").fix(system("default_transaction_read_only", "off")));
    }
    if server.standbys > 0 && is("synchronous_standby_names", "") {
        let what = format!("{} standbys replicate, none of them synchronously.", server.standbys);
        findings.push(
            Finding::new(Severity::Warning, "asynchronous_standby", what)
                .of("synchronous_standby_names")
                .because("A failover may forget that a call was begun: it would be made twice. It may forget a cancel, too.")
                .fix(system("synchronous_standby_names", "'ANY 1 (*)'")),
        );
    }
    findings
}

/// The worker's sessions pin it on; Core's and everybody else's do not.
fn synchronous_commit_off(whose: &str) -> Finding {
    Finding::new(Severity::Error, "synchronous_commit_off", format!("synchronous_commit is off {whose}."))
        .because(
            "A crash of the server may forget a cancel, an answer or a submission that was acknowledged.",
        )
}

fn read_only(whose: &str) -> Finding {
    Finding::new(Severity::Error, "read_only", format!("Transactions are read-only {whose}."))
        .because("Nothing can be leased, submitted or cancelled.")
}

fn room(
    server: &Server,
    settings: &BTreeMap<String, String>,
    arguments: &Arguments,
    seen: i64,
) -> Vec<Finding> {
    let number = |name: &str| settings.get(name).and_then(|value| value.parse::<i64>().ok()).unwrap_or(0);
    let replicas = i64::from(arguments.replicas).max(seen);
    // One more listens for wake-ups.
    let needed = replicas * (i64::from(arguments.db_connections) + 1);
    let room =
        number("max_connections") - number("superuser_reserved_connections") - number("reserved_connections");
    let words = |limit: i64, of: &str| {
        format!("{replicas} replicas may take {needed} connections; {of} allows {limit}.")
    };
    let why = "A replica that gets no connection leases nothing; Core may get none either.";
    let mut findings = Vec::new();
    let mut limit = |limit: i64, of: String, fix: String| {
        if needed > limit {
            findings.push(
                Finding::new(Severity::Warning, "too_few_connections", words(limit, &of))
                    .of(of)
                    .because(why)
                    .fix(fix),
            );
        }
    };
    let fewer = "or give each worker less: --db-connections";
    let more = format!("alter system set max_connections = {};", needed + 50);
    limit(room, "max_connections".to_owned(), format!("{more} and restart the server, {fewer}."));
    let role = quoted_name(&server.role);
    if let Some(most) = server.role_limit {
        limit(
            i64::from(most),
            format!("role {role}"),
            format!("alter role {role} connection limit {needed}; {fewer}."),
        );
    }
    let database = quoted_name(&server.database);
    if let Some(most) = server.database_limit {
        let fix = format!("alter database {database} connection limit {}; {fewer}.", needed + 50);
        limit(i64::from(most), format!("database {database}"), fix);
    }
    findings
}

pub(super) fn system(name: &str, value: &str) -> String {
    format!("alter system set {name} = {value}; select pg_reload_conf();")
}
