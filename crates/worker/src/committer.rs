//! Gathers the decisions of all rows in flight into batches.
//!
//! A batch is whatever has gathered while the batch before it was written: no timer delays a lone
//! row, and under load batches grow by themselves.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{Fence, TaskId};
use david_schema::{BatchAnswer, CommitError, Committed, Ledger, ReplicaId, Write, causes};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::crash;
use crate::metrics::Metrics;
use crate::pulse::LoopPulse;

/// Writes in one transaction at most. Beyond a few hundred the gain is small, and one bad row sends all of them row by row.
const BATCH: usize = 200;

/// Bytes of results and questions in one transaction at most, unless a single row has more: a heavy
/// transaction would run into the statement time-out and hold up every other row meanwhile.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Rows that are committed alone at the same time at most. Each may wait for a lock, and must leave
/// connections for everything else.
const ALONE: usize = 2;

type Answer = oneshot::Sender<Result<Committed, CommitError>>;

enum Job {
    Commit(Box<Write>, Answer),
    Release(TaskId, Fence),
}

/// Where decisions are handed in.
#[derive(Clone)]
pub(crate) struct Committer {
    jobs: mpsc::Sender<Job>,
}

/// The committing loop; ends when every [`Committer`] is dropped.
pub(crate) struct CommitLoop {
    ledger: Ledger,
    replica: ReplicaId,
    jobs: mpsc::Receiver<Job>,
    alone: TaskTracker,
    turns: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    pulse: LoopPulse,
}

impl Committer {
    /// A committer and the loop behind it.
    pub(crate) fn new(
        ledger: Ledger,
        replica: ReplicaId,
        metrics: Arc<Metrics>,
        pulse: LoopPulse,
    ) -> (Self, CommitLoop) {
        let (sender, jobs) = mpsc::channel(4 * BATCH);
        (
            Self { jobs: sender },
            CommitLoop {
                ledger,
                replica,
                jobs,
                alone: TaskTracker::new(),
                turns: Arc::new(Semaphore::new(ALONE)),
                metrics,
                pulse,
            },
        )
    }

    /// Commits one decision, once.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub(crate) async fn commit_once(&self, write: Write) -> Result<Committed, CommitError> {
        let (answer, answered) = oneshot::channel();
        let closed = || CommitError::Unavailable(std::sync::Arc::new(sqlx::Error::PoolClosed));
        self.jobs.send(Job::Commit(Box::new(write), answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// Commits one decision, again and again while the database is away, until `give_up`. A write
    /// that arrived after all recognises itself, so repeating it is safe (DESIGN rule 2).
    ///
    /// # Errors
    /// [`CommitError::Unavailable`] when `give_up` came first; the others at once.
    pub(crate) async fn commit(&self, write: Write, give_up: Instant) -> Result<Committed, CommitError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.commit_once(write.clone()).await {
                Err(CommitError::Unavailable(source)) if Instant::now() + pause < give_up => {
                    tracing::warn!(
                        task.id = write.leased.task.id.0,
                        transition = write.transition.label(),
                        error = causes(&*source),
                        "the database is not available; the write is tried again"
                    );
                    // Whatever failed together does not come back together.
                    tokio::time::sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// Gives a row back untouched.
    pub(crate) async fn release(&self, task: TaskId, fence: Fence) {
        if self.jobs.send(Job::Release(task, fence)).await.is_err() {
            tracing::warn!(task.id = task.0, "a row could not be released and will lapse");
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl CommitLoop {
    /// Runs until every [`Committer`] is gone and the last write is answered.
    pub(crate) async fn run(mut self) {
        let mut gathered = Vec::with_capacity(BATCH);
        while self.jobs.recv_many(&mut gathered, BATCH).await > 0 {
            let mut writes = Vec::with_capacity(gathered.len());
            let mut answers = Vec::with_capacity(gathered.len());
            let mut releases = Vec::new();
            let mut bytes = 0_usize;
            for job in gathered.drain(..) {
                match job {
                    Job::Commit(write, answer) => {
                        let weight = write.weight();
                        if bytes.saturating_add(weight) > BATCH_BYTES && !writes.is_empty() {
                            self.commit(std::mem::take(&mut writes), std::mem::take(&mut answers)).await;
                            bytes = 0;
                        }
                        bytes = bytes.saturating_add(weight);
                        writes.push(*write);
                        answers.push(answer);
                    }
                    Job::Release(task, fence) => releases.push((task, fence)),
                }
            }
            if !writes.is_empty() {
                self.commit(writes, answers).await;
            }
            if !releases.is_empty() {
                self.release(&releases).await;
            }
        }
        self.alone.close();
        self.alone.wait().await;
    }

    async fn release(&self, rows: &[(TaskId, Fence)]) {
        let _round = self.pulse.round();
        if let Err(error) = self.ledger.release(rows).await {
            tracing::warn!(
                rows = rows.len(),
                error = causes(&error),
                "rows could not be released and will lapse"
            );
        }
    }

    async fn commit(&self, writes: Vec<Write>, answers: Vec<Answer>) {
        let _round = self.pulse.round();
        crash::point("before_commit");
        let began = Instant::now();
        let settled = self.ledger.commit_batch(self.replica, &writes).await;
        self.metrics.writes.committed(writes.len(), began.elapsed());
        crash::point("after_commit");
        for ((write, answer), settled) in writes.into_iter().zip(answers).zip(settled) {
            match settled {
                BatchAnswer::Settled(result) => tell(&self.metrics, &write, answer, result),
                BatchAnswer::Alone => {
                    let (ledger, replica) = (self.ledger.clone(), self.replica);
                    let (turns, metrics) = (Arc::clone(&self.turns), Arc::clone(&self.metrics));
                    self.alone.spawn(async move {
                        let _turn = turns.acquire().await;
                        let began = Instant::now();
                        let result = ledger.commit_alone(replica, &write).await;
                        metrics.writes.committed(1, began.elapsed());
                        tell(&metrics, &write, answer, result);
                    });
                }
            }
        }
    }
}

/// Whoever asked may be gone, at a shutdown past its grace; what is written stays written.
fn tell(metrics: &Metrics, write: &Write, answer: Answer, result: Result<Committed, CommitError>) {
    metrics.writes.count(write, &result);
    if let Err(unheard) = answer.send(result) {
        // Not the error itself: Postgres may quote the row in it.
        tracing::debug!(written = unheard.is_ok(), "nobody waits for this commit any more");
    }
}
