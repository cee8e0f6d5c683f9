//! `Replica`: a `david-tasks` process of a test, to be killed, stopped, resumed and read.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually;
use david_cluster::spawner::{self, OnOrphaned};

/// How a replica is started. Its environment is the test's own without `DATABASE_URL`, `DAVID_*` and `OTEL_*`, plus what
/// is set here, so that a developer's shell does not change a test.
#[derive(Debug, Clone)]
pub struct ReplicaCommand {
    executable: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl ReplicaCommand {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts the process; it may be called again for another replica with the same settings.
    ///
    /// # Errors
    /// When there is no such executable or it cannot be run.
    pub fn start(&self) -> anyhow::Result<Replica> {
        ensure!(self.executable.is_file(), "there is no executable {}", self.executable.display());
        let mut command = spawner::tied(&self.executable, OnOrphaned::Kill);
        let inherited = std::env::vars_os().map(|(key, _)| key);
        let ours = |key: &OsString| {
            let key = key.as_encoded_bytes();
            key.starts_with(b"DAVID_") || key.starts_with(b"OTEL_")
        };
        for key in inherited.filter(ours) {
            command.env_remove(key);
        }
        command.args(&self.args).envs(self.env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            spawner::spawn(command).with_context(|| format!("cannot run {}", self.executable.display()))?;
        let logs = Logs::default();
        if let Some(stdout) = child.stdout.take() {
            logs.follow(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            logs.follow(stderr);
        }
        Ok(Replica { pid: child.id(), child: Mutex::new(child), logs })
    }
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Replica {
    pid: u32,
    child: Mutex<Child>,
    logs: Logs,
}

impl Replica {
    /// A replica of `executable` that is told its database by `DATABASE_URL`.
    #[must_use]
    pub fn command(executable: impl AsRef<Path>, database_url: &str) -> ReplicaCommand {
        ReplicaCommand { executable: executable.as_ref().to_owned(), args: Vec::new(), env: Vec::new() }
            .env("DATABASE_URL", database_url)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// SIGKILL, and waits until the process is gone: after this it writes nothing any more.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(&self) -> anyhow::Result<ExitStatus> {
        let mut child = self.child();
        child.kill()?;
        Ok(child.wait()?)
    }

    /// SIGTERM: asks it to stop.
    ///
    /// # Errors
    /// When the process has ended already.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGINT, as Ctrl-C sends it.
    ///
    /// # Errors
    /// When the process has ended already.
    pub fn interrupt(&self) -> anyhow::Result<()> {
        self.signal(Signal::INT)
    }

    /// SIGSTOP: it does nothing until [`resume`](Self::resume), while its connections stay open.
    ///
    /// # Errors
    /// When the process has ended already.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When the process has ended already.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// The status with which the process has ended, `None` while it runs.
    ///
    /// # Errors
    /// When the operating system does not know the process.
    pub fn exited(&self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child().try_wait()?)
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    /// When it still runs after `timeout`; the message carries the end of its logs.
    pub async fn wait_exit(&self, timeout: Duration) -> anyhow::Result<ExitStatus> {
        eventually(timeout, "the replica has exited", async || match self.exited() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(format!("it runs; the end of its logs: {}", self.logs.end())),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Waits until its logs contain `text`.
    ///
    /// # Errors
    /// When they do not after `timeout`; the message carries their end.
    pub async fn wait_log(&self, text: &str, timeout: Duration) -> anyhow::Result<()> {
        eventually(timeout, &format!("the replica logs {text:?}"), async || {
            if self.logs().contains(text) { Ok(()) } else { Err(self.logs.end()) }
        })
        .await
    }

    /// All it wrote so far, standard output and standard error in the order they arrived.
    #[must_use]
    pub fn logs(&self) -> String {
        String::from_utf8_lossy(&self.logs.bytes()).into_owned()
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        // Under the lock and not yet waited for, the pid cannot be somebody else's.
        let mut child = self.child();
        ensure!(child.try_wait()?.is_none(), "the replica has exited already");
        let pid = Pid::from_raw(self.pid.cast_signed()).context("no such process")?;
        Ok(kill_process(pid, signal)?)
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(%error, "could not kill replica {}", self.pid);
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// Copies `stream` until it ends, on a thread: a full pipe would stop the replica.
    fn follow(&self, mut stream: impl Read + Send + 'static) {
        let logs = self.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 8 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                logs.bytes().extend_from_slice(&chunk[..read]);
            }
        });
    }

    fn end(&self) -> String {
        let bytes = self.bytes();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4_000)..]).into_owned()
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
