//! `Postgres`: a private cluster on a Unix socket and on loopback TCP, gone with the process that started it.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::spawner::{self, OnOrphaned};
use account::Account;
use directory::Directory;

pub use directory::InUse;

mod account;
mod binaries;
mod directory;

/// Names and values, as on the command line.
type Settings<'a> = &'a [(&'a str, &'a str)];

/// Nothing in a test survives a power cut; killing the server is still safe.
const FOR_TESTS: Settings<'_> = &[("fsync", "off"), ("full_page_writes", "off"), ("shared_buffers", "128MB")];

const FOR_BENCHMARKS: Settings<'_> = &[
    ("shared_preload_libraries", "pg_stat_statements"),
    ("shared_buffers", "512MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
];

/// Data is kept, so it is as safe as in production. A socket's path must not be long, and a folder's may be.
const FOR_DEVELOPMENT: Settings<'_> = &[
    ("unix_socket_directories", ""),
    ("idle_in_transaction_session_timeout", "5min"),
    ("shared_buffers", "128MB"),
];

/// How long an orphaned server of the same directory may take to end.
const ORPHAN: Duration = Duration::from_secs(15);

/// How long a cluster may take to come up; it takes about a second.
const START: Duration = Duration::from_secs(60);

/// A running server. Dropping it stops the server at once; a temporary cluster loses its files.
#[derive(Debug)]
pub struct Postgres {
    /// Everything of the URL but the database: `postgres://postgres@127.0.0.1:5432`.
    base: String,
    /// `None`: a server somebody else runs (`DAVID_TEST_PG_URL`).
    cluster: Option<Cluster>,
}

/// Field order is drop order: the server stops before its directory goes.
#[derive(Debug)]
struct Cluster {
    server: Server,
    directory: Directory,
    port: u16,
}

impl Postgres {
    /// Starts a fresh cluster in a temporary directory and waits until it accepts connections.
    ///
    /// Blocks for about a second; async code accepts that, or uses a thread that may block.
    ///
    /// # Errors
    /// No Postgres installed, or it does not start; the message carries the server's log.
    pub fn start() -> anyhow::Result<Self> {
        Self::run(Directory::temporary()?, None, FOR_TESTS)
    }

    /// A cluster that is as durable as one in production, and that counts statements.
    ///
    /// # Errors
    /// As [`start`](Self::start); and when `pg_stat_statements` is not installed.
    pub fn start_for_benchmarks() -> anyhow::Result<Self> {
        Self::run(Directory::temporary()?, None, FOR_BENCHMARKS)
    }

