//! `completions`.

use clap::Args;
use clap_complete::Shell;

use super::{Ended, print};

/// Settings of `david-tasks completions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, mut program: clap::Command) -> anyhow::Result<Ended> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "david-tasks", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Ended::Done)
}
