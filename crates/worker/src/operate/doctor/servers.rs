//! Every enabled registration: may it be reached, can it be, and does it speak the protocol?

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use david_reconciler::{CredentialId, Refusal};
use david_schema::operate::Registration;
use futures::StreamExt as _;
use tokio::time::Instant;

use super::Arguments;
use super::finding::{Finding, Severity};
use crate::credentials::{Bearer, CredentialError, Source};
use crate::endpoint_policy::EndpointPolicy;
use crate::operate::output::quoted;
use crate::remote::{Access, Clients, Limits, Target, TasksExtension};

/// Servers that are looked at.
pub(super) const MOST: u32 = 5_000;

/// Servers that are asked at the same time.
const AT_ONCE: usize = 16;

pub(super) async fn check(
    registrations: &[Registration],
    source: Option<Source>,
    arguments: &Arguments,
) -> anyhow::Result<Vec<Finding>> {
    let endpoints = EndpointPolicy { trusted_hosts: arguments.trusted_hosts.clone() };
    let source = source.map(Arc::new);
    let ends = Instant::now() + arguments.servers_within;
    let (lacking, mut findings) = credentials(registrations, source.as_ref(), ends).await;

    let limits = Limits { handshake_timeout: arguments.server_timeout, ..Limits::default() };
    let access = Access { endpoints: Some(endpoints.clone()), credentials: source, health: None };
    let clients = Clients::new(limits, access).context("the HTTP client cannot be set up")?;
    let asked = futures::stream::iter(registrations.iter().map(|(id, url, credential)| {
        let (clients, endpoints) = (&clients, &endpoints);
        let lacks = credential.as_ref().is_some_and(|credential| lacking.contains_key(credential));
        async move {
            if let Err(reason) = endpoints.check(url) {
                return Asked::Told(Some(forbidden(id.as_str(), url, &reason)));
            }
            // What the server says without its credential says nothing.
            if lacks {
                return Asked::Told(None);
            }
            let deadline = (Instant::now() + arguments.server_timeout).min(ends);
            if Instant::now() >= ends {
                return Asked::Late;
            }
            let target =
                Target { registration_id: id.clone(), url: url.clone(), credential: credential.clone() };
            Asked::Told(match clients.facts(&target, deadline).await {
                Ok(facts) if facts.tasks == TasksExtension::NotDeclared => {
                    Some(without_tasks(id.as_str(), url, &facts.protocol_version))
                }
                Ok(_) => None,
                Err(refusal) => Some(refused(id.as_str(), url, &refusal)),
            })
        }
    }))
    .buffered(AT_ONCE)
    .collect::<Vec<Asked>>()
    .await;

    let late = asked.iter().filter(|asked| matches!(asked, Asked::Late)).count();
    findings.extend(asked.into_iter().filter_map(|asked| match asked {
        Asked::Told(finding) => finding,
        Asked::Late => None,
    }));
    if late > 0 || registrations.len() == MOST as usize {
        findings.push(
            Finding::new(
                Severity::Notice,
                "unchecked",
                format!("{late} of {} servers were not looked at.", registrations.len()),
            )
            .because(format!("The time was over, or there are more than {MOST}."))
            .fix("david-tasks doctor --servers-within 10m"),
        );
    }
    Ok(findings)
}

enum Asked {
    /// With what was found, if anything.
    Told(Option<Finding>),
    /// The time was over.
    Late,
}

