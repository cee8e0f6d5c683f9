//! `david-tasks`: see `david-tasks --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    david_tasks::main()
}
