//! The worker's settings: flags, environment, defaults, and which of them cannot work together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use david_reconciler::{InputPolicy, Policy};
use david_schema::{ConnectOptions, OpenFor, Sessions};

use crate::clock::shortest_term;
use crate::credentials::{Broker, BrokerError, Source};
use crate::endpoint_policy::EndpointPolicy;
use crate::remote::Limits;
use crate::retention::Retention;

/// How to reach the database.
#[derive(Clone, Args)]
pub struct DatabaseConfig {
    /// Postgres to work in, e.g. postgres://user@host:5432/core.
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: String,
}

/// The URL may hold a password.
impl std::fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseConfig").finish_non_exhaustive()
    }
}

/// What lies between here and Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pooling {
    /// Nothing, or a pooler that keeps one connection for each of ours.
    Session,
    /// A pooler that may use another connection for every transaction, such as PgBouncer in transaction mode.
    Transaction,
}

/// Where bearer credentials come from: nowhere, a directory, or a broker.
#[derive(Debug, Clone, Args)]
pub struct CredentialsConfig {
    /// Directory with one file per bearer credential, named by its id (path). Files are read again
    /// after a second, so they may be replaced.
    #[arg(
        long,
        env = "DAVID_TASKS_CREDENTIALS_DIR",
        value_name = "DIR",
        conflicts_with = "credential_broker"
    )]
    pub credentials_dir: Option<PathBuf>,

    /// Service that hands out short-lived bearer tokens (URL). docs/credentials.md has its protocol.
    #[arg(long, env = "DAVID_TASKS_CREDENTIAL_BROKER", value_name = "URL")]
    pub credential_broker: Option<String>,

    /// File with the token that the worker shows to the broker (path). It is read on every use.
    #[arg(
        long,
        env = "DAVID_TASKS_CREDENTIAL_BROKER_TOKEN_FILE",
        value_name = "FILE",
        requires = "credential_broker"
    )]
    pub credential_broker_token_file: Option<PathBuf>,
}

impl CredentialsConfig {
    /// The source, if there is one.
    ///
    /// # Errors
    /// A directory or a file that cannot be read, or a URL that is none.
    pub fn source(&self) -> Result<Option<Source>, ConfigError> {
        if let Some(path) = &self.credentials_dir {
            std::fs::read_dir(path).map_err(|source| ConfigError::Unreadable {
                flag: "--credentials-dir",
                path: path.clone(),
                source,
            })?;
            return Ok(Some(Source::directory(path.clone())));
        }
        let Some(url) = &self.credential_broker else { return Ok(None) };
        if let Some(path) = &self.credential_broker_token_file {
            std::fs::File::open(path).map_err(|source| ConfigError::Unreadable {
                flag: "--credential-broker-token-file",
                path: path.clone(),
                source,
            })?;
        }
        let broker = Broker::new(url, self.credential_broker_token_file.clone())?;
        Ok(Some(Source::Broker(broker)))
    }
}

/// Settings of `david-tasks worker`. Durations are humantime: 500ms, 30s, 5m, 1h 30m.
#[derive(Debug, Clone, Args)]
pub struct WorkerConfig {
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would replace the command's own in --help")]
    pub database: DatabaseConfig,

    /// Connections to Postgres at most (count).
    #[arg(long, env = "DAVID_TASKS_DB_CONNECTIONS", default_value_t = 8, value_name = "N")]
    pub db_connections: u32,

    /// What lies between here and Postgres: nothing or a pooler of sessions, or a pooler of transactions such
    /// as PgBouncer in transaction mode. The latter costs two more round trips per statement, and wake-ups.
    #[arg(long, env = "DAVID_TASKS_DB_POOLING", default_value = "session", value_name = "MODE")]
    pub db_pooling: Pooling,

    /// Longest a single SQL statement may take (duration). A connection that leads nowhere is given up
    /// after twice that.
    #[arg(long, env = "DAVID_TASKS_STATEMENT_TIMEOUT", default_value = "10s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub statement_timeout: Duration,

    /// Length of a lease (duration). A crashed replica's rows are leased again after this.
    #[arg(long, env = "DAVID_TASKS_LEASE_TERM", default_value = "30s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub lease_term: Duration,

    /// Rows per lease at most (count).
    #[arg(long, env = "DAVID_TASKS_LEASE_BATCH", default_value_t = 100, value_name = "N")]
    pub lease_batch: u32,

