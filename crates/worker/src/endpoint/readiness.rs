//! Whether a replica can do its work.

use std::time::Duration;

use david_schema::{Ledger, LevelError, check_level};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the database may take to answer; whoever asks waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long an answer is good: however often it is asked for, the database is not asked more often.
const GOOD_FOR: Duration = Duration::from_millis(500);

/// What `/readyz` says.
pub(crate) struct Readiness {
    ledger: Ledger,
    stopping: CancellationToken,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Readiness {
    pub(crate) fn new(ledger: Ledger, stopping: CancellationToken) -> Self {
        Self { ledger, stopping, last: Mutex::default() }
    }

    /// Whether the replica was asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Not stopping, and the database is there and at the right level.
    ///
    /// # Errors
    /// Why not, in words that name no address and no password.
    pub(super) async fn look(&self) -> Result<(), String> {
        if self.is_stopping() {
            return Err("stopping".to_owned());
        }
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = last.as_ref()
            && at.elapsed() < GOOD_FOR
        {
            return answer.clone();
        }
        let answer = match tokio::time::timeout(PATIENCE, check_level(&self.ledger)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(wrong @ (LevelError::Missing | LevelError::Old { .. }))) => Err(wrong.to_string()),
            // The cause is in the log, where what it may tell is for operators.
            Ok(Err(LevelError::Database(_))) => Err("the database cannot be reached".to_owned()),
            Err(_elapsed) => Err(format!("the database gives no answer in {PATIENCE:?}")),
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}
