//! `david-tasks` with its crash points compiled in.

use std::process::ExitCode;

fn main() -> ExitCode {
    david_tasks::main()
}