    /// Rows this replica holds at most, between two polls or in flight (count).
    #[arg(long, env = "DAVID_TASKS_MAX_HELD", default_value_t = 10_000, value_name = "N")]
    pub max_held: u32,

    /// tools/call requests in flight at most, and as many other requests (count).
    #[arg(long, env = "DAVID_TASKS_MAX_IN_FLIGHT", default_value_t = 512, value_name = "N")]
    pub max_in_flight: u32,

    /// Pause after a lease that found nothing more to do (duration).
    #[arg(long, env = "DAVID_TASKS_IDLE_INTERVAL", default_value = "200ms", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub idle_interval: Duration,

    /// Whether the database wakes an idle replica at once, over a connection of its own. Switch it off behind
    /// a pooler in transaction mode, where nothing is ever heard.
    #[arg(long, env = "DAVID_TASKS_WAKE_UPS", default_value = "on", value_name = "SWITCH")]
    pub wake_ups: Switch,

    /// Longest tasks/get, tasks/update or tasks/cancel may take (duration). A tools/call has its
    /// registration's own timeout_seconds.
    #[arg(long, env = "DAVID_TASKS_POLL_TIMEOUT", default_value = "10s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub poll_timeout: Duration,

    /// Longest a connection to an MCP server may take to be made (duration).
    #[arg(long, env = "DAVID_TASKS_CONNECT_TIMEOUT", default_value = "5s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub connect_timeout: Duration,

    /// Longest reply of an MCP server that is read (bytes).
    #[arg(long, env = "DAVID_TASKS_MAX_RESPONSE_BYTES", default_value_t = 8 * 1024 * 1024, value_name = "BYTES")]
    pub max_response_bytes: usize,

    /// First step of the polling ladder 1, 2, 3, 5, 5 … (duration). A server's own poll interval
    /// is never undercut.
    #[arg(long, env = "DAVID_TASKS_POLL_BASE", default_value = "1s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub poll_base: Duration,

    /// Highest step of the polling ladder (duration).
    #[arg(long, env = "DAVID_TASKS_POLL_CAP", default_value = "5s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub poll_cap: Duration,

    /// First pause after a failure; it doubles (duration).
    #[arg(long, env = "DAVID_TASKS_RETRY_BASE", default_value = "1s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub retry_base: Duration,

    /// Longest pause after a failure (duration).
    #[arg(long, env = "DAVID_TASKS_RETRY_CAP", default_value = "1m", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub retry_cap: Duration,

    /// How long a server that failed five times in a row is left alone, by all replicas; it doubles as long
    /// as it goes on failing (duration).
    #[arg(long, env = "DAVID_TASKS_BREAKER_BASE", default_value = "5s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub breaker_base: Duration,

    /// Longest a failing server is left alone before it is tried again (duration).
    #[arg(long, env = "DAVID_TASKS_BREAKER_CAP", default_value = "1m", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub breaker_cap: Duration,

    /// How long after a call's own timeout a silent call is taken for lost (duration).
    #[arg(long, env = "DAVID_TASKS_CALL_GRACE", default_value = "30s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub call_grace: Duration,

    /// Leases without a commit after which a row is quarantined (count).
    #[arg(long, env = "DAVID_TASKS_QUARANTINE_LAPSES", default_value_t = 5, value_name = "N")]
    pub quarantine_lapses: u32,

    /// What happens when a server asks for input.
    #[arg(long, env = "DAVID_TASKS_INPUT", default_value = "surface", value_name = "POLICY")]
    pub input: InputChoice,

    /// How long a question may wait for its answer (duration).
    #[arg(long, env = "DAVID_TASKS_INPUT_TIMEOUT", default_value = "24h", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub input_timeout: Duration,

    /// Postgres notify channel on which Core is told of progress; none means that it is only logged.
    #[arg(long, env = "DAVID_TASKS_PROGRESS_CHANNEL", value_parser = channel, value_name = "NAME")]
    pub progress_channel: Option<String>,

    /// How long finalised tasks, acknowledged outputs and history are kept before some replica throws them
    /// away (duration), or off. Outputs that nobody acknowledged are kept.
    #[arg(long, env = "DAVID_TASKS_RETENTION", default_value = "30days", value_parser = retention, allow_hyphen_values = true, value_name = "DURATION|off")]
    pub retention: Retention,

