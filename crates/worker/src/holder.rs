//! The rows a replica holds: when each is looked at next, and how many at once.
//!
//! A row that works is leased once per term and polled from memory (DESIGN §7). It waits here between its
//! polls. Nothing is ever extended: when its next poll would not fit the lease any more, the row is written
//! and given up, and drifts to whichever replica has room.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{Fence, TaskId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::drive::{Drive, Held, Lane};

/// A call that found no room in this time is given back; another replica may have some.
const CALL_PATIENCE: Duration = Duration::from_secs(2);

/// Where leased rows are handed in.
#[derive(Debug, Clone)]
pub(crate) struct Holder(mpsc::Sender<Order>);

enum Order {
    Take(Box<Drive>),
    GiveBackAll(oneshot::Sender<()>),
}

impl Holder {
    /// Drives a row now, and again whenever its next poll is due.
    pub(crate) async fn take(&self, drive: Drive) {
        if let Err(mpsc::error::SendError(Order::Take(drive))) =
            self.0.send(Order::Take(Box::new(drive))).await
        {
            drive.release().await;
        }
    }

    /// Gives back every row that waits, so that whatever kills this replica does not condemn them
    /// (DESIGN rule 16).
    pub(crate) async fn give_back_all(&self) {
        let (done, all_given_back) = oneshot::channel();
        if self.0.send(Order::GiveBackAll(done)).await.is_ok() {
            // Gone means that the replica stops, and gives everything back by itself.
            drop(all_given_back.await);
        }
    }
}

/// One bound on what is in flight, and who waits for it.
struct Bound {
    room: Arc<Semaphore>,
    waiting: VecDeque<(Instant, Box<Drive>)>,
}

impl Bound {
    fn new(room: Arc<Semaphore>) -> Self {
        Self { room, waiting: VecDeque::new() }
    }

    /// Room for the first that waits; for ever, when nobody does.
    async fn free(&self) -> Option<OwnedSemaphorePermit> {
        if self.waiting.is_empty() {
            return std::future::pending().await;
        }
        Arc::clone(&self.room).acquire_owned().await.ok()
    }
}

/// A row between two looks, ordered by when the next is due.
struct Waiting {
    at: Instant,
    drive: Box<Drive>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// A look is over.
struct Looked {
    row: (TaskId, Fence),
    held: Option<Held>,
}

/// The loop behind a [`Holder`].
pub(crate) struct HolderLoop {
    context: Arc<Context>,
    orders: mpsc::Receiver<Order>,
    looked: mpsc::UnboundedReceiver<Looked>,
    look_over: mpsc::UnboundedSender<Looked>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// The fence of the newest lease of each row. A row that was cancelled or answered is leased
    /// again while its older lease still waits here; that one has nothing to do any more.
    newest: HashMap<TaskId, Fence>,
    calls: Bound,
    polls: Bound,
    flying: TaskTracker,
}

/// The bounds on what is in flight, shared with whoever wants to be alone.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) polls: Arc<Semaphore>,
}

impl HolderLoop {
    pub(crate) fn new(context: Arc<Context>, lanes: &Lanes) -> (Holder, Self) {
        let (holder, orders) = mpsc::channel(1_000);
        let (look_over, looked) = mpsc::unbounded_channel();
        let this = Self {
            context,
            orders,
            looked,
            look_over,
            waiting: BinaryHeap::new(),
            newest: HashMap::new(),
            calls: Bound::new(Arc::clone(&lanes.calls)),
            polls: Bound::new(Arc::clone(&lanes.polls)),
            flying: TaskTracker::new(),
        };
        (Holder(holder), this)
    }

