//! What lies between here and Postgres, beside what the worker is told of it.

use std::time::Duration;

use david_schema::causes;
use david_schema::operate::{Lends, Operator, WakeUpsHeard};

use super::Arguments;
use super::finding::{Finding, Severity};
use crate::config::{Pooling, Switch};

/// A bell is heard within a round trip.
const RING: Duration = Duration::from_secs(3);

pub(super) async fn check(operator: &Operator, arguments: &Arguments) -> Vec<Finding> {
    let lends = match operator.lends().await {
        Ok(lends) => lends,
        Err(error) => {
            return vec![
                Finding::new(
                    Severity::Warning,
                    "unchecked",
                    "It could not be checked: what lies between here and Postgres.",
                )
                .because(format!("{}.", causes(&error)))
                .fix("Run doctor again; two more connections are needed for a moment."),
            ];
        }
    };
    match (lends, arguments.db_pooling) {
        (Lends::Transactions, Pooling::Session) => vec![
            Finding::new(
                Severity::Error,
                "transaction_pooler",
                "A pooler lends another session to every transaction, and --db-pooling is session.",
            )
            .because("Prepared statements and settings of one session turn up in another: statements fail, and synchronous_commit is not pinned.")
            .fix("david-tasks worker --db-pooling transaction --wake-ups off (DAVID_TASKS_DB_POOLING, DAVID_TASKS_WAKE_UPS), or a DATABASE_URL that leads to Postgres itself"),
        ],
        (Lends::Sessions, Pooling::Transaction) => vec![
            Finding::new(
                Severity::Notice,
                "pooling_needless",
                "--db-pooling is transaction, and every connection has a session of its own.",
            )
            .because("It works, and costs two more round trips per statement, and wake-ups.")
            .fix("david-tasks worker --db-pooling session"),
        ],
        (Lends::Transactions, Pooling::Transaction) => Vec::new(),
        (Lends::Sessions, Pooling::Session) if arguments.wake_ups == Switch::On => wake_ups(operator).await,
        (Lends::Sessions, Pooling::Session) => Vec::new(),
    }
}

async fn wake_ups(operator: &Operator) -> Vec<Finding> {
    let why = match operator.wake_ups(RING).await {
        Ok(WakeUpsHeard::Heard) => return Vec::new(),
        Ok(WakeUpsHeard::Silence) => format!("Nothing was heard for {RING:?}"),
        Err(error) => causes(&error),
    };
    vec![
        Finding::new(Severity::Warning, "wake_ups_silent", "Wake-ups do not get through this connection.")
            .because(format!("{why}. Nothing breaks, but a new Action waits for --idle-interval."))
            .fix("A DATABASE_URL that leads to Postgres itself, or david-tasks worker --wake-ups off"),
    ]
}
