//! `eventually`: waiting on a condition instead of for a time.

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(15);

/// Calls `look` until it returns `Ok`, and returns that value.
///
/// `what` completes the sentence "waited 5s until …". `look` returns as `Err` the state it saw instead; the last
/// one is in the failure, so that a test's log says what was wrong and not only that it took too long.
///
/// # Errors
/// When `timeout` has passed, also in the middle of a look that hangs.
pub async fn eventually<T>(
    timeout: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    let mut last = "nothing, the first look did not return".to_owned();
    let mut looks = 0_u32;
    loop {
        match tokio::time::timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => last = seen,
            Err(_) => bail!("waited {timeout:?} until {what}: look {looks} hangs; seen before: {last}"),
        }
        looks += 1;
        if Instant::now() + PERIOD > deadline {
            bail!("waited {timeout:?} until {what}: after {looks} looks still: {last}");
        }
        tokio::time::sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_becomes_true_ends_the_wait() {
        let mut looks = 0;
        let value = eventually(Duration::from_secs(5), "it is the third look", async || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err(format!("look {looks}")) }
        })
        .await;
        assert_eq!(value.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_reports_the_last_state_seen() {
        let mut looks = 0;
        let error = eventually::<()>(Duration::from_millis(100), "it is done", async || {
            looks += 1;
            Err(format!("phase working at look {looks}"))
        })
        .await
        .unwrap_err()
        .to_string();
        assert!(error.contains("until it is done") && error.contains("phase working at look"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_named_as_the_reason() {
        let hanging =
            eventually::<()>(Duration::from_secs(1), "it is done", async || std::future::pending().await);
        let error = hanging.await.unwrap_err().to_string();
        assert!(error.contains("hangs"), "{error}");
    }
}