/// Each credential is fetched once; those that cannot be had are told, and returned.
async fn credentials(
    registrations: &[Registration],
    source: Option<&Arc<Source>>,
    ends: Instant,
) -> (BTreeMap<CredentialId, CredentialError>, Vec<Finding>) {
    let mut users: BTreeMap<&CredentialId, Vec<&str>> = BTreeMap::new();
    for (id, _, credential) in registrations {
        if let Some(credential) = credential {
            users.entry(credential).or_default().push(id.as_str());
        }
    }
    let fetched = futures::stream::iter(users.keys().map(|credential| async move {
        let failed = match source {
            None => Some(CredentialError::Missing(format!(
                "The credential {credential} is nowhere: the worker has neither --credentials-dir nor --credential-broker."
            ))),
            Some(source) => {
                let bearer = Bearer::new(Arc::clone(source), (*credential).clone());
                match tokio::time::timeout_at(ends, bearer.token()).await {
                    Ok(token) => token.err(),
                    Err(_elapsed) => Some(CredentialError::Unavailable("The time was over.".to_owned())),
                }
            }
        };
        ((*credential).clone(), failed)
    }))
    .buffered(AT_ONCE)
    .collect::<Vec<_>>()
    .await;

    let mut lacking = BTreeMap::new();
    let mut findings = Vec::new();
    for (credential, failed) in fetched {
        let Some(error) = failed else { continue };
        let wanted = users.get(&credential).map(|users| users.join(", ")).unwrap_or_default();
        let (check, fix) = match &error {
            CredentialError::Missing(_) => (
                "credential_missing",
                format!(
                    "Put the token into a file {} of --credentials-dir, or teach the broker (docs/credentials.md)",
                    quoted(credential.as_str())
                ),
            ),
            CredentialError::Unavailable(_) => (
                "credential_unavailable",
                "See to the broker or the directory; docs/credentials.md has the protocol.".to_owned(),
            ),
        };
        findings.push(
            Finding::new(Severity::Error, check, error.to_string())
                .of(credential.as_str())
                .because(format!("Wanted by {wanted}; their Actions end as unauthorised, or wait."))
                .fix(fix),
        );
        lacking.insert(credential, error);
    }
    (lacking, findings)
}

fn forbidden(id: &str, url: &str, reason: &str) -> Finding {
    let host =
        url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    Finding::new(Severity::Error, "server_forbidden", format!("{id} may not be talked to: {reason}"))
        .of(id)
        .because("Unless workers are told to trust it, its Actions end as endpoint_forbidden.")
        .fix(format!(
            "If it is yours: --trusted-hosts {host} (DAVID_TASKS_TRUSTED_HOSTS), for `david-tasks worker` and for doctor"
        ))
}

fn without_tasks(id: &str, url: &str, version: &str) -> Finding {
    let what = format!("{id} ({url}) speaks protocol {version} and does not declare the Tasks extension.");
    Finding::new(Severity::Warning, "server_without_tasks", what)
        .of(id)
        .because("Its tools can only answer at once; work that outlasts timeout_seconds is lost as outcome_unknown.")
        .fix(format!("Update the server; `david-tasks sdk-audit {}` says what it does", quoted_url(url)))
}

fn refused(id: &str, url: &str, refusal: &Refusal) -> Finding {
    let error = |check, what: String| Finding::new(Severity::Error, check, what).of(id);
    match refusal {
        Refusal::Unauthorised { detail } => {
            error("server_unauthorised", format!("{id} ({url}) does not let us in: {detail}"))
                .because("Its Actions end as unauthorised after five refusals.")
                .fix("Replace the token that its credential_id names (docs/credentials.md); a registration of auth_type none sends none")
        }
        Refusal::EndpointForbidden { detail } => forbidden(id, url, detail),
        Refusal::Transient(trouble) => error("server_unusable", format!("{id} ({url}): {}", trouble.detail))
            .because("Its Actions wait until their deadlines, or fail.")
            .fix(see(id, url)),
        Refusal::Malformed { detail } | Refusal::Gone { message: detail } => {
            error("server_unusable", format!("{id} ({url}) does not answer as an MCP server: {detail}"))
                .because("Its Actions end as protocol_error.")
                .fix(see(id, url))
        }
    }
}

fn see(id: &str, url: &str) -> String {
    format!(
        "Start or repair it: `david-tasks sdk-audit {}` says what it answers. Until then: david-tasks pause {} --reason 'it is down'",
        quoted_url(url),
        quoted(id)
    )
}

/// A URL as it has to stand in a shell.
fn quoted_url(url: &str) -> String {
    format!("'{}'", url.replace('\'', "%27"))
}
