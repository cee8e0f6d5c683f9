//! Where Postgres is installed.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::spawner::on_path;

/// Parents of version directories, and what the directories in them start with.
const INSTALLATIONS: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql"),
    ("/usr/local/opt", "postgresql"),
];

/// The directory that holds `initdb` and `postgres`.
///
/// `DAVID_PG_BIN` wins, then the `PATH`, then the newest version in the usual places.
///
/// # Errors
/// When there is none; the message says where it looked and what to install.
pub(super) fn find() -> anyhow::Result<PathBuf> {
    if let Some(dir) = std::env::var_os("DAVID_PG_BIN").map(PathBuf::from) {
        if is_bin(&dir) {
            return Ok(dir);
        }
        bail!("DAVID_PG_BIN is {}, which has no `initdb` and `postgres` in it", dir.display());
    }
    let on_path = on_path("initdb").and_then(|file| file.parent().map(Path::to_owned));
    if let Some(dir) = on_path.filter(|dir| is_bin(dir)) {
        return Ok(dir);
    }
    if let Some(dir) =
        INSTALLATIONS.iter().filter_map(|(parent, prefix)| newest(Path::new(parent), prefix)).next()
    {
        return Ok(dir);
    }
    let places: Vec<_> =
        INSTALLATIONS.iter().map(|(parent, prefix)| format!("{parent}/{prefix}*/bin")).collect();
    bail!(
        "no Postgres server programs (`initdb`, `postgres`) found: looked at $DAVID_PG_BIN, $PATH, {}. \
         Install them (Debian: `apt-get install postgresql`, Fedora: `dnf install postgresql-server`, \
         macOS: `brew install postgresql`), set DAVID_PG_BIN to their directory, \
         or set DAVID_TEST_PG_URL to the admin URL of a running test server",
        places.join(", ")
    )
}

fn is_bin(dir: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| dir.join(program).is_file())
}

/// The `bin` of the highest version below `parent`; versions compare by their first number.
fn newest(parent: &Path, prefix: &str) -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(parent)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?.trim_start_matches('@');
            let bin = entry.path().join("bin");
            is_bin(&bin).then(|| (major(version), bin))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, bin)| bin)
}

/// `15`, `9.6` and `17.2` give 15, 9 and 17; no number at all (Homebrew's unversioned formula) sorts last.
fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_installed_version_wins_by_number_not_by_name() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "16"] {
            let bin = root.path().join(version).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            for program in ["initdb", "postgres"] {
                std::fs::write(bin.join(program), "").unwrap();
            }
        }
        // The newest directory of all, but without a server in it.
        std::fs::create_dir_all(root.path().join("17").join("bin")).unwrap();
        assert_eq!(newest(root.path(), ""), Some(root.path().join("16").join("bin")));
    }
}
