//! Child processes that do not outlive this one, not even when it is killed.
//!
//! On Linux the kernel can send a child a signal when its parent dies (`PR_SET_PDEATHSIG`), but "parent" there
//! means the *thread* that spawned it, and test threads end with their test. So every child is spawned from one
//! thread that lives as long as the process. Setting the signal needs `unsafe` in Rust and a small program
//! outside it: util-linux's `setpriv`, which then becomes the child, same pid.
//! Without `setpriv` (macOS) children are only stopped on drop.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

/// What the kernel sends the child when this process is gone.
#[derive(Debug, Clone, Copy)]
pub enum OnOrphaned {
    /// SIGINT: Postgres disconnects everyone and stops.
    Interrupt,
    /// SIGKILL.
    Kill,
}

/// A command for `program` that is tied to the life of this process; run it with [`spawn`].
pub fn tied(program: &Path, signal: OnOrphaned) -> Command {
    let mut command = match setpriv() {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            let signal = match signal {
                OnOrphaned::Interrupt => "INT",
                OnOrphaned::Kill => "KILL",
            };
            command.args(["--pdeathsig", signal, "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    // Its own group: a Ctrl-C at the terminal reaches the test, and the test decides.
    command.process_group(0);
    command
}

/// Spawns `command` from the thread that never ends.
///
/// # Errors
/// When it cannot be run.
pub fn spawn(command: Command) -> io::Result<Child> {
    type Job = (Command, mpsc::Sender<io::Result<Child>>);
    static JOBS: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<Job>();
        // The sender is in a static, so the queue never closes and the thread never ends.
        std::thread::spawn(move || {
            for (mut command, reply) in queue {
                // A caller that is gone leaves a child nobody waits for; it is still tied to the process.
                drop(reply.send(command.spawn()));
            }
        });
        Mutex::new(jobs)
    });
    let (reply, answer) = mpsc::channel();
    jobs.lock().unwrap_or_else(PoisonError::into_inner).send((command, reply)).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// The first file called `name` on the `PATH`.
pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn setpriv() -> Option<&'static Path> {
    static SETPRIV: OnceLock<Option<PathBuf>> = OnceLock::new();
    SETPRIV.get_or_init(|| on_path("setpriv")).as_deref()
}
