//! Lanes, owed cancels, the low-water mark, and slots for calls.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{PhaseName, RegistrationId, Timestamp, Transition};
use david_schema::{BatchAnswer, Committed, Due, Lane, Leased};
use sqlx::{Connection as _, PgConnection};

use crate::support::{Fixture, TERM, remote, write};

/// `count` queued Actions of this server, in one Run, overdue for so long.
async fn submit(fixture: &Fixture, server: &str, count: u32, overdue: &str) {
    fixture
        .sql(&format!(
            "insert into david.runs (id, user_id) values ('run_{server}', 'user') on conflict do nothing;
             select david.submit_action('act_{server}_' || n, 'run_{server}', '{server}', 'tool', 'tool', '{{}}')
               from generate_series(1, {count}) n;
             update david.mcp_action_tasks set due_at = now() - interval '{overdue}' where registration_id = '{server}'"
        ))
        .await;
}

fn lane(server: &str, phase: PhaseName) -> Lane {
    Lane { registration: RegistrationId::new(server), phase }
}

fn servers(rows: &[Leased]) -> Vec<String> {
    rows.iter().map(|row| row.task.registration_id.to_string()).collect()
}

#[tokio::test]
async fn lanes_are_what_is_due_and_each_gives_no_more_than_its_share() {
    let fixture = Fixture::new().await;
    for server in ["noisy", "quiet", "idle"] {
        fixture.register(server).await;
    }
    submit(&fixture, "noisy", 500, "1 hour").await;
    submit(&fixture, "quiet", 3, "1 second").await;
    submit(&fixture, "idle", 3, "-1 hour").await;
    let mut lanes = fixture.ledger.lanes().await.unwrap();
    lanes.sort_by_key(|lane| lane.registration.to_string());
    assert_eq!(lanes, [lane("noisy", PhaseName::Queued), lane("quiet", PhaseName::Queued)]);

    let shares: Vec<(Lane, u32)> = lanes.into_iter().map(|lane| (lane, 10)).collect();
    let batch = fixture.ledger.lease_lanes(fixture.replica, 100, &shares, TERM).await.unwrap();
    let mut leased = servers(&batch.rows);
    leased.sort();
    assert_eq!(leased.iter().filter(|server| *server == "noisy").count(), 10);
    assert_eq!(leased.iter().filter(|server| *server == "quiet").count(), 3, "behind 500 others");
    assert!(batch.lag() > Duration::from_secs(3000), "{:?}", batch.lag());
    let bounded = fixture.ledger.lease_lanes(fixture.replica, 4, &shares, TERM).await.unwrap();
    assert_eq!(bounded.len(), 4);
}

#[tokio::test]
async fn owed_cancels_overtake_whatever_has_been_due_for_longer_and_need_no_room() {
    let fixture = Fixture::new().await;
    fixture.submit("cancelled", "cancelled").await;
    fixture.track("t").await;
    submit(&fixture, "reg", 50, "1 hour").await;
    fixture
        .sql("update david.mcp_action_tasks set due_at = now() + interval '1 hour' where phase = 'working'")
        .await;
    fixture.sql("update david.runs set status = 'cancelled' where id = 'run_cancelled'").await;
    let due = Due { limit: 0, cancels: 10, from: None };
    let batch = fixture.ledger.lease_due(fixture.replica, due, TERM).await.unwrap();
    let phases: Vec<PhaseName> = batch.rows.iter().map(|row| row.task.phase.name()).collect();
    assert_eq!(phases, [PhaseName::Cancelling]);
}

#[tokio::test]
async fn a_lease_from_a_mark_leaves_out_what_lies_before_it() {
    let fixture = Fixture::new().await;
    submit(&fixture, "reg", 20, "1 hour").await;
    fixture
        .sql("update david.mcp_action_tasks set due_at = due_at + interval '30 minutes' where id % 2 = 0")
        .await;
    let all = fixture
        .ledger
        .lease_due(fixture.replica, Due { limit: 1, cancels: 0, from: None }, TERM)
        .await
        .unwrap();
    let now = all.now.unwrap();
    let mark = Timestamp(now.0 - 45 * 60 * 1_000_000);
    let due = Due { limit: 100, cancels: 100, from: Some(mark) };
    let batch = fixture.ledger.lease_due(fixture.replica, due, TERM).await.unwrap();
    assert_eq!(batch.len(), 10);
    assert!(batch.oldest.unwrap() >= mark, "{batch:?}");
    assert_eq!(fixture.lease().await.len(), 9, "a lease without a mark finds the rest");
}

#[tokio::test]
async fn only_rows_of_closed_servers_whose_time_is_over_are_overdue() {
    let fixture = Fixture::new().await;
    fixture.register("open").await;
    submit(&fixture, "reg", 3, "1 hour").await;
    submit(&fixture, "open", 3, "1 hour").await;
    fixture
        .sql("update david.mcp_action_tasks set execution_deadline = now() where action_id like '%_1'")
        .await;
    let closed = [RegistrationId::new("reg")];
    let batch = fixture.ledger.lease_overdue(fixture.replica, 10, &closed, TERM).await.unwrap();
    let actions: Vec<String> = batch.rows.iter().map(|row| row.task.action_id.to_string()).collect();
    assert_eq!(actions, ["act_reg_1"]);
}

