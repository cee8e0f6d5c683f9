//! Slots for calls: as many as a registration allows, handed out by one transaction at a time.

use std::collections::{BTreeMap, HashMap};

use david_reconciler::Transition;
use sqlx::PgConnection;

use crate::Write;

/// What is free for the calls that one transaction begins.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    free: HashMap<String, Vec<i32>>,
}

/// What a call finds.
pub(crate) enum Slot {
    /// Its server bounds nothing.
    NotNeeded,
    /// This one is its own while it is in `calling`.
    Taken(i32),
    /// As many calls are in flight as the server may have.
    Full,
}

impl Slots {
    /// Reads what is free, and keeps everybody else from it until COMMIT. Costs nothing while no
    /// registration has a bound.
    pub(crate) async fn hold(connection: &mut PgConnection, writes: &[Write]) -> Result<Self, sqlx::Error> {
        let mut wanted: BTreeMap<&str, (i32, i64)> = BTreeMap::new();
        for write in writes {
            if let Some(bound) = bound_of(write) {
                let (most, count) = wanted.entry(write.leased.task.registration_id.as_str()).or_default();
                *most = (*most).max(bound);
                *count += 1;
            }
        }
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        let ids: Vec<String> = wanted.keys().map(|&id| id.to_owned()).collect();
        let most: Vec<i32> = wanted.values().map(|(most, _)| *most).collect();
        let counts: Vec<i64> = wanted.values().map(|(_, count)| *count).collect();
        sqlx::query_file_scalar!("../../sql/hold_slots.sql", &ids).fetch_all(&mut *connection).await?;
        let mut free: HashMap<String, Vec<i32>> = HashMap::new();
        for row in
            sqlx::query_file!("../../sql/free_slots.sql", &ids, &most, &counts).fetch_all(connection).await?
        {
            free.entry(row.registration_id).or_default().push(row.slot);
        }
        Ok(Self { free })
    }

    /// One for this write.
    pub(crate) fn take(&mut self, write: &Write) -> Slot {
        if bound_of(write).is_none() {
            return Slot::NotNeeded;
        }
        let free = self.free.get_mut(write.leased.task.registration_id.as_str());
        free.and_then(Vec::pop).map_or(Slot::Full, Slot::Taken)
    }
}

/// How many calls the server of a call that begins may have in flight.
fn bound_of(write: &Write) -> Option<i32> {
    match write.transition {
        Transition::BeginCall { .. } => {
            let bound = write.leased.registered.as_ref()?.max_calls?;
            Some(i32::try_from(bound).unwrap_or(i32::MAX))
        }
        _ => None,
    }
}
