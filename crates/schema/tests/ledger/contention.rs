//! Leasers, committers and cancellers at once: no deadlock reaches a committer, and every Action has
//! exactly one outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use david_reconciler::{Outcome, Phase, Transition};
use david_schema::{Committed, Leased, Ledger, ReplicaId};

use crate::support::{Fixture, after, fail, late, succeed, track, try_commit, write};

const RUNS: u32 = 75;
const PER_RUN: u32 = 8;

/// What a replica would do next with a row, without a server.
fn next(leased: &Arc<Leased>, dice: u32) -> Transition {
    match &leased.task.phase {
        Phase::Queued => Transition::BeginCall { lease: Duration::from_secs(60) },
        Phase::Calling { .. } => fail(leased, Outcome::OutcomeUnknown),
        Phase::Working { remote } if dice.is_multiple_of(3) => {
            Transition::Continue { remote: remote.clone(), delay: Duration::ZERO }
        }
        Phase::Working { .. } | Phase::InputRequired { .. } => succeed(leased),
        Phase::Cancelling { .. } | Phase::Finalised { .. } => {
            Transition::SettleCancel { reason: "Settled.".to_owned() }
        }
    }
}

async fn replica(ledger: Ledger, unfinished: Arc<AtomicU32>) {
    let me = ReplicaId::new();
    let mut dice = 0;
    while unfinished.load(Ordering::Relaxed) > 0 {
        let batch = ledger.lease(me, 50, Duration::from_secs(60)).await.unwrap();
        let rows: Vec<Arc<Leased>> = batch.rows.into_iter().map(Arc::new).collect();
        let mut writes = Vec::new();
        for row in &rows {
            dice += 1;
            writes.push(write(row, next(row, dice)));
        }
        let answers = ledger.commit_batch(me, &writes).await;
        for (answer, write) in answers.into_iter().zip(writes) {
            let committed = match answer {
                david_schema::BatchAnswer::Settled(result) => result.unwrap(),
                david_schema::BatchAnswer::Alone => ledger.commit_alone(me, &write).await.unwrap(),
            };
            if let (Committed::Applied { .. }, begin @ Transition::BeginCall { .. }) =
                (&committed, &write.transition)
            {
                let calling = Arc::new(after(&write.leased, begin));
                let id = format!("t{}", calling.task.id);
                try_commit(&ledger, me, late(&calling, track(&id))).await.unwrap();
            }
        }
        let open = sqlx::query_scalar::<_, i64>(
            "select count(*) from david.mcp_action_tasks where phase <> 'finalised'",
        );
        let open = open.fetch_one(ledger.pool()).await.unwrap();
        unfinished.store(u32::try_from(open).unwrap(), Ordering::Relaxed);
    }
}

/// Cancels every third Run, some alone and some in one statement, in an order of its own. Its own
/// multi-row updates may deadlock with another canceller's; it tries again, as Core must.
async fn canceller(fixture_pool: sqlx::PgPool, seed: u32) {
    let runs: Vec<String> = (0..RUNS).filter(|run| run % 3 == 0).map(|run| format!("run_{run}")).collect();
    let mut order: Vec<&String> = runs.iter().collect();
    order.rotate_left((seed * 7) as usize % runs.len());
    if seed % 2 == 1 {
        order.reverse();
    }
    for chunk in order.chunks(1 + seed as usize) {
        loop {
            let cancel = sqlx::query(
                "update david.runs set status = 'cancelled', cancelled_at = now() where id = any ($1)",
            );
            match cancel.bind(chunk).execute(&fixture_pool).await {
                Ok(_) => break,
                Err(error) => {
                    let code = error
                        .as_database_error()
                        .and_then(|error| error.code())
                        .unwrap_or_default()
                        .into_owned();
                    assert!(code == "40P01" || code == "40001", "{error}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_and_cancellers_at_once_leave_every_action_with_one_outcome() {
    let fixture = Fixture::new().await;
    fixture
        .sql(&format!(
            "insert into david.runs (id, user_id) select 'run_' || r, 'user' from generate_series(0, {RUNS} - 1) r;
             select david.submit_action('act_' || r || 'x' || a, 'run_' || r, 'reg', 'tool', 'tool', '{{}}')
               from generate_series(0, {RUNS} - 1) r, generate_series(1, {PER_RUN}) a"
        ))
        .await;
    let unfinished = Arc::new(AtomicU32::new(1));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(tokio::spawn(replica(fixture.ledger.clone(), Arc::clone(&unfinished))));
    }
    for seed in 0..4 {
        tasks.push(tokio::spawn(canceller(fixture.db.pool.clone(), seed)));
    }
    for task in tasks {
        task.await.unwrap();
    }

    let wrong = "select count(*) from david.mcp_action_tasks t
                   join david.actions a on a.id = t.action_id
                   join david.runs r on r.id = a.run_id
                   left join (select action_id, count(*) as n from david.tool_outputs group by action_id) o on o.action_id = a.id";
    let whole = i64::from(RUNS * PER_RUN);
    assert_eq!(
        fixture.number("select count(*) from david.mcp_action_tasks where phase = 'finalised'").await,
        whole
    );
    assert_eq!(
        fixture.number(&format!("{wrong} where (t.outcome = 'succeeded') <> (a.status = 'completed') or (t.outcome = 'run_cancelled') <> (a.status = 'cancelled')")).await,
        0
    );
    assert_eq!(
        fixture
            .number(&format!(
                "{wrong} where coalesce(o.n, 0) <> case t.outcome when 'run_cancelled' then 0 else 1 end"
            ))
            .await,
        0
    );
    assert_eq!(
        fixture
            .number(&format!("{wrong} where t.outcome = 'run_cancelled' and r.cancelled_at is null"))
            .await,
        0
    );
    assert!(
        fixture.number("select count(*) from david.mcp_action_tasks where outcome = 'succeeded'").await > 0
    );
}
