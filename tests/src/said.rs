//! One command of `david-tasks`, run to its end.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::process::Command;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Said {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    /// Runs `executable` with this `DATABASE_URL` and nothing else of david-tasks' in its environment.
    ///
    /// # Errors
    /// When it cannot be run, or hangs.
    pub async fn by(executable: &str, database_url: &str, args: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(executable);
        command.args(args).env("DATABASE_URL", database_url);
        Self::of(command).await
    }

    /// The same of a command that is set up already.
    ///
    /// # Errors
    /// When it cannot be run, or hangs.
    pub async fn of(mut command: Command) -> anyhow::Result<Self> {
        let set: Vec<_> = command.as_std().get_envs().map(|(key, _)| key.to_owned()).collect();
        for (key, _) in std::env::vars_os() {
            if key.as_encoded_bytes().starts_with(b"DAVID_") && !set.contains(&key) {
                command.env_remove(key);
            }
        }
        let what = format!("{:?}", command.as_std());
        let ended = tokio::time::timeout(PATIENCE, command.kill_on_drop(true).output());
        let output = ended
            .await
            .with_context(|| format!("{what} hangs"))?
            .with_context(|| format!("{what} cannot be run"))?;
        Ok(Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// Standard output, which is one JSON value.
    ///
    /// # Panics
    /// When it is not.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The keys of the object that was printed, or of the object at `pointer` in it.
    ///
    /// # Panics
    /// When there is no object.
    pub fn keys(&self, pointer: &str) -> Vec<String> {
        let json = self.json();
        let object = json.pointer(pointer).and_then(Value::as_object);
        sorted(
            &object
                .unwrap_or_else(|| panic!("no object at {pointer}: {json}"))
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(" "),
        )
    }
}

/// Words in order, as [`Said::keys`] returns them.
pub fn sorted(keys: &str) -> Vec<String> {
    let mut keys: Vec<String> = keys.split_whitespace().map(str::to_owned).collect();
    keys.sort();
    keys
}
