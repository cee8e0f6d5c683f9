//! Rules 1 and 2: one executed call, and whatever comes of it is not lost.

use std::time::Duration;

use crate::support::{Fixture, TERM, applied, ended, fail, late, retry, succeed, track, write};
use david_reconciler::{Outcome, Transition};
use david_schema::{CommitError, Committed};

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
    let begin = Transition::BeginCall { lease: TERM };
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

#[tokio::test]
async fn what_comes_of_an_earlier_call_is_not_taken_for_what_the_present_call_brings() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let first = fixture.begin_call().await;
    let requeue = Transition::Requeue { delay: Duration::ZERO, attempt: 1, reason: "Not sent.".to_owned() };
    fixture.commit(late(&first, requeue)).await;

    assert_eq!(fixture.commit(late(&first, track("t"))).await, Committed::LeaseLost, "no call is under way");
    let second = fixture.begin_call().await;
    assert_eq!(fixture.commit(late(&first, track("t"))).await, Committed::LeaseLost, "it is another call");
    assert_eq!(fixture.commit(late(&first, succeed(&first))).await, Committed::LeaseLost);
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.outputs), ("calling", 0));
    assert!(matches!(fixture.commit(late(&second, track("t"))).await, Committed::Applied { .. }));
}

#[tokio::test]
async fn a_call_that_is_made_again_because_its_replica_was_lost_is_told_and_one_that_was_refused_is_not() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let requeue = Transition::Requeue { delay: Duration::ZERO, attempt: 1, reason: "Why.".to_owned() };
    let refused = fixture.begin_call().await;
    fixture.commit(late(&refused, requeue.clone())).await;
    assert!(fixture.row("a").await.events.is_empty());

    fixture.begin_call().await;
    fixture.let_leases_lapse().await;
    let lost = fixture.lease_one().await;
    fixture.commit(write(&lost, requeue)).await;
    assert_eq!(fixture.row("a").await.events, ["MCP_TASK_RECOVERED"]);
}

#[tokio::test]
async fn a_decision_made_before_the_call_was_begun_is_not_written_after_it_under_the_same_fence() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let queued = fixture.lease_one().await;
    fixture.commit(write(&queued, Transition::BeginCall { lease: TERM })).await;
    let before = fixture.row("a").await;
    assert_eq!(fixture.commit(write(&queued, retry("late"))).await, Committed::LeaseLost);
    assert_eq!(
        fixture.commit(write(&queued, fail(&queued, Outcome::Unauthorised))).await,
        Committed::LeaseLost
    );
    assert_eq!(fixture.row("a").await, before);
}

#[tokio::test]
async fn two_servers_may_use_the_same_id() {
    let fixture = Fixture::new().await;
    fixture.register("elsewhere").await;
    fixture.submit("first", "a").await;
    fixture.track("same").await;
    fixture.lease_one().await;
    fixture.sql("select david.submit_action('act_second', 'run_a', 'elsewhere', 'tool', 'tool', '{}')").await;
    fixture.track("same").await;
    assert_eq!(fixture.row("second").await.phase, "working");
}
