//! What `doctor` asks of the database. It judges nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Operator, OperatorError};
use crate::migrate::OLDEST_SERVER;
use crate::wake_ups::WakeUps;

/// Which rights a connecting role is expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Those of `david_worker`.
    Worker,
    /// Those of `david_operator`.
    Operator,
}

/// A right: `select`, `execute`, … on an object of schema david, or on a column of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// In lower case.
    pub privilege: String,
    /// `david`, a table or a function with its arguments.
    pub object: String,
    /// A column; empty when it is the whole.
    pub column: String,
}

/// The rights that `david.set_up_roles` grants, one line each: privilege, object, column. Checked by
/// `the_rights_that_doctor_expects_are_those_that_are_granted`.
pub fn rights_of(expected: Expected) -> Vec<Right> {
    let lines = match expected {
        Expected::Worker => include_str!("rights/worker.txt"),
        Expected::Operator => include_str!("rights/operator.txt"),
    };
    let rights = lines.lines().filter_map(|line| {
        let mut words = line.split('\t');
        let (privilege, object) = (words.next()?, words.next()?);
        Some(Right {
            privilege: privilege.to_owned(),
            object: object.to_owned(),
            column: words.next().unwrap_or_default().to_owned(),
        })
    });
    rights.collect()
}

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// As `server_version` says it.
    pub version: String,
    /// Whether this binary works with it.
    pub is_supported: bool,
    /// The database's encoding.
    pub encoding: String,
    /// The database.
    pub database: String,
    /// Connections that it allows; none without a limit.
    pub database_limit: Option<i32>,
    /// The role.
    pub role: String,
    /// Connections that the role is allowed; none without a limit.
    pub role_limit: Option<i32>,
    /// Whether it is a standby, where nothing can be written.
    pub is_standby: bool,
    /// Connections of clients right now.
    pub connections: i64,
    /// Standbys that are connected.
    pub standbys: i64,
}

/// A setting that is tied to a role or to a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleSetting {
    /// None when it is every role's.
    pub role: Option<String>,
    /// None when it is every database's.
    pub database: Option<String>,
    /// The setting.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A storage option of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOption {
    /// The table, without its schema.
    pub table: String,
    /// The option.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What keeps vacuum back.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocker {
    /// As `v_blockers` calls it.
    pub kind: String,
    /// Process id, transaction or slot.
    pub name: String,
    /// Whose.
    pub role: Option<String>,
    /// Its application_name.
    pub application: Option<String>,
    /// `idle in transaction`, `inactive`, …
    pub state: Option<String>,
    /// For how long; unknown for a slot.
    pub age: Option<Duration>,
    /// How many transactions ago.
    pub xmin_age: i64,
    /// What ends it.
    pub what_to_do: String,
}

/// A replication slot that nobody reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// WAL that it keeps, in bytes; unknown on a standby.
    pub kept_bytes: Option<i64>,
}

/// An enabled registration.
pub type Registration = (david_reconciler::RegistrationId, String, Option<david_reconciler::CredentialId>);

/// Whether a bell that was rung was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeUpsHeard {
    /// It was.
    Heard,
    /// Not within the time.
    Silence,
}

