//! `man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap_mangen::Man;
use david_schema::operate::{Refused, RefusedKind};

use super::output::Format;
use super::refusal::refuse;
use super::{Ended, print};

/// Settings of `david-tasks man`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The command whose page to print (roff); without one, the program's.
    #[arg(conflicts_with = "dir")]
    command: Option<String>,

    /// Write the page of every command into this directory, instead of printing one.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, mut program: clap::Command) -> anyhow::Result<Ended> {
    // Names the pages of commands david-tasks-status and so on.
    program.build();
    if let Some(dir) = &arguments.dir {
        std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        clap_mangen::generate_to(program, dir)
            .with_context(|| format!("pages cannot be written to {}", dir.display()))?;
        return Ok(Ended::Done);
    }
    let page = match &arguments.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let message = format!("there is no command {name:?}");
                let hint = Some("`david-tasks --help` lists them.".to_owned());
                return refuse(&Refused { kind: RefusedKind::Senseless, message, hint }, Format::Human);
            }
        },
    };
    let mut roff = Vec::new();
    Man::new(page).render(&mut roff)?;
    print(&String::from_utf8(roff)?)?;
    Ok(Ended::Done)
}
