//! Bearer tokens: fetched when needed, kept in memory for a short time, shown nowhere (DESIGN rule 14).
//!
//! A registration names a credential by its id; Postgres holds nothing more. What the id stands for
//! comes from a [`Source`]: a directory of files, such as an orchestrator mounts, or a broker over HTTP.
//! One client has one [`Bearer`], which keeps the token between requests.

mod bearer;
mod broker;
mod directory;

use std::path::PathBuf;
use std::time::Duration;

use david_reconciler::CredentialId;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

pub use bearer::Bearer;
pub use broker::{Broker, BrokerError};
pub use directory::Directory;

/// Where bearer tokens come from.
#[derive(Debug)]
pub enum Source {
    /// One file per credential.
    Directory(Directory),
    /// An HTTP service that hands out short-lived tokens.
    Broker(Broker),
}

/// Why there is no token. Never holds one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// There is no such credential, or it cannot be sent: the same again will fail again.
    #[error("{0}")]
    Missing(String),
    /// Its source is in trouble that may pass.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a token is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// There is none, or it is about to expire.
    Any,
    /// The server refused the last one.
    Another,
}

/// A token and how long it may be used without asking again.
#[derive(Debug)]
pub(crate) struct Fetched {
    token: Token,
    until: Instant,
}

impl Source {
    /// One file per credential, in `path`.
    pub fn directory(path: PathBuf) -> Self {
        Self::Directory(Directory::new(path))
    }

    async fn fetch(&self, id: &CredentialId, want: Want) -> Result<Fetched, CredentialError> {
        let fetched = async {
            match self {
                Self::Directory(directory) => directory.fetch(id).await,
                Self::Broker(broker) => broker.fetch(id, want).await,
            }
        };
        // Files may lie on a network, too.
        tokio::time::timeout(SOURCE_TIMEOUT, fetched).await.unwrap_or_else(|_elapsed| {
            let seconds = SOURCE_TIMEOUT.as_secs();
            let words = format!("The source of credentials did not answer in {seconds} seconds.");
            Err(CredentialError::Unavailable(words))
        })
    }
}

/// What is sent as `Authorization: Bearer …`. `Debug` does not show it.
#[derive(Debug, Clone)]
pub(crate) struct Token(SecretString);

impl Token {
    /// Longest token that is taken, in bytes: servers refuse headers of that size.
    const MAX_BYTES: usize = 64 * 1024;

    /// Visible ASCII only, as RFC 6750 wants it; white space around it is an editor's.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.len() {
            0 => return Err("is empty".to_owned()),
            1..=Self::MAX_BYTES => {}
            _ => return Err(format!("is longer than {} bytes", Self::MAX_BYTES)),
        }
        if text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(SecretString::from(text)))
        } else {
            Err("holds characters that a header may not hold".to_owned())
        }
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    fn is(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

/// How long a source may take to answer; every request of a registration waits for it.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(5);
