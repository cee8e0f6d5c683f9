//! Credentials as files, named by their ids.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use david_reconciler::CredentialId;
use tokio::time::Instant;

use super::{CredentialError, Fetched, SOURCE_TIMEOUT, Token};

/// A file is read again after this. Mounted secrets change by a swapped link, so there is nothing to
/// watch that would work everywhere.
const REREAD: Duration = Duration::from_secs(1);

/// A directory of files.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) async fn fetch(&self, id: &CredentialId) -> Result<Fetched, CredentialError> {
        let missing = |why: String| CredentialError::Missing(format!("The credential {id} {why}."));
        if !is_file_name(id.as_str()) {
            return Err(missing("has no name that a file could have".to_owned()));
        }
        let until = Instant::now() + REREAD;
        let path = self.path.join(id.as_str());
        // A directory on a network may hang.
        let read = tokio::time::timeout(SOURCE_TIMEOUT, tokio::task::spawn_blocking(move || read(&path)));
        let text = match read.await {
            Ok(Ok(Ok(text))) => text,
            Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::NotFound => {
                return Err(missing("is not in the credentials directory".to_owned()));
            }
            Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(missing("is not text".to_owned()));
            }
            Ok(Ok(Err(error))) => {
                return Err(CredentialError::Unavailable(format!(
                    "The credential {id} cannot be read: {error}."
                )));
            }
            Ok(Err(_panicked)) => {
                return Err(CredentialError::Unavailable(format!("The credential {id} cannot be read.")));
            }
            Err(_elapsed) => {
                return Err(CredentialError::Unavailable(
                    "The credentials directory does not answer in time.".to_owned(),
                ));
            }
        };
        let token = Token::parse(&text).map_err(missing)?;
        Ok(Fetched { token, until })
    }
}

/// Whatever Core writes into a registration must not lead out of the directory.
fn is_file_name(id: &str) -> bool {
    !id.is_empty()
        && !id.starts_with('.')
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn read(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than is taken, so that too much is seen as too much.
    std::fs::File::open(path)?.take(Token::MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leads_out_of_the_directory() {
        for id in ["", ".", "..", "../etc/passwd", "a/b", "/etc/passwd", ".hidden", "a\0b", "a b", "ä"] {
            assert!(!is_file_name(id), "{id:?}");
        }
        for id in ["cred_1", "A-b.c", "0"] {
            assert!(is_file_name(id), "{id:?}");
        }
    }
}
