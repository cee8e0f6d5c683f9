//! A folder's ports: the same each time, since they stand in shells, in notes and in a registration.

use std::net::TcpListener;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

const FILE: &str = "ports.json";

/// On 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ports {
    pub(super) postgres: u16,
    pub(super) server: u16,
}

impl Ports {
    /// The folder's ports, or free ones. `postgres` wins.
    pub(super) fn of(dir: &Path, postgres: Option<u16>) -> anyhow::Result<Self> {
        let path = dir.join(FILE);
        let known: Option<Self> = match std::fs::read_to_string(&path) {
            Ok(text) => Some(
                serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?,
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
        };
        let ports = match known {
            Some(ports) => ports,
            None => {
                // Both are held until both are known, so that they differ.
                let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
                Self { postgres: first.local_addr()?.port(), server: second.local_addr()?.port() }
            }
        };
        Ok(Self { postgres: postgres.unwrap_or(ports.postgres), ..ports })
    }

    /// Writes them down.
    pub(super) fn keep(self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join(FILE);
        std::fs::write(&path, serde_json::to_string(&self)?)
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_ports_and_a_port_that_is_named_wins() {
        let dir = tempfile::tempdir().unwrap();
        let first = Ports::of(dir.path(), None).unwrap();
        assert_ne!(first.postgres, first.server);
        first.keep(dir.path()).unwrap();
        assert_eq!(Ports::of(dir.path(), None).unwrap(), first);
        assert_eq!(Ports::of(dir.path(), Some(5)).unwrap(), Ports { postgres: 5, ..first });
    }
}
