//! Rules 1 and 2: one executed call, and whatever comes of it is not lost.
use crate::support::{Fixture, applied, ended, fail, late, retry, succeed, track, try_commit, write};
use david_reconciler::Outcome;
use david_schema::{CommitError, Committed};
use david_testkit::PgProxy;

#[tokio::test]
async fn an_id_that_comes_after_the_lease_lapsed_is_kept_and_fences_off_the_new_leaser() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    fixture.let_leases_lapse().await;
    let other = fixture.lease_one().await;

    assert!(matches!(fixture.commit(late(&calling, track("t"))).await, Committed::Applied { .. }));
    assert_eq!(
        fixture.commit(write(&other, fail(&other, Outcome::OutcomeUnknown))).await,
        Committed::LeaseLost
    );
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.fence), ("working", other.task.fence.0 + 1));
}

#[tokio::test]
async fn an_id_that_comes_after_the_call_was_given_up_is_told_so() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    fixture.let_leases_lapse().await;
    let other = fixture.lease_one().await;
    fixture.commit(write(&other, fail(&other, Outcome::OutcomeUnknown))).await;

    assert_eq!(fixture.commit(late(&calling, track("t"))).await, ended(Outcome::OutcomeUnknown));
    assert_eq!(fixture.commit(late(&calling, succeed(&calling))).await, ended(Outcome::OutcomeUnknown));
    assert_eq!(fixture.row("a").await.outputs, 1);
}

#[tokio::test]
async fn a_result_that_comes_after_the_lease_lapsed_is_kept() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    fixture.let_leases_lapse().await;
    let other = fixture.lease_one().await;
    assert!(matches!(fixture.commit(late(&calling, succeed(&calling))).await, Committed::Applied { .. }));
    assert_eq!(
        fixture.commit(write(&other, fail(&other, Outcome::OutcomeUnknown))).await,
        ended(Outcome::Succeeded)
    );
}

#[tokio::test]
async fn a_call_cannot_be_begun_twice() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let first = fixture.lease_one().await;
    fixture.let_leases_lapse().await;
    let second = fixture.lease_one().await;
    let begin = david_reconciler::Transition::BeginCall { lease: crate::support::TERM };
    assert_eq!(fixture.commit(write(&second, begin.clone())).await, applied(second.task.fence.0));
    assert_eq!(fixture.commit(write(&first, begin)).await, Committed::LeaseLost);
}

#[tokio::test]
async fn an_id_of_another_live_task_is_refused_and_the_batch_goes_on() {
    let fixture = Fixture::new().await;
    fixture.submit("first", "a").await;
    fixture.track("same").await;
    let polling = fixture.lease_one().await;
    fixture.submit("second", "a").await;
    let calling = fixture.begin_call().await;

    let writes = [late(&calling, track("same")), write(&polling, retry("meanwhile"))];
    let mut results = Vec::new();
    for (answer, write) in
        fixture.ledger.commit_batch(fixture.replica, &writes).await.into_iter().zip(&writes)
    {
        results.push(match answer {
            david_schema::BatchAnswer::Settled(result) => result,
            david_schema::BatchAnswer::Alone => fixture.ledger.commit_alone(fixture.replica, write).await,
        });
    }
    assert!(matches!(results[0], Err(CommitError::RemoteTaskTaken)), "{results:?}");
    assert!(matches!(results[1], Ok(Committed::Applied { .. })), "{results:?}");
    assert_eq!(fixture.row("second").await.phase, "calling");
}

#[tokio::test]
async fn a_server_may_use_an_id_again_once_its_task_has_ended() {
    let fixture = Fixture::new().await;
    fixture.submit("first", "a").await;
    fixture.track("same").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, succeed(&leased))).await;
    fixture.submit("second", "a").await;
    fixture.track("same").await;
    assert_eq!(fixture.row("second").await.phase, "working");
}

#[tokio::test]
async fn an_unpersisted_id_may_be_cancelled_only_if_no_live_row_holds_it_and_its_server_may_be_talked_to() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("held").await;
    let registration = david_reconciler::RegistrationId::new("reg");
    let may = async |id: &str| {
        fixture.ledger.may_cancel(&registration, &crate::support::remote(id).id).await.unwrap()
    };
    assert!(!may("held").await);
    assert!(may("orphan").await);
    fixture.sql("update david.mcp_server_registrations set enabled = false").await;
    assert!(!may("orphan").await);
}

/// The write is made through a proxy that cuts the connection at COMMIT, then made again.
async fn commit_through_a_cut(fixture: &Fixture, proxy: &PgProxy, write: david_schema::Write) -> Committed {
    let url = proxy.url(&fixture.db.url).unwrap();
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let ledger = david_schema::Ledger::from_pool(pool);
    let first = try_commit(&ledger, fixture.replica, write.clone()).await;
    assert!(matches!(first, Err(CommitError::Unavailable(_))), "the connection is cut: {first:?}");
    try_commit(&ledger, fixture.replica, write).await.unwrap()
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_recognises_itself_and_is_not_made_twice() {
    let fixture = Fixture::new().await;
    let upstream = fixture.db.pool.connect_options();
    let upstream = format!("{}:{}", upstream.get_host(), upstream.get_port()).parse().unwrap();
    let proxy = PgProxy::start(upstream).await.unwrap();
    fixture.submit("a", "a").await;

    let queued = fixture.lease_one().await;
    let begin = david_reconciler::Transition::BeginCall { lease: crate::support::TERM };
    proxy.cut_after_commit();
    assert_eq!(commit_through_a_cut(&fixture, &proxy, write(&queued, begin.clone())).await, applied(1));

    let calling = std::sync::Arc::new(queued.after(&begin));
    proxy.cut_after_commit();
    let tracked = commit_through_a_cut(&fixture, &proxy, late(&calling, track("t"))).await;
    assert!(matches!(tracked, Committed::Applied { .. }), "{tracked:?}");

    let leased = fixture.lease_one().await;
    proxy.cut_after_commit();
    let finished = commit_through_a_cut(&fixture, &proxy, write(&leased, succeed(&leased))).await;
    assert_eq!(finished, applied(leased.task.fence.0));

    let row = fixture.row("a").await;
    assert_eq!(row.outputs, 1);
    assert_eq!(row.events, ["MCP_TASK_CREATED", "MCP_TASK_COMPLETED"], "no event is told twice");
    assert_eq!(proxy.cuts(), 3);
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_made_again() {
    let fixture = Fixture::new().await;
    let upstream = fixture.db.pool.connect_options();
    let upstream = format!("{}:{}", upstream.get_host(), upstream.get_port()).parse().unwrap();
    let proxy = PgProxy::start(upstream).await.unwrap();
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    proxy.cut_before_commit();
    let committed = commit_through_a_cut(&fixture, &proxy, late(&calling, succeed(&calling))).await;
    assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.outputs, row.action.as_str()), ("finalised", 1, "completed"));
}
