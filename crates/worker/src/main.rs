//! `david-tasks`: see `david-tasks --help`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A fifth of a poll's processor time is allocation; docs/performance.md has the figures.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    david_tasks::main()
}
