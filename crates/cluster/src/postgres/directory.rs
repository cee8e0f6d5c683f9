//! The cluster's directory, and clearing away those that killed processes left behind.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

const PREFIX: &str = "david-pg-";
/// Held locked by the process that uses the directory; the kernel lets go of it however that process ends.
const LOCK: &str = "in-use";

/// A directory for one cluster: a temporary one is removed on drop, a kept one stays.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Declared before the lock: removed while still locked.
    _temporary: Option<TempDir>,
    _lock: File,
}

/// The directory is another process's at the moment.
#[derive(Debug)]
pub struct InUse(PathBuf);

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in use by another process", self.0.display())
    }
}

impl std::error::Error for InUse {}

impl Directory {
    pub(super) fn temporary() -> anyhow::Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let temporary = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        Self::open(temporary.path().to_owned(), Some(temporary))
    }

    pub(super) fn kept(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Self::open(path.canonicalize()?, None)
    }

    fn open(path: PathBuf, temporary: Option<TempDir>) -> anyhow::Result<Self> {
        let lock = File::create(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(InUse(path).into()),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("{} cannot be locked", path.display()));
            }
        }
        Ok(Self { path, _temporary: temporary, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }
}

/// Removes the directories of processes that are gone: a cluster shared by a whole process is never dropped,
/// statics are not, and a killed process drops nothing. A server that somehow survived stops within a minute of
/// losing its files, which is why this works without the parent-death signal, too.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        // Without a lock file it is being made right now.
        let Some(lock) = ours.then(|| File::open(path.join(LOCK)).ok()).flatten() else { continue };
        if lock.try_lock().is_ok()
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::debug!(%error, "could not remove {}", path.display());
        }
    }
}
