//! News of Actions that are under way: to the log, and to Core if it listens.
//!
//! Nothing here is kept, and nothing waits for it: what comes too fast is dropped, since the next news
//! of the same Action is better anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use david_reconciler::{ActionId, RunId, ToolCallId};
use david_schema::{Ledger, causes};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

/// An Action's news is told once in this time at most.
const TICK: Duration = Duration::from_secs(1);

/// Actions whose news is told per tick at most, by one replica.
const PER_TICK: usize = 100;

/// News in hand at most, of different Actions.
const WAITING: usize = 10_000;

/// How long the same words are not told again.
const REMEMBERED: Duration = Duration::from_secs(600);

/// News of an Action.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct News {
    pub(crate) run: RunId,
    pub(crate) action: ActionId,
    pub(crate) tool_call: ToolCallId,
    /// The server's words, fit to be shown.
    pub(crate) message: Option<String>,
    /// How far a call is, and what that grows to.
    pub(crate) progress: Option<f64>,
    pub(crate) total: Option<f64>,
}

impl News {
    /// What Core reads from its channel: docs/progress.md.
    fn payload(&self) -> String {
        json!({
            "version": 1, "run_id": self.run.as_str(), "action_id": self.action.as_str(),
            "tool_call_id": self.tool_call.as_str(),
            "message": self.message, "progress": self.progress, "total": self.total,
        })
        .to_string()
    }
}

/// The latest news of each Action that has not been told yet.
type Latest = Mutex<HashMap<ActionId, News>>;

/// Where news goes.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Arc<Latest>);

impl Progress {
    /// The handle, and the loop behind it. `channel` is the notify channel that Core listens on, if it
    /// does.
    pub(crate) fn new(ledger: Ledger, channel: Option<String>) -> (Self, ProgressLoop) {
        let latest = Arc::<Latest>::default();
        let progress =
            ProgressLoop { ledger, channel, latest: Arc::downgrade(&latest), told: HashMap::new() };
        (Self(latest), progress)
    }

    /// Tells it some time soon, unless there is newer news by then, or too much of it.
    pub(crate) fn tell(&self, news: News) {
        let mut latest = lock(&self.0);
        if latest.len() < WAITING || latest.contains_key(&news.action) {
            latest.insert(news.action.clone(), news);
        }
    }
}

fn lock(latest: &Latest) -> MutexGuard<'_, HashMap<ActionId, News>> {
    // Nothing panics while it is held; should it, what is in there is as good as before.
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells it.
pub(crate) struct ProgressLoop {
    ledger: Ledger,
    channel: Option<String>,
    latest: Weak<Latest>,
    told: HashMap<ActionId, (Instant, News)>,
}

impl ProgressLoop {
    /// Runs until the last handle is gone.
    pub(crate) async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let Some(latest) = self.latest.upgrade() else { return };
            let latest = std::mem::take(&mut *lock(&latest));
            let news = self.new_of(latest);
            self.tell(&news).await;
        }
    }

    /// What of it was not told before.
    fn new_of(&mut self, latest: HashMap<ActionId, News>) -> Vec<News> {
        let now = Instant::now();
        self.told.retain(|_, (at, _)| now.duration_since(*at) < REMEMBERED);
        let told = &mut self.told;
        let fresh =
            latest.into_values().filter(|news| told.get(&news.action).is_none_or(|(_, known)| known != news));
        let due: Vec<News> = fresh.take(PER_TICK).collect();
        for news in &due {
            self.told.insert(news.action.clone(), (now, news.clone()));
        }
        due
    }

    async fn tell(&self, news: &[News]) {
        for news in news {
            tracing::info!(
                run.id = %news.run, action.id = %news.action, tool_call_id = %news.tool_call,
                remote.message = news.message, remote.progress = news.progress, remote.total = news.total,
                "the server reports progress"
            );
        }
        let Some(channel) = self.channel.as_deref().filter(|_| !news.is_empty()) else { return };
        let payloads: Vec<String> = news.iter().map(News::payload).collect();
        if let Err(error) = self.ledger.notify(channel, &payloads).await {
            tracing::warn!(error = causes(&error), "progress was not told to Core");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(action: &str, message: &str) -> News {
        News {
            run: RunId::new("run_1"),
            action: ActionId::new(action),
            tool_call: ToolCallId::new("call_1"),
            message: Some(message.to_owned()),
            progress: None,
            total: None,
        }
    }

    /// A handle, and what its loop would tell at a tick.
    fn idle() -> (Progress, impl FnMut() -> Vec<News>) {
        let pool = sqlx::postgres::PgPoolOptions::new().connect_lazy("postgres://nobody@127.0.0.1:1/none");
        let (progress, mut told) = Progress::new(Ledger::from_pool(pool.unwrap()), None);
        let handle = progress.clone();
        (progress, move || told.new_of(std::mem::take(&mut *lock(&handle.0))))
    }

    #[tokio::test]
    async fn only_the_latest_news_of_an_action_is_told_and_not_twice() {
        let (progress, mut tick) = idle();
        for message in ["a", "b", "c"] {
            progress.tell(news("act_1", message));
        }
        assert_eq!(tick(), [news("act_1", "c")]);
        progress.tell(news("act_1", "c"));
        assert_eq!(tick(), []);
        progress.tell(news("act_1", "d"));
        assert_eq!(tick(), [news("act_1", "d")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_waiting_and_what_is_told_at_once_is_bounded_and_the_rest_forgotten() {
        let (progress, mut tick) = idle();
        for number in 0..2 * WAITING {
            progress.tell(news(&format!("act_{number}"), "working"));
        }
        assert_eq!(lock(&progress.0).len(), WAITING);
        let told = tick();
        assert_eq!((told.len(), tick().len()), (PER_TICK, 0));
        progress.tell(told[0].clone());
        assert_eq!(tick(), []);
        tokio::time::advance(REMEMBERED).await;
        progress.tell(told[0].clone());
        assert_eq!(tick(), [told[0].clone()]);
    }

    #[test]
    fn the_longest_payload_fits_into_a_notification() {
        let mut longest = news(&"x".repeat(64), &"\u{1}".repeat(501));
        (longest.run, longest.tool_call) = (RunId::new("x".repeat(64)), ToolCallId::new("\u{1}".repeat(255)));
        (longest.progress, longest.total) = (Some(f64::MIN), Some(f64::MIN));
        assert!(longest.payload().len() < 8000, "{}", longest.payload().len());
    }
}
