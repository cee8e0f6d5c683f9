//! What the tests here share: a database with one registration, Actions in it, and decisions to
//! commit.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{
    CancelDebt, Envelope, ErrorSource, Fence, Finish, InputKey, InputSubject, Outcome, RemoteTask,
    RemoteTaskId, ToolResult, Transition, Verdict,
};
use david_schema::{BatchAnswer, CommitError, Committed, Guard, Leased, Ledger, ReplicaId, Write};
use david_testkit::TestDb;
use serde_json::json;
use sqlx::Row as _;

pub(crate) const TERM: Duration = Duration::from_secs(30);

pub(crate) struct Fixture {
    pub(crate) db: TestDb,
    pub(crate) ledger: Ledger,
    pub(crate) replica: ReplicaId,
}

/// A task row, as a test looks at it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowState {
    pub(crate) phase: String,
    pub(crate) fence: i64,
    pub(crate) outcome: Option<String>,
    pub(crate) attempt: i32,
    pub(crate) lapses: i32,
    pub(crate) due: bool,
    pub(crate) leased: bool,
    pub(crate) action: String,
    pub(crate) outputs: i64,
    pub(crate) events: Vec<String>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let db = TestDb::create().await.unwrap();
        let ledger = Ledger::from_pool(db.pool.clone());
        let fixture = Self { db, ledger, replica: ReplicaId::new() };
        fixture.register("reg").await;
        fixture
    }

    pub(crate) async fn register(&self, id: &str) {
        self.sql(&format!(
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
             values ('{id}', 'user', '{id}', 'https://mcp.example/{id}', 'https://mcp.example/{id}', '{id}')"
        ))
        .await;
    }

    /// Runs statements; fails when they do.
    pub(crate) async fn sql(&self, statements: &str) {
        self.try_sql(statements).await.unwrap();
    }

    pub(crate) async fn try_sql(&self, statements: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&self.db.pool).await.map(|_| ())
    }

    pub(crate) async fn number(&self, query: &str) -> i64 {
        sqlx::query_scalar(sqlx::AssertSqlSafe(query)).fetch_one(&self.db.pool).await.unwrap()
    }

    /// Submits `act_<name>` in `run_<run>`.
    pub(crate) async fn submit(&self, name: &str, run: &str) {
        self.sql(&format!(
            "insert into david.runs (id, user_id) values ('run_{run}', 'user') on conflict do nothing;
             select david.submit_action('act_{name}', 'run_{run}', 'reg', 'tool', 'tool', '{{}}')"
        ))
        .await;
    }

    /// Leases everything that is due.
    pub(crate) async fn lease(&self) -> Vec<Arc<Leased>> {
        self.ledger.lease(self.replica, 1000, TERM).await.unwrap().rows.into_iter().map(Arc::new).collect()
    }

    /// Leases the one row that is due.
    pub(crate) async fn lease_one(&self) -> Arc<Leased> {
        let mut rows = self.lease().await;
        assert_eq!(rows.len(), 1, "one row is due");
        rows.remove(0)
    }

    /// Takes the one due row through `queued` to `calling`.
    pub(crate) async fn begin_call(&self) -> Arc<Leased> {
        let leased = self.lease_one().await;
        let begin = Transition::BeginCall { lease: Duration::from_secs(60) };
        let committed = self.commit(write(&leased, begin.clone())).await;
        assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
        Arc::new(after(&leased, &begin))
    }

    /// Takes the one due row on to `working` with this remote id, and leaves it due.
    pub(crate) async fn track(&self, id: &str) {
        let calling = self.begin_call().await;
        let committed = self.commit(late(&calling, track(id))).await;
        assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
    }

    pub(crate) async fn commit(&self, write: Write) -> Committed {
        self.try_commit(write).await.unwrap()
    }

    pub(crate) async fn try_commit(&self, write: Write) -> Result<Committed, CommitError> {
        try_commit(&self.ledger, self.replica, write).await
    }

    pub(crate) async fn let_leases_lapse(&self) {
        self.sql(
            "update david.mcp_action_tasks set due_at = now() - interval '1 ms' where phase <> 'finalised'",
        )
        .await;
    }

    pub(crate) async fn row(&self, name: &str) -> RowState {
        let row = sqlx::query(
            "select t.*, t.due_at <= now() as due, a.status,
                    (select count(*) from david.tool_outputs o where o.action_id = t.action_id) as outputs,
                    array(select e.event from david.mcp_task_events e where e.action_id = t.action_id order by e.id) as events
               from david.mcp_action_tasks t join david.actions a on a.id = t.action_id
              where t.action_id = $1",
        )
        .bind(format!("act_{name}"))
        .fetch_one(&self.db.pool)
        .await
        .unwrap();
        RowState {
            phase: row.get("phase"),
            fence: row.get("fence"),
            outcome: row.get("outcome"),
            attempt: row.get("attempt"),
            lapses: row.get("lapses"),
            due: row.get("due"),
            leased: row.get::<Option<sqlx::types::Uuid>, _>("leased_by").is_some(),
            action: row.get("status"),
            outputs: row.get("outputs"),
            events: row.get("events"),
        }
    }
}