    /// Hosts that may be reached by plain http and at private addresses, as they stand in the URL,
    /// separated by commas.
    #[arg(long, env = "DAVID_TASKS_TRUSTED_HOSTS", value_delimiter = ',', value_parser = host, value_name = "HOST")]
    pub trusted_hosts: Vec<String>,

    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would replace the command's own in --help")]
    pub credentials: CredentialsConfig,

    /// Address on which /metrics, /healthz and /readyz are served over plain http, without authentication; none
    /// serves nothing. Port 0 takes a free one, which the log tells.
    #[arg(long, env = "DAVID_TASKS_LISTEN", value_name = "ADDR")]
    pub listen: Option<SocketAddr>,

    /// OTLP collector to which traces are sent over HTTP (base URL, to which /v1/traces is added); none makes no
    /// spans. docs/traces.md says what is in them.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_parser = http_url, hide_env_values = true, value_name = "URL")]
    pub otlp_endpoint: Option<url::Url>,

    /// How long a stop waits for tools/call requests that are out (duration). A call that is cut off
    /// ends its Action as outcome_unknown, so this covers the longest call: 300 s and its write.
    #[arg(long, env = "DAVID_TASKS_SHUTDOWN_GRACE", default_value = "310s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub shutdown_grace: Duration,
}

/// `on` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Do it.
    On,
    /// Do not.
    Off,
}

/// `surface` or `fail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum InputChoice {
    /// Record the question and wait for david.answer_input.
    Surface,
    /// End the Action as input_unsupported.
    Fail,
}

/// Settings that cannot work together.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A directory or a file that is not there, or not for us.
    #[error("{flag} {} cannot be read", path.display())]
    Unreadable {
        /// Which setting names it.
        flag: &'static str,
        /// It.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The credential broker.
    #[error("--credential-broker cannot be used")]
    Broker(#[from] BrokerError),
    /// Rule 4: a call must end, and be written, within its lease.
    #[error(
        "--lease-term {} is too short for --poll-timeout {}: a call of that length, waiting for it and writing after it take {}",
        humantime::format_duration(*term), humantime::format_duration(*poll), humantime::format_duration(shortest_term(*poll))
    )]
    PollOutlivesLease {
        /// `--poll-timeout`.
        poll: Duration,
        /// `--lease-term`.
        term: Duration,
    },
    /// Answers on their way are leased for 30 s.
    #[error("--poll-timeout {} is too long: 25s at most", humantime::format_duration(*poll))]
    PollTooLong {
        /// `--poll-timeout`.
        poll: Duration,
    },
    /// What came of a call is written within the grace, or it counts as lost.
    #[error("--call-grace {} is too short: {} at least, for the write after a call", humantime::format_duration(*grace), humantime::format_duration(SHORTEST_GRACE))]
    GraceTooShort {
        /// `--call-grace`.
        grace: Duration,
    },
    /// A setting that must be positive is zero.
    #[error("{flag} must be more than zero")]
    Zero {
        /// Which.
        flag: &'static str,
    },
    /// The ladder's foot is above its top.
    #[error("{low} must not exceed {high}")]
    Order {
        /// The flag that should be lower.
        low: &'static str,
        /// The flag that should be higher.
        high: &'static str,
    },
}

