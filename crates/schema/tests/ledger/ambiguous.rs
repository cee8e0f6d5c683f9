//! Rule 2: a COMMIT whose answer was lost. Nobody knows whether it was done; the same write again finds out.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{CancelDebt, InputSubject, Outcome, Transition};
use david_schema::{BatchAnswer, CommitError, Committed, Leased, Ledger};
use david_testkit::PgProxy;
use sqlx::postgres::PgPoolOptions;

use crate::starts::{Start, name_was_sent, send_name};
use crate::support::{Fixture, RowState, asks, fail_owing, remote, retry, succeed, track, try_commit};

type Decide = fn(&Leased) -> Transition;

/// A decision of every kind, in each phase where its write has something of its own to recognise.
const DECISIONS: &[(Start, Decide)] = &[
    (Start::Queued, |_| Transition::BeginCall { lease: Duration::from_secs(60) }),
    (Start::Queued, |leased| fail_owing(leased, Outcome::RegistrationMissing, CancelDebt::None)),
    (Start::Calling, |_| track("t")),
    (Start::Calling, succeed),
    (Start::Calling, |_| Transition::Requeue {
        delay: Duration::ZERO,
        attempt: 3,
        reason: "Not sent.".to_owned(),
    }),
    (Start::Calling, |_| asks(InputSubject::Call { request_state: None }, 1, &["name"])),
    (Start::Working, succeed),
    (Start::Working, |leased| fail_owing(leased, Outcome::DeadlineExceeded, CancelDebt::Owed)),
    (Start::Working, |_| Transition::Continue { remote: remote("t"), delay: Duration::ZERO }),
    (Start::Working, |_| retry("The server is away.")),
    (Start::Working, |_| asks(InputSubject::Task(remote("t")), 1, &["name"])),
    (Start::TaskAsks, |_| send_name()),
    (Start::TaskAsks, |_| asks(InputSubject::Task(remote("t")), 1, &["age"])),
    (Start::TaskIsTold, |_| name_was_sent()),
    (Start::TaskIsTold, |_| asks(InputSubject::Task(remote("t")), 2, &["age"])),
    (Start::CallAsks, |_| Transition::Wait { delay: Duration::ZERO }),
    (Start::Cancelling, |_| Transition::SettleCancel { reason: "Done.".to_owned() }),
];

/// How the first COMMIT is lost.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Not at all.
    Never,
    BeforeCommit,
    AfterCommit,
}

/// A ledger whose one connection is there and leads through a proxy.
async fn proxied(fixture: &Fixture) -> (PgProxy, Ledger) {
    let options = fixture.db.pool.connect_options();
    let upstream = format!("{}:{}", options.get_host(), options.get_port()).parse().unwrap();
    let proxy = PgProxy::start(upstream).await.unwrap();
    let url = proxy.url(&fixture.db.url).unwrap();
    let ledger = Ledger::from_pool(PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap());
    (proxy, ledger)
}

/// The write, and again if the connection was cut: what it is told at last, the row, and its questions.
async fn outcome_of(start: Start, decide: Decide, cut: Cut) -> (Committed, RowState, String) {
    let fixture = Fixture::new().await;
    let leased: Arc<Leased> = start.reach(&fixture).await;
    let write = start.write(&leased, decide(&leased));

    let (proxy, ledger) = proxied(&fixture).await;
    match cut {
        Cut::Never => {}
        Cut::BeforeCommit => proxy.cut_before_commit(),
        Cut::AfterCommit => proxy.cut_after_commit(),
    }
    let mut told = try_commit(&ledger, fixture.replica, write.clone()).await;
    if proxy.cuts() > 0 {
        assert!(matches!(told, Err(CommitError::Unavailable(_))), "the connection was cut: {told:?}");
        told = try_commit(&ledger, fixture.replica, write).await;
    }
    let questions = sqlx::query_scalar(
        "select coalesce(string_agg(round || ' ' || key || ' ' || state, ', ' order by id), '') from david.mcp_input_requests",
    );
    let questions = questions.fetch_one(&fixture.db.pool).await.unwrap();
    (told.unwrap(), fixture.row("a").await, questions)
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_made_twice_and_one_that_never_arrived_is_made() {
    for (start, decide) in DECISIONS {
        let undisturbed = outcome_of(*start, *decide, Cut::Never).await;
        assert!(matches!(undisturbed.0, Committed::Applied { .. }), "{undisturbed:?}");
        for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
            let disturbed = outcome_of(*start, *decide, cut).await;
            assert_eq!(disturbed, undisturbed, "{start:?}, cut {cut:?}: left is with the cut");
        }
    }
}

#[tokio::test]
async fn every_write_of_a_batch_recognises_itself_after_a_lost_answer() {
    let fixture = Fixture::new().await;
    let mut writes = Vec::new();
    for name in ["a", "b", "c"] {
        fixture.submit(name, name).await;
        fixture.track(name).await;
        fixture.lease_one().await;
    }
    fixture.let_leases_lapse().await;
    for leased in fixture.lease().await {
        writes.push(Start::Working.write(&leased, succeed(&leased)));
    }
    let (proxy, ledger) = proxied(&fixture).await;
    proxy.cut_after_commit();
    for answer in ledger.commit_batch(fixture.replica, &writes).await {
        assert!(matches!(answer, BatchAnswer::Settled(Err(CommitError::Unavailable(_)))), "{answer:?}");
    }
    for answer in ledger.commit_batch(fixture.replica, &writes).await {
        assert!(matches!(answer, BatchAnswer::Settled(Ok(Committed::Applied { .. }))), "{answer:?}");
    }
    for name in ["a", "b", "c"] {
        let row = fixture.row(name).await;
        // Their leases did lapse, which is told once too.
        let events = ["MCP_TASK_CREATED", "MCP_TASK_RECOVERED", "MCP_TASK_COMPLETED"];
        assert_eq!(
            (row.outputs, row.events.as_slice()),
            (1, events.map(str::to_owned).as_slice()),
            "{row:?}"
        );
    }
}