    /// Runs until the replica stops and nothing is in flight any more.
    pub(crate) async fn run(mut self) {
        let stopping = self.context.stopping.clone();
        loop {
            let due = self.waiting.peek().map(|Reverse(waiting)| waiting.at);
            let impatient = self.calls.waiting.front().map(|(since, _)| *since + CALL_PATIENCE);
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                Some(looked) = self.looked.recv() => self.keep(looked),
                Some(room) = self.polls.free() => {
                    if let Some((_, drive)) = self.polls.waiting.pop_front() { self.launch(room, drive) }
                }
                Some(room) = self.calls.free() => {
                    if let Some((_, drive)) = self.calls.waiting.pop_front() { self.launch(room, drive) }
                }
                Some(order) = self.orders.recv() => self.obey(order).await,
                () = until(due) => self.wake(),
                () = until(impatient) => {
                    if let Some((_, drive)) = self.calls.waiting.pop_front() { self.give_back(*drive).await }
                }
            }
        }
        self.give_back_all().await;
        self.flying.close();
        let flying = self.flying.clone();
        loop {
            tokio::select! {
                biased;
                // A lease that was under way.
                Some(order) = self.orders.recv() => {
                    self.obey(order).await;
                    self.give_back_all().await;
                }
                () = flying.wait() => break,
            }
        }
        self.give_back_all().await;
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Take(drive) => {
                let (task, fence) = drive.row();
                self.newest.insert(task, fence);
                self.queue(drive);
            }
            Order::GiveBackAll(done) => {
                self.give_back_all().await;
                if done.send(()).is_err() {
                    tracing::debug!("whoever wanted to be alone has been stopped");
                }
            }
        }
    }

    /// Those whose time has come.
    fn wake(&mut self) {
        let now = Instant::now();
        while self.waiting.peek().is_some_and(|Reverse(waiting)| waiting.at <= now) {
            let Some(Reverse(Waiting { drive, .. })) = self.waiting.pop() else { return };
            let (task, fence) = drive.row();
            if self.newest.get(&task) == Some(&fence) {
                self.queue(drive);
            }
        }
    }

    fn queue(&mut self, drive: Box<Drive>) {
        let bound = match drive.lane() {
            Lane::Call => &mut self.calls,
            Lane::Poll => &mut self.polls,
        };
        bound.waiting.push_back((Instant::now(), drive));
    }

    fn launch(&self, room: OwnedSemaphorePermit, drive: Box<Drive>) {
        let (row, over) = (drive.row(), self.look_over.clone());
        self.flying.spawn(async move {
            // In a task of its own: a panic of one row is no other's.
            let look = tokio::spawn(drive.run());
            let held = match look.await {
                Ok(held) => held,
                Err(error) => {
                    tracing::error!(
                        task.id = row.0.0,
                        error = david_schema::causes(&error),
                        "a row's drive panicked; the row lapses"
                    );
                    None
                }
            };
            drop(room);
            // The loop is gone only once everything in flight is over.
            drop(over.send(Looked { row, held }));
        });
    }

    fn keep(&mut self, looked: Looked) {
        let newest = self.newest.get(&looked.row.0) == Some(&looked.row.1);
        match looked.held {
            Some(Held { at, drive }) if newest => {
                self.waiting.push(Reverse(Waiting { at, drive: Box::new(drive) }));
            }
            _ if newest => drop(self.newest.remove(&looked.row.0)),
            // Leased again meanwhile: this lease is stale.
            _ => {}
        }
    }

    async fn give_back_all(&mut self) {
        while let Ok(looked) = self.looked.try_recv() {
            self.keep(looked);
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|Reverse(waiting)| waiting.drive);
        let queued = self.calls.waiting.drain(..).chain(self.polls.waiting.drain(..)).map(|(_, drive)| drive);
        for drive in waiting.chain(queued).collect::<Vec<_>>() {
            self.give_back(*drive).await;
        }
    }

    async fn give_back(&mut self, drive: Drive) {
        let (task, fence) = drive.row();
        if self.newest.get(&task) == Some(&fence) {
            self.newest.remove(&task);
            drive.release().await;
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
