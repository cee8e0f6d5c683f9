//! Breakers and pauses, as all replicas share them.

use std::time::Duration;

use david_reconciler::{PhaseName, RegistrationId};
use david_schema::{Closed, OpenFor, Seen, Trip};

use crate::support::{Fixture, TERM};

const OPEN_FOR: OpenFor = OpenFor { first: Duration::from_secs(100), longest: Duration::from_secs(300) };

fn reg() -> RegistrationId {
    RegistrationId::new("reg")
}

async fn trip(fixture: &Fixture, probe: bool) {
    let trip = Trip { registration: reg(), reason: "It is silent.".to_owned(), probe };
    fixture.ledger.trip(&[trip], OPEN_FOR).await.unwrap();
}

/// For how long the breaker is open, in seconds.
async fn open_for(fixture: &Fixture) -> i64 {
    let query =
        "select round(extract(epoch from open_until - now()))::bigint from david.mcp_registration_health";
    fixture.number(query).await
}

async fn let_time_pass(fixture: &Fixture) {
    fixture.sql("update david.mcp_registration_health set open_until = now()").await;
}

#[tokio::test]
async fn a_breaker_that_several_replicas_open_at_once_is_opened_once() {
    let fixture = Fixture::new().await;
    for _ in 0..5 {
        trip(&fixture, false).await;
    }
    assert_eq!(fixture.number("select trips::bigint from david.mcp_registration_health").await, 1);
    assert!((95..=100).contains(&open_for(&fixture).await));
    let closed = fixture.ledger.closed().await.unwrap();
    assert!(matches!(closed[&reg()], Closed::Open(left) if left > Duration::from_secs(90)), "{closed:?}");
}

#[tokio::test]
async fn every_failed_probe_doubles_the_pause_up_to_its_bound_and_a_success_forgets_it() {
    let fixture = Fixture::new().await;
    trip(&fixture, false).await;
    for expected in [200, 300, 300] {
        trip(&fixture, true).await;
        let open = open_for(&fixture).await;
        assert!((expected - 5..=expected).contains(&open), "{open} and not {expected}");
    }
    fixture.ledger.close(&[reg()]).await.unwrap();
    assert!(fixture.ledger.closed().await.unwrap().is_empty());
    trip(&fixture, false).await;
    assert!((95..=100).contains(&open_for(&fixture).await));
}

#[tokio::test]
async fn one_replica_at_a_time_gets_one_row_of_a_server_that_is_tried_again_and_a_poll_before_a_call() {
    let fixture = Fixture::new().await;
    fixture.submit("task", "a").await;
    fixture.track("t").await;
    for name in ["b", "c"] {
        fixture.submit(name, "a").await;
    }
    trip(&fixture, false).await;
    let phases = [PhaseName::Queued, PhaseName::Working];
    let probe = async || {
        let answer_within = Duration::from_secs(15);
        let (server, replica) = (reg(), fixture.replica);
        let probe = fixture.ledger.lease_probe(replica, &server, &phases, answer_within, TERM).await;
        probe.unwrap().rows.into_iter().map(|row| row.task.phase.name()).collect::<Vec<_>>()
    };
    assert_eq!(probe().await, [], "it is open");
    let_time_pass(&fixture).await;
    assert_eq!(probe().await, [PhaseName::Working]);
    assert_eq!(probe().await, [], "somebody is looking");
    let_time_pass(&fixture).await;
    assert_eq!(probe().await, [PhaseName::Queued], "nothing else is due");

    let_time_pass(&fixture).await;
    fixture.sql("update david.mcp_registration_health set paused_at = now(), paused_by = 'ops'").await;
    assert_eq!(probe().await, [], "a paused server is not tried");
    assert_eq!(fixture.ledger.closed().await.unwrap()[&reg()], Closed::Paused);
}

#[tokio::test]
async fn a_server_of_which_only_calls_are_due_is_asked_by_one_of_them_until_its_time_is_over() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.sql("update david.mcp_server_registrations set timeout_seconds = 100").await;
    for (phases, expected) in
        [(&[PhaseName::Working, PhaseName::Queued][..], 15), (&[PhaseName::Queued][..], 115)]
    {
        fixture.ledger.close(&[reg()]).await.unwrap();
        trip(&fixture, false).await;
        let_time_pass(&fixture).await;
        fixture.sql("update david.mcp_action_tasks set due_at = now()").await;
        let answer_within = Duration::from_secs(15);
        let probe = fixture.ledger.lease_probe(fixture.replica, &reg(), phases, answer_within, TERM).await;
        assert_eq!(probe.unwrap().rows.len(), 1);
        let open = open_for(&fixture).await;
        assert!((expected - 5..=expected).contains(&open), "{open} and not {expected}");
    }
}

#[tokio::test]
async fn what_replicas_saw_of_a_server_adds_up_and_opens_nothing() {
    let fixture = Fixture::new().await;
    let seen = |requests, failures, error: Option<&str>| Seen {
        requests,
        failures,
        latency: (requests > failures).then(|| Duration::from_millis(40)),
        last_error: error.map(str::to_owned),
    };
    for seen in [seen(10, 0, None), seen(5, 5, Some("It is silent."))] {
        fixture.ledger.write_health(&[(reg(), seen)]).await.unwrap();
    }
    assert_eq!(fixture.number("select requests from david.mcp_registration_health").await, 15);
    assert_eq!(fixture.number("select failures from david.mcp_registration_health").await, 5);
    assert_eq!(fixture.number("select latency_ms::bigint from david.mcp_registration_health").await, 40);
    assert!(fixture.ledger.closed().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_breaker_that_nothing_can_close_holds_up_nobody() {
    let fixture = Fixture::new().await;
    trip(&fixture, false).await;
    for (change, closed) in [
        ("update david.mcp_registration_health set open_until = now() - interval '59 minutes'", true),
        ("update david.mcp_registration_health set open_until = now() - interval '61 minutes'", false),
        ("update david.mcp_registration_health set open_until = now() + interval '1 minute'", true),
        ("update david.mcp_server_registrations set enabled = false", false),
        ("update david.mcp_server_registrations set enabled = true", true),
        ("delete from david.mcp_server_registrations", false),
        ("update david.mcp_registration_health set paused_at = now(), paused_by = 'ops'", true),
    ] {
        fixture.sql(change).await;
        assert_eq!(!fixture.ledger.closed().await.unwrap().is_empty(), closed, "{change}");
    }
}

#[tokio::test]
async fn a_call_that_was_lost_is_no_probe_unless_it_is_made_again() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.begin_call().await;
    fixture.let_leases_lapse().await;
    trip(&fixture, false).await;
    let probe = async || {
        let_time_pass(&fixture).await;
        let (replica, phases) = (fixture.replica, [PhaseName::Calling]);
        let probe = fixture.ledger.lease_probe(replica, &reg(), &phases, Duration::from_secs(15), TERM).await;
        probe.unwrap().len()
    };
    assert_eq!(probe().await, 0);
    fixture.sql("update david.mcp_action_calls set idempotent = true").await;
    assert_eq!(probe().await, 1);
}
