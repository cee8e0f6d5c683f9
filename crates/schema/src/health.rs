//! What all replicas know of servers in trouble: breakers, pauses, and figures for people.

use std::collections::HashMap;
use std::time::Duration;

use david_reconciler::RegistrationId;

use crate::lease::micros;
use crate::{Ledger, LedgerError};

/// Why nothing is leased from a server as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// An operator stopped it.
    Paused,
    /// It went on failing; nothing is sent there for so long.
    Open(Duration),
    /// It went on failing, and it is time to see whether it answers again.
    HalfOpen,
}

/// A server that went on failing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    /// Which.
    pub registration: RegistrationId,
    /// Its last failure, one sentence.
    pub reason: String,
    /// Whether this was a probe that failed, which counts though the breaker is open.
    pub probe: bool,
}

/// What one replica saw of a server since it last told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    /// Requests that ended.
    pub requests: u64,
    /// Those of them that brought no answer.
    pub failures: u64,
    /// Mean time of the answered ones.
    pub latency: Option<Duration>,
    /// The last failure, one sentence.
    pub last_error: Option<String>,
}

/// How long breakers stay open: the first time, and at most.
#[derive(Debug, Clone, Copy)]
pub struct OpenFor {
    /// After the first trip. It doubles.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Ledger {
    /// The servers from which nothing is leased as usual.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn closed(&self) -> Result<HashMap<RegistrationId, Closed>, LedgerError> {
        let rows = self
            .run(async |connection| sqlx::query_file!("../../sql/closed.sql").fetch_all(connection).await)
            .await
            .map_err(LedgerError::new("say which servers are closed"))?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let closed = match (row.paused, row.open_for.unwrap_or_default()) {
                    (true, _) => Closed::Paused,
                    (false, micros @ 1..) => Closed::Open(Duration::from_micros(micros.unsigned_abs())),
                    (false, _) => Closed::HalfOpen,
                };
                (RegistrationId::new(row.registration_id), closed)
            })
            .collect())
    }

    /// Opens the breakers of these servers. Who says so second, while one is open, changes nothing,
    /// unless a probe failed.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn trip(&self, trips: &[Trip], open_for: OpenFor) -> Result<(), LedgerError> {
        let ids: Vec<String> = trips.iter().map(|trip| trip.registration.to_string()).collect();
        let reasons: Vec<String> = trips.iter().map(|trip| trip.reason.clone()).collect();
        let probes: Vec<String> =
            trips.iter().filter(|trip| trip.probe).map(|trip| trip.registration.to_string()).collect();
        #[expect(clippy::cast_precision_loss, reason = "microseconds of minutes")]
        let (first, longest) = (micros(open_for.first), micros(open_for.longest) as f64);
        self.run(async |connection| {
            sqlx::query_file!("../../sql/trip.sql", &ids, &reasons, first, longest, &probes)
                .execute(connection)
                .await
        })
        .await
        .map_err(LedgerError::new("open a breaker"))?;
        Ok(())
    }

    /// Closes the breakers of servers that answer again.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn close(&self, servers: &[RegistrationId]) -> Result<(), LedgerError> {
        let ids: Vec<String> = servers.iter().map(ToString::to_string).collect();
        self.run(async |connection| sqlx::query_file!("../../sql/close.sql", &ids).execute(connection).await)
            .await
            .map_err(LedgerError::new("close a breaker"))?;
        Ok(())
    }

    /// Adds what this replica saw of servers.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn write_health(&self, seen: &[(RegistrationId, Seen)]) -> Result<(), LedgerError> {
        let ids: Vec<String> = seen.iter().map(|(id, _)| id.to_string()).collect();
        let requests: Vec<i64> = seen.iter().map(|(_, seen)| signed(seen.requests)).collect();
        let failures: Vec<i64> = seen.iter().map(|(_, seen)| signed(seen.failures)).collect();
        let latency: Vec<Option<f32>> =
            seen.iter().map(|(_, seen)| seen.latency.map(|took| took.as_secs_f32() * 1000.0)).collect();
        let errors: Vec<Option<String>> = seen.iter().map(|(_, seen)| seen.last_error.clone()).collect();
        self.run(async |connection| {
            sqlx::query_file!(
                "../../sql/write_health.sql",
                &ids,
                &requests,
                &failures,
                &latency as &[Option<f32>],
                &errors as &[Option<String>]
            )
            .execute(connection)
            .await
        })
        .await
        .map_err(LedgerError::new("take in what was seen of servers"))?;
        Ok(())
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
