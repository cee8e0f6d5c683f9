//! The account Postgres runs under: it refuses to run as root, and containers and CI often are root.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// An unprivileged user, when this process is root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// `postgres` or else `nobody` for root, `None` (stay who we are) for anybody else.
    pub(super) fn for_server() -> anyhow::Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let account = ["postgres", "nobody"].iter().find_map(|name| lookup(&passwd, name));
        Ok(Some(
            account.context(
                "Postgres does not run as root, and there is neither a user `postgres` nor `nobody`",
            )?,
        ))
    }

    /// Lets `command` run as this user; std also drops the supplementary groups of root.
    pub(super) fn apply(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Gives `dir` to this user and checks that every directory above lets it through.
    pub(super) fn own(self, dir: &Path) -> anyhow::Result<()> {
        chown(dir, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot give {} away", dir.display()))?;
        for parent in dir.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            if !self.passes(parent)? {
                bail!(
                    "{} cannot be entered by the user Postgres runs as (uid {}): choose a directory elsewhere, \
                     for example below /var/tmp (--dir, or TMPDIR for the tests)",
                    parent.display(),
                    self.uid
                );
            }
        }
        Ok(())
    }

    fn passes(self, dir: &Path) -> anyhow::Result<bool> {
        let meta = dir.metadata().with_context(|| format!("cannot look at {}", dir.display()))?;
        let search = match (meta.uid() == self.uid, meta.gid() == self.gid) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        Ok(meta.mode() & search != 0)
    }
}

fn lookup(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(Account { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}
