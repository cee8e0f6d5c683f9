//! Rule 3: every write after a lease carries the fence, and zero rows have a name.

use std::collections::HashSet;

use crate::starts::Start;
use crate::support::{Fixture, TERM, applied, ended, fail, retry, succeed, write};
use david_reconciler::{Outcome, Transition};
use david_schema::{Committed, Ledger, ReplicaId};
use sqlx::{Connection as _, PgConnection};

#[tokio::test]
async fn a_lease_bumps_the_fence_and_moves_the_row_out_of_sight() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let leased = fixture.lease_one().await;
    assert_eq!(leased.task.fence.0, 1);
    let row = fixture.row("a").await;
    assert_eq!((row.fence, row.lapses, row.due, row.leased), (1, 1, false, true));
    assert!(fixture.lease().await.is_empty(), "a leased row is not leased again");
}

#[tokio::test]
async fn a_write_under_a_stale_fence_changes_nothing_and_is_told_that_the_lease_is_lost() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let stale = fixture.lease_one().await;
    fixture.let_leases_lapse().await;
    let fresh = fixture.lease_one().await;
    let before = fixture.row("a").await;

    for transition in [retry("late"), succeed(&stale), Transition::SettleCancel { reason: "late".to_owned() }]
    {
        assert_eq!(fixture.commit(write(&stale, transition)).await, Committed::LeaseLost);
    }
    assert_eq!(fixture.row("a").await, before);
    assert_eq!(fixture.commit(write(&fresh, succeed(&fresh))).await, applied(fresh.task.fence.0));
}

#[tokio::test]
async fn a_write_after_the_end_is_told_how_the_action_ended() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let first = fixture.lease_one().await;
    fixture.let_leases_lapse().await;
    let second = fixture.lease_one().await;
    fixture.commit(write(&second, succeed(&second))).await;
    let before = fixture.row("a").await;

    let late = fixture.commit(write(&first, fail(&first, Outcome::TaskMissing))).await;
    assert_eq!(late, ended(Outcome::Succeeded));
    assert_eq!(fixture.row("a").await, before);
}

#[tokio::test]
async fn a_write_for_a_row_that_is_gone_is_told_that_it_vanished() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let leased = fixture.lease_one().await;
    fixture.sql("delete from david.runs").await;
    assert_eq!(fixture.commit(write(&leased, succeed(&leased))).await, Committed::Vanished);
    assert_eq!(fixture.commit(write(&leased, retry("gone"))).await, Committed::Vanished);
    assert_eq!(fixture.number("select count(*) from david.tool_outputs").await, 0);
}

#[tokio::test]
async fn no_two_leasers_ever_hold_the_same_row() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into david.runs (id, user_id) values ('run_a', 'user');
             select david.submit_action('act_' || n, 'run_a', 'reg', 'tool', 'tool', '{}') from generate_series(1, 500) n",
        )
        .await;
    let mut leasers = Vec::new();
    for _ in 0..6 {
        let ledger = Ledger::from_pool(fixture.db.pool.clone());
        leasers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let batch = ledger.lease(ReplicaId::new(), 7, TERM).await.unwrap();
                if batch.rows.is_empty() {
                    return mine;
                }
                assert!(batch.rows.len() <= 7);
                mine.extend(batch.rows.into_iter().map(|row| row.task.id));
            }
        }));
    }
    let mut all = Vec::new();
    for leaser in leasers {
        all.extend(leaser.await.unwrap());
    }
    assert_eq!(all.len(), 500);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 500);
}

#[tokio::test]
async fn a_release_gives_the_row_back_as_it_was() {
    let fixture = Fixture::new().await;
    let leased = Start::Working.reach(&fixture).await;
    let lease = (leased.task.id, leased.task.fence);
    assert_eq!(fixture.ledger.release(&[lease]).await.unwrap(), 1);
    let row = fixture.row("a").await;
    assert_eq!((row.fence, row.lapses, row.due, row.leased), (leased.task.fence.0, 0, true, false));
    let again = fixture.lease_one().await;
    let counts = (again.task.attempt, again.task.polls, again.task.lapses);
    assert_eq!(counts, (leased.task.attempt, leased.task.polls, leased.task.lapses));
    assert_eq!(again.task.phase, leased.task.phase);
    assert_eq!(fixture.ledger.release(&[lease]).await.unwrap(), 0, "the next lease is not released with it");
}

#[tokio::test]
async fn a_release_keeps_the_suspicion_of_earlier_lapses() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.lease_one().await;
    fixture.let_leases_lapse().await;
    let leased = fixture.lease_one().await;
    fixture.ledger.release(&[(leased.task.id, leased.task.fence)]).await.unwrap();
    assert_eq!(fixture.row("a").await.lapses, 1);
}

#[tokio::test]
async fn a_release_leaves_out_a_row_that_somebody_is_changing_and_waits_for_nobody() {
    let fixture = Fixture::new().await;
    for name in ["a", "b"] {
        fixture.submit(name, name).await;
    }
    let leased = fixture.lease().await;
    let mut other = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin; update david.runs set status = 'cancelled' where id = 'run_a'")
        .execute(&mut other)
        .await
        .unwrap();
    let rows: Vec<_> = leased.iter().map(|row| (row.task.id, row.task.fence)).collect();
    assert_eq!(fixture.ledger.release(&rows).await.unwrap(), 1);
    sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    assert_eq!(fixture.row("a").await.phase, "finalised");
    assert!(fixture.row("b").await.due);
}

#[tokio::test]
async fn a_row_that_was_changed_from_outside_is_not_released() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.track("t").await;
    let leased = fixture.lease_one().await;
    fixture.sql("update david.runs set status = 'cancelled'").await;
    let woken = fixture.row("a").await;
    assert!(woken.due && woken.phase == "cancelling");
    assert_eq!(fixture.ledger.release(&[(leased.task.id, leased.task.fence)]).await.unwrap(), 0);
    assert_eq!(fixture.row("a").await, woken);
}

#[tokio::test]
async fn a_row_in_calling_is_never_released() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    let calling = fixture.begin_call().await;
    assert_eq!(fixture.ledger.release(&[(calling.task.id, calling.task.fence)]).await.unwrap(), 0);
    let row = fixture.row("a").await;
    assert_eq!((row.phase.as_str(), row.due), ("calling", false));
}

#[tokio::test]
async fn a_row_that_lapses_twice_is_leased_only_by_those_who_lease_it_alone() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    for lapses in 0..2 {
        assert_eq!(fixture.lease_one().await.task.lapses, lapses);
        fixture.let_leases_lapse().await;
    }
    assert!(fixture.lease().await.is_empty(), "it may have killed two replicas");
    assert!(fixture.ledger.suspect_due(&[]).await.unwrap());
    let batch = fixture.ledger.lease_suspect(fixture.replica, &[], TERM).await.unwrap();
    assert_eq!(batch.rows.len(), 1);
    let leased = std::sync::Arc::new(batch.rows.into_iter().next().unwrap());
    assert_eq!(leased.task.lapses, 2);
    fixture.commit(write(&leased, retry("harmless after all"))).await;
    assert_eq!(fixture.row("a").await.lapses, 0, "a commit clears the suspicion");
}
