//! Where credentials come from: can it be read, and by whom else?

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use david_reconciler::CredentialId;
use david_schema::causes;

use super::finding::{Finding, Severity};
use crate::config::CredentialsConfig;
use crate::credentials::Source;

const OTHERS_WRITE: u32 = 0o022;
const OTHERS_READ: u32 = 0o004;

/// The worker's source, or why it has none.
pub(super) fn source(config: &CredentialsConfig) -> (Option<Source>, Vec<Finding>) {
    match config.source() {
        Ok(source) => (source, Vec::new()),
        Err(error) => (
            None,
            vec![
                Finding::new(Severity::Error, "credentials_unreadable", format!("{}.", causes(&error)))
                    .because("The worker does not start with it.")
                    .fix("Correct --credentials-dir, --credential-broker or --credential-broker-token-file (docs/credentials.md)"),
            ],
        ),
    }
}

/// Files that others may read or write.
pub(super) fn check_files(config: &CredentialsConfig, named: &[CredentialId]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(dir) = &config.credentials_dir {
        findings.extend(check_file(dir, OTHERS_WRITE));
        let mut ids: Vec<&str> = named.iter().map(CredentialId::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        // An id that is no file's name is told as a credential that is missing.
        for id in ids.into_iter().filter(|id| !id.contains('/')) {
            findings.extend(check_file(&dir.join(id), OTHERS_WRITE | OTHERS_READ));
        }
    }
    if let Some(file) = &config.credential_broker_token_file {
        findings.extend(check_file(file, OTHERS_WRITE | OTHERS_READ));
    }
    findings
}

fn check_file(path: &Path, forbidden: u32) -> Option<Finding> {
    // What cannot be looked at is told by whoever needs it.
    let mode = path.metadata().ok()?.permissions().mode();
    let open = mode & forbidden;
    if open == 0 {
        return None;
    }
    let (severity, who) = match open & OTHERS_WRITE {
        0 => (Severity::Warning, "Every user of this machine may read the token."),
        _ => (Severity::Error, "Other users of this machine may put a token of theirs there."),
    };
    let shown = path.display().to_string();
    let what = format!("{shown} has mode {:03o}.", mode & 0o777);
    let rights = if path.is_dir() { "go-w" } else { "go-w,o-r" };
    Some(
        Finding::new(severity, "credentials_open", what)
            .of(shown.clone())
            .because(who)
            .fix(format!("chmod {rights} '{}'", shown.replace('\'', "'\\''"))),
    )
}