    /// A cluster with the server's own defaults, which are durable, and these settings.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::run(Directory::temporary()?, None, settings)
    }

    /// A durable cluster in `dir`, which is kept and may hold a cluster from an earlier run.
    ///
    /// # Errors
    /// As [`start`](Self::start); and when `dir` is in use or `port` is taken.
    pub fn start_for_development(dir: &Path, port: u16) -> anyhow::Result<Self> {
        Self::run(Directory::kept(dir)?, Some(port), FOR_DEVELOPMENT)
    }

    /// Ends the server in order: whoever is connected is disconnected, and everything is on disk.
    ///
    /// # Errors
    /// When it did not end so.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let pid = Pid::from_raw(cluster.server.child.id().cast_signed()).context("no such process")?;
        if cluster.server.child.try_wait()?.is_none() {
            // SIGINT is Postgres's fast shutdown.
            kill_process(pid, Signal::INT)?;
        }
        let status = cluster.server.child.wait()?;
        ensure!(
            status.success(),
            "postgres ended with {status}; see its log in {}",
            cluster.directory.path().display()
        );
        Ok(())
    }

    /// Like [`start`](Self::start), but in `dir`, which is kept and may hold a cluster from an earlier run.
    ///
    /// # Errors
    /// As [`start`](Self::start); and when `dir` is in use or `port` is taken.
    pub fn start_in(dir: &Path, port: Option<u16>) -> anyhow::Result<Self> {
        Self::run(Directory::kept(dir)?, port, FOR_TESTS)
    }

    /// The one server of this process: that of `DAVID_TEST_PG_URL`, or else a private one, started on first use.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: Mutex<Option<&'static Postgres>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(postgres) = *shared {
            return Ok(postgres);
        }
        let postgres = match std::env::var("DAVID_TEST_PG_URL") {
            Ok(url) => Self::elsewhere(&url)?,
            Err(_) => Self::start()?,
        };
        Ok(*shared.insert(Box::leak(Box::new(postgres))))
    }

    /// The URL of database `dbname`, over TCP: `postgres://postgres@127.0.0.1:PORT/dbname`.
    #[must_use]
    pub fn url(&self, dbname: &str) -> String {
        format!("{}/{dbname}", self.base)
    }

    /// Where the server listens, for a proxy in front of it.
    ///
    /// # Errors
    /// When the server is somebody else's and its address is not an IP address.
    pub fn addr(&self) -> anyhow::Result<SocketAddr> {
        if let Some(cluster) = &self.cluster {
            return Ok(SocketAddr::from(([127, 0, 0, 1], cluster.port)));
        }
        let authority = self.base.rsplit(['@', '/']).next().unwrap_or_default();
        authority
            .replace("localhost", "127.0.0.1")
            .parse()
            .with_context(|| format!("{authority} is no ip:port"))
    }

    /// One of Postgres's client programs: on the `PATH`, or beside the server's.
    #[must_use]
    pub fn program(name: &str) -> Option<PathBuf> {
        let beside = || binaries::find().ok().map(|dir| dir.join(name)).filter(|file| file.is_file());
        spawner::on_path(name).or_else(beside)
    }

    /// The process id of the server, when it is ours.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.cluster.as_ref().map(|cluster| cluster.server.child.id())
    }

    /// The directory of the cluster, which also holds its Unix socket and its log, when it is ours.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.cluster.as_ref().map(|cluster| cluster.directory.path())
    }

    /// The status with which the server ended, if it ended by itself.
    ///
    /// # Errors
    /// When the operating system does not know the process.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(match &mut self.cluster {
            Some(cluster) => cluster.server.child.try_wait()?,
            None => None,
        })
    }

    fn elsewhere(url: &str) -> anyhow::Result<Self> {
        let (base, _database) = url
            .rsplit_once('/')
            .filter(|(base, _)| base.starts_with("postgres") && !base.ends_with('/'))
            .context("DAVID_TEST_PG_URL must look like postgres://user@host:port/database")?;
        Ok(Self { base: base.to_owned(), cluster: None })
    }

    fn run(directory: Directory, port: Option<u16>, settings: Settings<'_>) -> anyhow::Result<Self> {
        let bin = binaries::find()?;
        let account = Account::for_server()?;
        if let Some(account) = account {
            account.own(directory.path())?;
        }
        if !directory.data().exists() {
            initdb(&bin, &directory, account)?;
        }
        // A free port is only known to have been free: try again when somebody was faster.
        let mut attempts = 5;
        let began = Instant::now();
        loop {
            attempts -= 1;
            let chosen = match port {
                Some(port) => port,
                None => TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port(),
            };
            match Server::start(&bin, &directory, account, chosen, settings) {
                Ok(server) => {
                    let base = format!("postgres://postgres@127.0.0.1:{chosen}");
                    return Ok(Self { base, cluster: Some(Cluster { server, directory, port: chosen }) });
                }
                // The server of a process that was killed just now is on its way out.
                Err(error) if began.elapsed() < ORPHAN && error.to_string().contains("postmaster.pid") => {
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) if port.is_none() && attempts > 0 && error.to_string().contains("in use") => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Makes the cluster under another name first: what is called `data` is complete, however this process ends.
fn initdb(bin: &Path, directory: &Directory, account: Option<Account>) -> anyhow::Result<()> {
    let unfinished = directory.path().join("data.unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    let mut command = Command::new(bin.join("initdb"));
    command
        .args([
            "--no-sync",
            "--no-instructions",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
        ])
        .arg("--pgdata")
        .arg(&unfinished)
        .current_dir(directory.path());
    if let Some(account) = account {
        account.apply(&mut command);
    }
    let output = command.output().context("cannot run initdb")?;
    ensure!(
        output.status.success(),
        "initdb failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(std::fs::rename(&unfinished, directory.data())?)
}

#[derive(Debug)]
struct Server {
    child: Child,
}

impl Server {
    fn start(
        bin: &Path,
        directory: &Directory,
        account: Option<Account>,
        port: u16,
        settings: Settings<'_>,
    ) -> anyhow::Result<Self> {
        let log = File::create(directory.log()).context("cannot write the server's log")?;
        let mut command = spawner::tied(&bin.join("postgres"), OnOrphaned::Interrupt);
        command.arg("-D").arg(directory.data()).arg("-k").arg(directory.path());
        let port = port.to_string();
        for (name, value) in [
            ("port", port.as_str()),
            ("listen_addresses", "127.0.0.1"),
            ("max_connections", "200"),
            ("timezone", "UTC"),
            ("log_timezone", "UTC"),
        ]
        .iter()
        .chain(settings)
        {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.current_dir(directory.path()).stdout(log.try_clone()?).stderr(log);
        if let Some(account) = account {
            account.apply(&mut command);
        }
        let mut server = Self { child: spawner::spawn(command).context("cannot run postgres")? };
        server.wait_until_ready(directory)?;
        Ok(server)
    }

    /// The last line of `postmaster.pid` becomes `ready` when the server accepts connections.
    fn wait_until_ready(&mut self, directory: &Directory) -> anyhow::Result<()> {
        let began = Instant::now();
        let pid = self.child.id().to_string();
        loop {
            let state = std::fs::read_to_string(directory.data().join("postmaster.pid")).unwrap_or_default();
            let mut lines = state.lines();
            // The file of a server that was killed earlier may still be there.
            if lines.next() == Some(pid.as_str()) && lines.nth(6).map(str::trim) == Some("ready") {
                return Ok(());
            }
            let log = || std::fs::read_to_string(directory.log()).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("postgres ended while starting ({status}):\n{}", log());
            }
            if began.elapsed() > START {
                bail!("postgres is not ready after {START:?}:\n{}", log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGQUIT is Postgres's immediate shutdown: its children go, too, unlike with SIGKILL.
        let signalled = match Pid::from_raw(self.child.id().cast_signed()) {
            Some(pid) if matches!(self.child.try_wait(), Ok(None)) => kill_process(pid, Signal::QUIT),
            Some(_) | None => return,
        };
        if let Err(error) = signalled.map_err(std::io::Error::from).and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "could not stop postgres");
        }
    }
}
