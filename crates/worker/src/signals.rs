//! SIGTERM and SIGINT: the first asks for an orderly stop, the second ends its grace.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Listens from now on.
pub(crate) fn listen(stopping: CancellationToken, aborting: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be listened for")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be listened for")?;
    tokio::spawn(async move {
        for token in [stopping, aborting] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("asked to stop");
            token.cancel();
        }
    });
    Ok(())
}