/// As a worker does it: in a batch, and alone when the batch says so.
pub(crate) async fn try_commit(
    ledger: &Ledger,
    replica: ReplicaId,
    write: Write,
) -> Result<Committed, CommitError> {
    match ledger.commit_batch(replica, std::slice::from_ref(&write)).await.remove(0) {
        BatchAnswer::Settled(result) => result,
        BatchAnswer::Alone => ledger.commit_alone(replica, &write).await,
    }
}

/// A write under the lease's fence.
pub(crate) fn write(leased: &Arc<Leased>, transition: Transition) -> Write {
    Write { leased: Arc::clone(leased), guard: Guard::Fence(leased.task.fence), transition }
}

/// A write of what came of a call, under the call's fence.
pub(crate) fn late(calling: &Arc<Leased>, transition: Transition) -> Write {
    Write { leased: Arc::clone(calling), guard: Guard::Call(calling.task.fence), transition }
}

pub(crate) fn remote(id: &str) -> RemoteTask {
    RemoteTask {
        id: RemoteTaskId::parse(id).unwrap(),
        status: None,
        expires_at: None,
        ttl: None,
        poll_interval: None,
    }
}

pub(crate) fn track(id: &str) -> Transition {
    Transition::Track { remote: remote(id), delay: Duration::ZERO }
}

pub(crate) fn retry(reason: &str) -> Transition {
    Transition::Retry { delay: Duration::from_secs(60), attempt: 1, reason: reason.to_owned() }
}

/// A round of questions, each under its key.
pub(crate) fn asks(subject: InputSubject, round: u32, keys: &[&str]) -> Transition {
    Transition::AwaitInput {
        subject,
        round,
        requests: keys
            .iter()
            .map(|key| (InputKey::new(*key), json!({ "method": "elicitation/create" })))
            .collect(),
        delay: Duration::ZERO,
    }
}

pub(crate) fn succeed(leased: &Leased) -> Transition {
    let result = ToolResult {
        content: vec![json!({ "type": "text", "text": "42" })],
        structured_content: None,
        verdict: Verdict::Success,
    };
    Transition::Finish(Finish {
        outcome: Outcome::Succeeded,
        envelope: Envelope::of_result(&leased.task.action_id, &leased.call, &result),
        debt: CancelDebt::None,
        reason: None,
    })
}

pub(crate) fn fail(leased: &Leased, outcome: Outcome) -> Transition {
    fail_owing(leased, outcome, CancelDebt::None)
}

/// Ends the Action; the remote task may or may not have to be cancelled.
pub(crate) fn fail_owing(leased: &Leased, outcome: Outcome, debt: CancelDebt) -> Transition {
    Transition::Finish(Finish {
        outcome,
        envelope: Envelope::of_error(
            &leased.task.action_id,
            &leased.call,
            outcome,
            "It failed.",
            ErrorSource::Local,
        ),
        debt,
        reason: Some("It failed.".to_owned()),
    })
}

pub(crate) fn applied(fence: i64) -> Committed {
    Committed::Applied { fence: Fence(fence) }
}

pub(crate) fn ended(outcome: Outcome) -> Committed {
    Committed::AlreadyFinalised { outcome: Some(outcome) }
}

/// Waits until a statement that contains `text` waits for a lock.
pub(crate) async fn waits_for_a_lock(fixture: &Fixture, text: &str) {
    david_testkit::eventually(Duration::from_secs(10), &format!("'{text}' waits for a lock"), async || {
        let waiting: Vec<String> = sqlx::query_scalar(
            "select query from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
        .fetch_all(&fixture.db.pool)
        .await
        .map_err(|error| error.to_string())?;
        if waiting.iter().any(|query| query.contains(text)) { Ok(()) } else { Err(format!("{waiting:?}")) }
    })
    .await
    .unwrap();
}

/// The row as a replica that goes on with it knows it.
pub(crate) fn after(leased: &Leased, transition: &Transition) -> Leased {
    let mut next = leased.clone();
    next.advance(transition);
    next
}
