//! Who is next: rows of many servers that wait for a bounded number of places.
//!
//! Servers take turns, so that a long queue of one is no other's. And however many places there are, a
//! server gets no more than [`SHARE`] times as many as would still be free beside it: one that never
//! answers fills four fifths of them, two fill eight ninths, and whoever comes next finds one. (The rule
//! is known from shared buffers of switches: Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998.)

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How many places a server may have for each that is free.
const SHARE: usize = 4;

/// What overtakes, and what does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Somebody waits: a cancel, a change from outside.
    Urgent,
    /// Everything else.
    Ordinary,
}

/// A queue of `T` per server `S`.
#[derive(Debug)]
pub(crate) struct FairQueue<S, T> {
    servers: HashMap<S, Server<T>>,
    /// Whose turn it is, of those that have something urgent.
    urgent: VecDeque<S>,
    /// The same of everything else.
    ordinary: VecDeque<S>,
}

#[derive(Debug)]
struct Server<T> {
    urgent: VecDeque<T>,
    ordinary: VecDeque<T>,
    flying: usize,
}

impl<T> Default for Server<T> {
    fn default() -> Self {
        Self { urgent: VecDeque::new(), ordinary: VecDeque::new(), flying: 0 }
    }
}

impl<T> Server<T> {
    fn queue(&mut self, rank: Rank) -> &mut VecDeque<T> {
        match rank {
            Rank::Urgent => &mut self.urgent,
            Rank::Ordinary => &mut self.ordinary,
        }
    }

    fn waiting(&self) -> usize {
        self.urgent.len() + self.ordinary.len()
    }
}

impl<S, T> Default for FairQueue<S, T> {
    fn default() -> Self {
        Self { servers: HashMap::new(), urgent: VecDeque::new(), ordinary: VecDeque::new() }
    }
}

impl<S: Clone + Eq + Hash, T> FairQueue<S, T> {
    /// How many of this server's wait that overtake.
    pub(crate) fn urgent(&self, server: &S) -> usize {
        self.servers.get(server).map_or(0, |server| server.urgent.len())
    }

    pub(crate) fn push(&mut self, server: S, rank: Rank, item: T) {
        let queue = self.servers.entry(server.clone()).or_default().queue(rank);
        queue.push_back(item);
        if queue.len() == 1 {
            self.turns(rank).push_back(server);
        }
    }

    /// The next one, when `free` places are; it takes one until [`FairQueue::landed`]. None when nobody
    /// waits that may have one.
    pub(crate) fn pop(&mut self, free: usize) -> Option<(S, T)> {
        self.pop_of(Rank::Urgent, free).or_else(|| self.pop_of(Rank::Ordinary, free))
    }

    fn pop_of(&mut self, rank: Rank, free: usize) -> Option<(S, T)> {
        for _ in 0..self.turns(rank).len() {
            let id = self.turns(rank).pop_front()?;
            let Some(server) = self.servers.get_mut(&id) else { continue };
            if server.flying >= free.saturating_mul(SHARE) {
                self.turns(rank).push_back(id);
                continue;
            }
            let item = server.queue(rank).pop_front();
            let more = !server.queue(rank).is_empty();
            server.flying += usize::from(item.is_some());
            if more {
                self.turns(rank).push_back(id.clone());
            }
            if let Some(item) = item {
                return Some((id, item));
            }
        }
        None
    }

    /// A place of this server's is free again.
    pub(crate) fn landed(&mut self, server: &S) {
        if let Some(found) = self.servers.get_mut(server) {
            found.flying = found.flying.saturating_sub(1);
            if found.flying == 0 && found.waiting() == 0 {
                self.servers.remove(server);
            }
        }
    }

    /// Takes out whatever waits and is told so by `gone`.
    pub(crate) fn take_out(&mut self, mut gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for server in self.servers.values_mut() {
            for rank in [Rank::Urgent, Rank::Ordinary] {
                let queue = server.queue(rank);
                for _ in 0..queue.len() {
                    match queue.pop_front() {
                        Some(item) if gone(&item) => out.push(item),
                        Some(item) => queue.push_back(item),
                        None => {}
                    }
                }
            }
        }
        let servers = &self.servers;
        self.urgent.retain(|id| servers.get(id).is_some_and(|server| !server.urgent.is_empty()));
        self.ordinary.retain(|id| servers.get(id).is_some_and(|server| !server.ordinary.is_empty()));
        self.servers.retain(|_, server| server.flying > 0 || server.waiting() > 0);
        out
    }

    fn turns(&mut self, rank: Rank) -> &mut VecDeque<S> {
        match rank {
            Rank::Urgent => &mut self.urgent,
            Rank::Ordinary => &mut self.ordinary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(items: &[(&'static str, u32)]) -> FairQueue<&'static str, u32> {
        let mut queue = FairQueue::default();
        for (server, item) in items {
            queue.push(*server, Rank::Ordinary, *item);
        }
        queue
    }

    #[test]
    fn servers_take_turns_and_each_is_served_in_order() {
        let mut queue = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)]);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(100).map(|(_, item)| item)).collect();
        assert_eq!(order, [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn what_is_urgent_overtakes_everything() {
        let mut queue = queue(&[("a", 1), ("b", 2)]);
        queue.push("b", Rank::Urgent, 3);
        assert_eq!((queue.urgent(&"a"), queue.urgent(&"b")), (0, 1));
        assert_eq!(queue.pop(100), Some(("b", 3)));
        assert_eq!(queue.pop(100), Some(("a", 1)));
    }

    #[test]
    fn servers_that_never_answer_leave_places_for_others() {
        let places = 100;
        for dead in 1..=8 {
            let mut queue = FairQueue::default();
            let mut free = places;
            for server in 0..dead {
                for item in 0..1_000 {
                    queue.push(server, Rank::Ordinary, item);
                }
            }
            while queue.pop(free).is_some() {
                free -= 1;
            }
            assert!(free > 0, "{dead} servers fill everything");
            queue.push(99, Rank::Ordinary, 0);
            assert_eq!(queue.pop(free).map(|(server, _)| server), Some(99), "{dead}");
        }
    }

    #[test]
    fn a_server_alone_has_four_fifths_of_the_places_and_goes_on_when_one_lands() {
        let mut queue = queue(&[("a", 0); 200]);
        let mut free = 100;
        while queue.pop(free).is_some() {
            free -= 1;
        }
        assert_eq!(free, 20);
        queue.landed(&"a");
        assert!(queue.pop(free + 1).is_some());
    }

    #[test]
    fn what_is_taken_out_is_counted_nowhere() {
        let mut queue = queue(&[("a", 1), ("a", 2), ("b", 3)]);
        let mut out = queue.take_out(|item| *item != 2);
        out.sort_unstable();
        assert_eq!(out, [1, 3]);
        assert_eq!(queue.pop(9), Some(("a", 2)));
        queue.landed(&"a");
        assert_eq!(queue.pop(9), None);
        assert!(queue.servers.is_empty(), "nothing is remembered of those that have nothing");
    }
}
