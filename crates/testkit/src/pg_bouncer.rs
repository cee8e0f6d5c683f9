//! `PgBouncer`: the pooler of Debian, in transaction mode, in front of one database.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

use david_cluster::spawner::{self, OnOrphaned};

/// How long it may take to come up.
const START: Duration = Duration::from_secs(20);

/// A running pooler. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl PgBouncer {
    /// Starts one in transaction mode that lends sessions of the server at `postgres` as the superuser
    /// `postgres`, two at most per database: sessions that are not shared would show.
    ///
    /// # Errors
    /// `pgbouncer` is not installed, or does not start; the message carries its log.
    pub fn start(postgres: SocketAddr) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("david-pgbouncer-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let users = directory.path().join("users.txt");
        fs::write(&users, "\"postgres\" \"\"\n")?;
        let settings = directory.path().join("pgbouncer.ini");
        fs::write(
            &settings,
            format!(
                "[databases]\n* = host={} port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nunix_socket_dir =\nauth_type = any\nauth_file = {}\npool_mode = transaction\n\
                 default_pool_size = 2\nmax_client_conn = 200\nignore_startup_parameters = extra_float_digits\n",
                postgres.ip(),
                postgres.port(),
                users.display()
            ),
        )?;
        let log = fs::File::create(directory.path().join("log"))?;
        let mut command = spawner::tied(Path::new("pgbouncer"), OnOrphaned::Kill);
        command.arg(&settings).stdout(log.try_clone()?).stderr(log);
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root.
            command.args(["-u", "nobody"]);
        }
        let child = spawner::spawn(command)
            .context("cannot run pgbouncer: install it (Debian's package of this name)")?;
        let mut pooler = Self { child, port, directory };
        pooler.wait_until_ready()?;
        Ok(pooler)
    }

    /// The URL of a database behind it.
    pub fn url(&self, dbname: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{dbname}", self.port)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("pgbouncer ended while starting ({status}):\n{}", log());
            }
            if began.elapsed() > START {
                bail!("pgbouncer is not ready after {START:?}:\n{}", log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "could not stop pgbouncer");
        }
    }
}
