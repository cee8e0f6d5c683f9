//! What to lease when work piles up or a server is closed: a fair share of each lane in which something is
//! due, and nothing of those that are blocked.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use david_reconciler::{PhaseName, RegistrationId};
use david_schema::{Lane, Ledger, LedgerError};
use tokio::time::Instant;

use crate::context::Context;
use crate::full::Room;
use crate::health::ClosedServers;
use crate::holder::Saturated;

/// Where something is due is read again after this at the earliest,
const READ_EVERY: Duration = Duration::from_millis(100);

/// and after so many times as long as that took: it costs a step per lane, and there may be thousands.
const READ_SHARE: u32 = 20;

/// Calls of a server that are leased at a time when there was no slot a moment ago.
const FEW: u32 = 8;

/// What is left out.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// Of these nothing is leased: closed, or more cancels wait than can be sent.
    closed: HashSet<RegistrationId>,
    /// Of these nothing but owed cancels.
    saturated: HashSet<RegistrationId>,
    /// Of these few calls or none are.
    full: HashMap<RegistrationId, Room>,
}

impl Blocked {
    pub(crate) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.saturated.is_empty() && self.full.is_empty()
    }

    fn leaves_out(&self, lane: &Lane) -> bool {
        self.closed.contains(&lane.registration)
            || (lane.phase != PhaseName::Cancelling && self.saturated.contains(&lane.registration))
    }
}

/// The lanes of one replica.
#[derive(Debug)]
pub(crate) struct Lanes {
    due: Vec<Lane>,
    /// When they were read; none when they say nothing any more.
    read: Option<Instant>,
    cost: Duration,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self { due: Vec::new(), read: None, cost: Duration::ZERO }
    }

    /// What must be left out now: closed servers, those of which this replica has more than it can send, and
    /// calls for which there are no slots.
    pub(crate) fn blocked(&self, context: &Context, closed: &ClosedServers, saturated: Saturated) -> Blocked {
        Blocked {
            closed: closed.all.iter().cloned().chain(saturated.urgent).collect(),
            saturated: saturated.others.into_iter().collect(),
            full: context.full.rooms(),
        }
    }

    /// Reads where something is due, unless that is known well enough.
    pub(crate) async fn read(&mut self, ledger: &Ledger) -> Result<(), LedgerError> {
        let pause = READ_EVERY.max(self.cost.saturating_mul(READ_SHARE));
        let began = Instant::now();
        if self.read.is_some_and(|read| began.duration_since(read) < pause) {
            return Ok(());
        }
        self.due = ledger.lanes().await?;
        self.cost = began.elapsed();
        self.read = Some(Instant::now());
        Ok(())
    }

    /// Nothing was found where something was due.
    pub(crate) fn forget(&mut self) {
        self.due.clear();
    }

    /// The phases in which something of this server is due.
    pub(crate) fn phases_to_probe(&self, server: &RegistrationId) -> Vec<PhaseName> {
        self.due.iter().filter(|lane| lane.registration == *server).map(|lane| lane.phase).collect()
    }

    /// How many rows of each lane at most, `limit` in all, and `cancels` owed cancels of each server beyond that.
    /// Whose turn comes first is left to chance.
    pub(crate) fn shares(&self, limit: u32, cancels: u32, blocked: &Blocked) -> Vec<(Lane, u32)> {
        let mut lanes: Vec<&Lane> = self.due.iter().filter(|lane| !blocked.leaves_out(lane)).collect();
        fastrand::shuffle(&mut lanes);
        // Cancels first.
        lanes.sort_by_key(|lane| lane.phase != PhaseName::Cancelling);
        let ordinary = lanes.iter().filter(|lane| lane.phase != PhaseName::Cancelling).count();
        let share = limit.div_ceil(u32::try_from(ordinary.max(1)).unwrap_or(u32::MAX));
        let most = |lane: &Lane| match (lane.phase, blocked.full.get(&lane.registration)) {
            (PhaseName::Cancelling, _) => cancels,
            (PhaseName::Queued, Some(Room::None)) => 0,
            (PhaseName::Queued, Some(Room::Few)) => share.min(FEW),
            _ => share,
        };
        lanes.into_iter().map(|lane| (lane.clone(), most(lane))).filter(|(_, most)| *most > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(names: &[(&str, PhaseName)]) -> Lanes {
        let lane = |(server, phase): &(&str, PhaseName)| Lane {
            registration: RegistrationId::new(*server),
            phase: *phase,
        };
        Lanes { due: names.iter().map(lane).collect(), ..Lanes::new() }
    }

    #[test]
    fn lanes_share_a_lease_and_owed_cancels_come_first_and_beyond_it() {
        use PhaseName::{Cancelling, Queued, Working};
        let lanes = lanes(&[("a", Working), ("b", Queued), ("b", Cancelling), ("c", Working)]);
        let shares = lanes.shares(100, 100, &Blocked::default());
        assert_eq!(shares[0].0.phase, Cancelling);
        assert_eq!(shares[0].1, 100);
        assert!(shares[1..].iter().all(|(_, most)| *most == 34), "{shares:?}");
        let without_room = lanes.shares(0, 100, &Blocked::default());
        assert_eq!(without_room.len(), 1, "only cancels need no room");
    }

    #[test]
    fn closed_servers_are_left_out_but_of_full_and_saturated_ones_only_what_finds_no_room() {
        use PhaseName::{Cancelling, Queued, Working};
        let lanes = lanes(&[
            ("closed", Working),
            ("full", Queued),
            ("full", Working),
            ("few", Queued),
            ("saturated", Working),
            ("saturated", Cancelling),
        ]);
        let blocked = Blocked {
            closed: [RegistrationId::new("closed")].into(),
            saturated: [RegistrationId::new("saturated")].into(),
            full: [(RegistrationId::new("full"), Room::None), (RegistrationId::new("few"), Room::Few)].into(),
        };
        let mut shares: Vec<(String, PhaseName, u32)> = lanes
            .shares(90, 100, &blocked)
            .into_iter()
            .map(|(lane, most)| (lane.registration.to_string(), lane.phase, most))
            .collect();
        shares.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            shares,
            [
                ("few".to_owned(), Queued, FEW),
                ("full".to_owned(), Working, 30),
                ("saturated".to_owned(), Cancelling, 100)
            ]
        );
    }
}