impl Operator {
    /// Where this connection leads.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn server(&self) -> Result<Server, OperatorError> {
        let row = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/server.sql").fetch_one(connection).await
            })
            .await
            .map_err(OperatorError::new("say what it is"))?;
        let limit = |count: i32| (count >= 0).then_some(count);
        Ok(Server {
            version: row.version,
            is_supported: row.version_number >= OLDEST_SERVER,
            encoding: row.encoding,
            database: row.database,
            database_limit: limit(row.database_limit),
            role: row.role,
            role_limit: limit(row.role_limit),
            is_standby: row.standby,
            connections: row.connections,
            standbys: row.standbys,
        })
    }

    /// Settings as a session of this role gets them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn settings(&self, names: &[&str]) -> Result<BTreeMap<String, String>, OperatorError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/settings.sql", &names).fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("say how it is set up"))?;
        Ok(rows.into_iter().map(|row| (row.name, row.value)).collect())
    }

    /// Settings tied to this database, or to roles that may use the schema.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn role_settings(&self, names: &[&str]) -> Result<Vec<RoleSetting>, OperatorError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/role_settings.sql", &names).fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("say how roles are set up"))?;
        let rows = rows.into_iter().map(|row| RoleSetting {
            role: row.role,
            database: row.database,
            name: row.name,
            value: row.value,
        });
        Ok(rows.collect())
    }

    /// Storage options of the schema's tables.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn table_options(&self) -> Result<Vec<TableOption>, OperatorError> {
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/table_options.sql").fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("show the tables' options"))?;
        let rows = rows.into_iter().map(|row| TableOption {
            table: row.table_name,
            name: row.name,
            value: row.value,
        });
        Ok(rows.collect())
    }

    /// Live and dead rows of the hot table, as the statistics know them.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn hot_table(&self) -> Result<(i64, i64), OperatorError> {
        let row = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/hot_table.sql").fetch_optional(connection).await
            })
            .await
            .map_err(OperatorError::new("count dead rows"))?;
        Ok(row.map_or((0, 0), |row| (row.live_rows, row.dead_rows)))
    }

    /// What keeps vacuum back.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn blockers(&self) -> Result<Vec<Blocker>, OperatorError> {
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/blockers.sql").fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("say what keeps vacuum back"))?;
        let rows = rows.into_iter().map(|row| Blocker {
            kind: row.kind,
            name: row.name,
            role: row.role,
            application: row.application,
            state: row.state,
            age: row.age_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            xmin_age: row.xmin_age,
            what_to_do: row.what_to_do,
        });
        Ok(rows.collect())
    }

    /// Replication slots that nobody reads.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn idle_slots(&self) -> Result<Vec<Slot>, OperatorError> {
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/slots.sql").fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("show its replication slots"))?;
        Ok(rows.into_iter().map(|row| Slot { name: row.name, kept_bytes: row.kept_bytes }).collect())
    }

    /// Which of these rights the connecting role has not.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn missing_rights(&self, rights: &[Right]) -> Result<Vec<Right>, OperatorError> {
        let column = |of: fn(&Right) -> &String| rights.iter().map(of).cloned().collect::<Vec<String>>();
        let (privileges, objects, columns) =
            (column(|right| &right.privilege), column(|right| &right.object), column(|right| &right.column));
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/missing_rights.sql", &privileges, &objects, &columns)
                    .fetch_all(connection)
                    .await
            })
            .await
            .map_err(OperatorError::new("say what this role may do"))?;
        let rows = rows.into_iter().map(|row| Right {
            privilege: row.privilege,
            object: row.object,
            column: row.field,
        });
        Ok(rows.collect())
    }

    /// The database's clock, as the time since the epoch.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn clock(&self) -> Result<Duration, OperatorError> {
        let micros = self
            .ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/clock.sql").fetch_one(connection).await
            })
            .await
            .map_err(OperatorError::new("say what time it is"))?;
        Ok(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
    }

    /// How many replicas hold leases.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn replicas(&self) -> Result<i64, OperatorError> {
        self.ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/replicas.sql").fetch_one(connection).await
            })
            .await
            .map_err(OperatorError::new("count the replicas"))
    }

    /// Up to `limit` enabled registrations: id, URL, credential.
    ///
    /// # Errors
    /// When the database does not answer, or refuses.
    pub async fn registrations(&self, limit: u32) -> Result<Vec<Registration>, OperatorError> {
        let rows = self
            .ledger
            .run(async |connection| {
                sqlx::query_file!("../../sql/operate/registrations.sql", i64::from(limit))
                    .fetch_all(connection)
                    .await
            })
            .await
            .map_err(OperatorError::new("list the servers"))?;
        let rows = rows.into_iter().map(|row| {
            let credential = row.credential_id.filter(|_| row.auth_type == "bearer");
            (
                david_reconciler::RegistrationId::new(row.registration_id),
                row.url,
                credential.map(david_reconciler::CredentialId::new),
            )
        });
        Ok(rows.collect())
    }

    /// Listens as an idle replica does, rings, and says whether that was heard within `time`. Replicas that
    /// hear it look once for due rows, no more.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn wake_ups(&self, time: Duration) -> Result<WakeUpsHeard, crate::LedgerError> {
        let mut bell: WakeUps = self.ledger.listen().await?;
        let ring = async |connection: &mut sqlx::PgConnection| {
            sqlx::query_file!("../../sql/operate/ring.sql").fetch_one(connection).await
        };
        self.ledger.run(ring).await.map_err(crate::LedgerError::new("ring"))?;
        match tokio::time::timeout(time, bell.next()).await {
            Ok(heard) => heard.map(|()| WakeUpsHeard::Heard),
            Err(_elapsed) => Ok(WakeUpsHeard::Silence),
        }
    }
}