/// Nobody has to be asked for that: whether the tool ran is unknown for ever.
#[tokio::test]
async fn a_call_that_was_lost_ends_though_its_server_is_closed_unless_it_is_made_again() {
    let fixture = Fixture::new().await;
    submit(&fixture, "reg", 2, "1 hour").await;
    fixture.sql("update david.mcp_action_calls set idempotent = true where action_id = 'act_reg_2'").await;
    assert_eq!(begin_calls(&fixture).await.0, 2);
    let closed = [RegistrationId::new("reg")];
    let overdue =
        async || fixture.ledger.lease_overdue(fixture.replica, 10, &closed, TERM).await.unwrap().rows;
    assert!(overdue().await.is_empty(), "they may be on the wire");
    fixture.let_leases_lapse().await;
    let actions: Vec<String> = overdue().await.iter().map(|row| row.task.action_id.to_string()).collect();
    assert_eq!(actions, ["act_reg_1"]);
}

/// Begins the calls of all rows that are due, in one batch; how many may.
async fn begin_calls(fixture: &Fixture) -> (usize, Vec<Arc<Leased>>) {
    let rows = fixture.lease().await;
    let begin = Transition::BeginCall { lease: Duration::from_secs(60) };
    let writes: Vec<_> = rows.iter().map(|row| write(row, begin.clone())).collect();
    let mut begun = 0;
    for answer in fixture.ledger.commit_batch(fixture.replica, &writes).await {
        match answer {
            BatchAnswer::Settled(Ok(Committed::Applied { .. })) => begun += 1,
            BatchAnswer::Settled(Ok(Committed::Full)) => {}
            other => panic!("{other:?}"),
        }
    }
    (begun, rows)
}

#[tokio::test]
async fn a_registration_has_as_many_calls_in_flight_as_it_allows_and_a_finished_one_makes_room() {
    let fixture = Fixture::new().await;
    fixture.sql("update david.mcp_server_registrations set max_calls = 3 where id = 'reg'").await;
    submit(&fixture, "reg", 10, "1 second").await;
    assert_eq!(begin_calls(&fixture).await.0, 3);
    let calling = "select count(*) from david.mcp_action_tasks where phase = 'calling'";
    assert_eq!(fixture.number(calling).await, 3);
    fixture.sql("update david.mcp_action_tasks set due_at = now(), lapses = 0 where phase = 'queued'").await;
    assert_eq!(begin_calls(&fixture).await.0, 0);

    // However a call ends: a Run is cancelled, and its slot is free.
    fixture
        .sql(
            "insert into david.runs (id, user_id) values ('run_other', 'user');
             update david.actions set run_id = 'run_other'
              where id = (select action_id from david.mcp_action_tasks where phase = 'calling' limit 1);
             update david.runs set status = 'cancelled' where id = 'run_other';
             update david.mcp_action_tasks set due_at = now(), lapses = 0 where phase = 'queued'",
        )
        .await;
    assert_eq!(begin_calls(&fixture).await.0, 1);
    assert_eq!(fixture.number(calling).await, 3);
}

#[tokio::test]
async fn a_bound_that_is_set_late_counts_the_calls_before_it() {
    let fixture = Fixture::new().await;
    submit(&fixture, "reg", 4, "1 second").await;
    assert_eq!(begin_calls(&fixture).await.0, 4, "no bound yet");
    fixture.sql("update david.mcp_server_registrations set max_calls = 5 where id = 'reg'").await;
    submit(&fixture, "reg", 12, "1 second").await;
    assert_eq!(begin_calls(&fixture).await.0, 1);
    fixture.sql("update david.mcp_server_registrations set max_calls = 2 where id = 'reg'").await;
    fixture.sql("update david.mcp_action_tasks set due_at = now(), lapses = 0 where phase = 'queued'").await;
    assert_eq!(begin_calls(&fixture).await.0, 0);
}

#[tokio::test]
async fn replicas_that_begin_calls_at_the_same_time_never_exceed_the_bound_together() {
    let fixture = Fixture::new().await;
    fixture.sql("update david.mcp_server_registrations set max_calls = 5 where id = 'reg'").await;
    submit(&fixture, "reg", 80, "1 second").await;
    let begin = Transition::BeginCall { lease: Duration::from_secs(60) };
    let mut replicas = Vec::new();
    for _ in 0..8 {
        let rows = fixture.ledger.lease(fixture.replica, 10, TERM).await.unwrap().rows;
        let (ledger, replica, begin) = (fixture.ledger.clone(), fixture.replica, begin.clone());
        replicas.push(tokio::spawn(async move {
            for row in rows {
                // Alone, so that one that meets another waits for it instead of leaving the batch.
                let write = write(&Arc::new(row), begin.clone());
                let committed = ledger.commit_alone(replica, &write).await.unwrap();
                assert!(matches!(committed, Committed::Applied { .. } | Committed::Full), "{committed:?}");
            }
        }));
    }
    for replica in replicas {
        replica.await.unwrap();
    }
    let calling = "select count(*) from david.mcp_action_tasks where phase = 'calling'";
    assert_eq!(fixture.number(calling).await, 5);
}

#[tokio::test]
async fn a_batch_hardly_waits_for_an_id_that_somebody_else_has_inserted_and_not_committed() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    fixture.submit("b", "b").await;
    let mut other = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql(
        "begin; update david.mcp_action_tasks set phase = 'working', remote_task_id = 'same' where action_id = 'act_b'",
    )
    .execute(&mut other)
    .await
    .unwrap();
    let track = Transition::Track { remote: remote("same"), delay: Duration::ZERO };
    let write = crate::support::late(&calling, track);
    let answers = tokio::time::timeout(
        Duration::from_secs(20),
        fixture.ledger.commit_batch(fixture.replica, std::slice::from_ref(&write)),
    )
    .await
    .unwrap();
    assert!(matches!(answers[..], [BatchAnswer::Alone]), "{answers:?}");
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
    let committed = fixture.ledger.commit_alone(fixture.replica, &write).await.unwrap();
    assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
}