impl WorkerConfig {
    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// The first such setting, with the reason.
    pub fn check(&self) -> Result<(), ConfigError> {
        let positive = [
            ("--db-connections", self.db_connections == 0),
            ("--lease-batch", self.lease_batch == 0),
            ("--max-held", self.max_held == 0),
            ("--max-in-flight", self.max_in_flight == 0),
            ("--max-response-bytes", self.max_response_bytes == 0),
            ("--quarantine-lapses", self.quarantine_lapses == 0),
            ("--idle-interval", self.idle_interval.is_zero()),
            ("--poll-timeout", self.poll_timeout.is_zero()),
            ("--connect-timeout", self.connect_timeout.is_zero()),
            ("--poll-base", self.poll_base.is_zero()),
            ("--retry-base", self.retry_base.is_zero()),
            ("--breaker-base", self.breaker_base.is_zero()),
            ("--statement-timeout", self.statement_timeout.is_zero()),
            ("--input-timeout", self.input_timeout.is_zero()),
            ("--retention", self.retention == Retention::For(Duration::ZERO)),
        ];
        if let Some((flag, _)) = positive.into_iter().find(|(_, zero)| *zero) {
            return Err(ConfigError::Zero { flag });
        }
        if self.poll_timeout > LONGEST_POLL {
            return Err(ConfigError::PollTooLong { poll: self.poll_timeout });
        }
        if shortest_term(self.poll_timeout) > self.lease_term {
            return Err(ConfigError::PollOutlivesLease { poll: self.poll_timeout, term: self.lease_term });
        }
        if self.poll_base > self.poll_cap {
            return Err(ConfigError::Order { low: "--poll-base", high: "--poll-cap" });
        }
        if self.retry_base > self.retry_cap {
            return Err(ConfigError::Order { low: "--retry-base", high: "--retry-cap" });
        }
        if self.breaker_base > self.breaker_cap {
            return Err(ConfigError::Order { low: "--breaker-base", high: "--breaker-cap" });
        }
        if self.call_grace < SHORTEST_GRACE {
            return Err(ConfigError::GraceTooShort { grace: self.call_grace });
        }
        Ok(())
    }

    pub(crate) fn open_for(&self) -> OpenFor {
        OpenFor { first: self.breaker_base, longest: self.breaker_cap }
    }

    pub(crate) fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            url: self.database.database_url.clone(),
            connections: self.db_connections,
            statement_timeout: self.statement_timeout,
            acquire_timeout: Duration::from_secs(10),
            application_name: "david-tasks".to_owned(),
            sessions: match self.db_pooling {
                Pooling::Session => Sessions::Ours,
                Pooling::Transaction => Sessions::Shared,
            },
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            poll_base: self.poll_base,
            poll_cap: self.poll_cap,
            retry_base: self.retry_base,
            retry_cap: self.retry_cap,
            call_grace: self.call_grace,
            quarantine_lapses: self.quarantine_lapses,
            input: match self.input {
                InputChoice::Surface => InputPolicy::Surface,
                InputChoice::Fail => InputPolicy::Fail,
            },
            input_timeout: self.input_timeout,
            ..Policy::default()
        }
    }

    pub(crate) fn endpoint_policy(&self) -> EndpointPolicy {
        EndpointPolicy { trusted_hosts: self.trusted_hosts.clone() }
    }

    pub(crate) fn remote_limits(&self) -> Limits {
        Limits {
            response_bytes: self.max_response_bytes,
            connect_timeout: self.connect_timeout,
            max_concurrent_requests: (self.max_in_flight as usize).saturating_mul(2),
            ..Limits::default()
        }
    }
}

/// A host as it stands in a URL.
pub(crate) fn host(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(host) => Ok(host.to_string()),
        Err(_) => {
            Err("a host is a name or an address as in a URL: mcp.internal, 10.0.0.7 or [fd00::7]".to_owned())
        }
    }
}

/// The base URL of a service.
fn http_url(text: &str) -> Result<url::Url, String> {
    match url::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err("write it like http://collector:4318".to_owned()),
    }
}

/// Postgres cuts longer names when it listens, and refuses them when it notifies.
fn channel(name: &str) -> Result<String, String> {
    match name.len() {
        1..=63 => Ok(name.to_owned()),
        _ => Err("a channel's name has 1 to 63 bytes".to_owned()),
    }
}

/// `tasks/update` must end, and be written, within the 30 s for which answers on their way are leased
/// (DESIGN rule 4).
const LONGEST_POLL: Duration = Duration::from_secs(25);

/// What came of a call has to be written before it counts as lost.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

/// Longer than any setting here makes sense, and short enough to be added to any date.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

fn retention(text: &str) -> Result<Retention, String> {
    match text {
        "off" => Ok(Retention::Off),
        _ => duration(text).map(Retention::For).map_err(|error| format!("{error}, or off")),
    }
}

/// humantime, with a word on what is wrong and what would be right.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write it like 500ms, 30s or 5m";
    if text.trim_start().starts_with('-') {
        return Err(format!("a duration cannot be negative; {FORM}"));
    }
    match humantime::parse_duration(text) {
        Ok(long) if long > LONGEST => Err("a duration cannot be longer than 365 days".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(format!("{error}; {FORM}")),
    }
}
