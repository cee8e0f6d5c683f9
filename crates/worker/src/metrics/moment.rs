//! What is so at the moment of a scrape, read then and not kept up to date meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use david_schema::Ledger;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Word;
use super::servers::Servers;
use crate::health::Health;
use crate::holder::Holder;

/// Where to read it.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) ledger: Ledger,
    pub(crate) holder: Holder,
    pub(crate) health: Health,
}

/// Where it is shown.
pub(super) struct Gauges {
    held: Gauge,
    calls: Gauge,
    polls: Gauge,
    closed: Family<[(&'static str, Arc<str>); 2], Gauge>,
    busy: Gauge,
    idle: Gauge,
    most: Gauge,
    /// One scrape at a time: what one has set another would clear.
    turn: Mutex<()>,
}

impl Gauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let held = Gauge::default();
        registry.register(
            "held_rows",
            "Rows that this replica has leased, in flight or between two polls",
            held.clone(),
        );
        let in_flight = Family::<Word, Gauge>::default();
        let help = "Rows that are being driven: calls (tools/call) and polls (everything else)";
        registry.register("in_flight", help, in_flight.clone());
        let closed = Family::default();
        registry.register(
            "server_closed",
            "1 for a server from which nothing is leased as usual, by registration and why",
            closed.clone(),
        );
        let connections = Family::<Word, Gauge>::default();
        registry.register("database_connections", "Pooled connections to Postgres", connections.clone());
        let most = Gauge::default();
        registry.register("database_connections_max", "Pooled connections at most", most.clone());
        Self {
            held,
            calls: in_flight.get_or_create_owned(&[("lane", "calls")]),
            polls: in_flight.get_or_create_owned(&[("lane", "polls")]),
            closed,
            busy: connections.get_or_create_owned(&[("state", "busy")]),
            idle: connections.get_or_create_owned(&[("state", "idle")]),
            most,
            turn: Mutex::default(),
        }
    }

    /// Reads, and lets `encode` write down what was read.
    pub(super) fn show(
        &self,
        moment: &Moment,
        servers: &Servers,
        encode: impl FnOnce() -> fmt::Result,
    ) -> fmt::Result {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = moment.holder.counts();
        self.held.set(whole(counts.held));
        self.calls.set(whole(counts.calls));
        self.polls.set(whole(counts.polls));
        let connections = moment.ledger.connections();
        self.busy.set(i64::from(connections.open.saturating_sub(connections.idle)));
        self.idle.set(i64::from(connections.idle));
        self.most.set(i64::from(connections.most));
        self.closed.clear();
        for (id, why) in moment.health.not_passing() {
            let labels = [("registration", servers.of(&id).label()), ("state", why.into())];
            self.closed.get_or_create(&labels).set(1);
        }
        encode()
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
