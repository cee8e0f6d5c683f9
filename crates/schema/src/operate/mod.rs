//! What operators do and see, over the views and functions of migrations 0007 and 0008: never a table, so that
//! the role `david_operator` suffices. Works through any pooler, since nothing here relies on a session.

mod error;
mod examine;
mod pooler;
mod see;
mod snapshot;
mod steer;
mod structure;
mod time;

use std::time::Duration;

pub use error::{OperatorError, Refused, RefusedKind};
pub use examine::{
    Blocker, Expected, Registration, Right, RoleSetting, Server, Slot, TableOption, WakeUpsHeard, rights_of,
};
pub use pooler::Lends;
pub use see::{Migration, MigrationState, RunOf};
pub use snapshot::{
    ActionRow, Ended, Event, History, Lag, Lane as BacklogLane, OwedCancel, Question, Replica, ServerHealth,
    Status, Stuck,
};
pub use steer::{Outputs, Signed};
pub use structure::{Damage, STRUCTURE};
pub use time::Time;

use crate::{ConnectOptions, Ledger, Sessions};

/// The door for operators.
#[derive(Debug, Clone)]
pub struct Operator {
    ledger: Ledger,
}

impl Operator {
    /// Prepares connections to the database at `url`; none is made before it is needed.
    ///
    /// # Errors
    /// When the URL cannot be read.
    pub fn open(url: &str, application_name: &str, statement_timeout: Duration) -> Result<Self, sqlx::Error> {
        let ledger = Ledger::open(&ConnectOptions {
            url: url.to_owned(),
            connections: 2,
            statement_timeout,
            acquire_timeout: Duration::from_secs(10),
            application_name: application_name.to_owned(),
            sessions: Sessions::Shared,
        })?;
        Ok(Self { ledger })
    }

    /// Connects once.
    ///
    /// # Errors
    /// Why the database cannot be reached.
    pub async fn reach(&self) -> Result<(), crate::LedgerError> {
        self.ledger.reach().await
    }
}
