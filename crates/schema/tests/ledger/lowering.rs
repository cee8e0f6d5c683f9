//! A decision and back: what a transition says is what the next lease reads.

use std::time::Duration;

use david_reconciler::{
    CancelDebt, InputState, InputSubject, Outcome, Phase, RemoteStatus, RemoteTask, RequestState, Task,
    Timestamp, Transition,
};
use david_schema::Committed;

use crate::starts::{ATTEMPT, POLLS, Start, given, name_was_sent, send_name};
use crate::support::{Fixture, after, asks, fail, fail_owing, remote};

/// 9999-12-31, the latest instant that is stored.
const END_OF_TIME: Timestamp = Timestamp(253_402_214_400_000_000);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Everything a server may say of its task.
fn learned() -> RemoteTask {
    RemoteTask {
        status: Some(RemoteStatus::Working),
        expires_at: Some(Timestamp(2_000_000_000_123_456)),
        ttl: Some(Duration::from_millis(5_000)),
        poll_interval: Some(Duration::from_millis(250)),
        ..remote("t")
    }
}

/// Commits `transition` where `start` stands, and reads the row with the next lease: it must be as it was but
/// for what `meant` changes, due after `delay`, and carry `last_error`.
async fn check(
    start: Start,
    transition: Transition,
    delay: Duration,
    last_error: Option<&str>,
    meant: impl FnOnce(&mut Task),
) {
    let label = transition.label();
    let fixture = Fixture::new().await;
    let leased = start.reach(&fixture).await;
    let Committed::Applied { fence } = fixture.commit(start.write(&leased, transition)).await else {
        panic!("{label} from {start:?} is not applied");
    };
    let row: (i64, Option<String>) = sqlx::query_as(
        "select (extract(epoch from due_at - updated_at) * 1000000)::bigint, last_error from david.mcp_action_tasks",
    )
    .fetch_one(&fixture.db.pool)
    .await
    .unwrap();
    let due = (delay.as_micros().try_into().unwrap(), last_error.map(str::to_owned));
    assert_eq!(row, due, "due_at and last_error after {label} from {start:?}");

    fixture.let_leases_lapse().await;
    let mut expected = leased.task.clone();
    expected.fence.0 = fence.0 + 1;
    expected.lapses = 0;
    meant(&mut expected);
    let next = fixture.lease_one().await;
    assert_eq!(without_since(next.task.clone()), without_since(expected), "{label} from {start:?}");
}

/// When the questions came is the database's to say.
fn without_since(mut task: Task) -> Task {
    if let Phase::InputRequired { since, .. } = &mut task.phase {
        *since = Timestamp(0);
    }
    task
}

#[tokio::test]
async fn a_call_that_is_begun_reads_as_the_call_of_that_fence() {
    let lease = Duration::from_secs(75);
    check(Start::Queued, Transition::BeginCall { lease }, lease, None, |task| {
        task.phase = Phase::Calling { call_fence: david_reconciler::Fence(1) };
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_not_executed_reads_as_queued_with_its_count_of_failures() {
    let delay = Duration::from_millis(1_500);
    let requeue = Transition::Requeue { delay, attempt: 3, reason: "Refused.".to_owned() };
    check(Start::Calling, requeue, delay, Some("Refused."), |task| {
        (task.phase, task.attempt) = (Phase::Queued, 3);
    })
    .await;
}

#[tokio::test]
async fn what_the_server_said_of_its_task_reads_as_it_was_said() {
    let delay = Duration::from_secs(2);
    check(Start::Calling, Transition::Track { remote: learned(), delay }, delay, None, |task| {
        (task.phase, task.attempt) = (Phase::Working { remote: learned() }, 0);
    })
    .await;
    for start in [Start::Working, Start::TaskAsks] {
        check(start, Transition::Continue { remote: learned(), delay }, delay, None, |task| {
            (task.phase, task.attempt, task.polls) = (Phase::Working { remote: learned() }, 0, POLLS + 1);
        })
        .await;
    }
}

#[tokio::test]
async fn what_the_server_said_is_forgotten_once_it_says_so_no_more() {
    let fixture = Fixture::new().await;
    Start::Working.reach(&fixture).await;
    for said in [learned(), remote("t")] {
        fixture.let_leases_lapse().await;
        let leased = fixture.lease_one().await;
        let go_on = Transition::Continue { remote: said.clone(), delay: Duration::ZERO };
        fixture.commit(Start::Working.write(&leased, go_on)).await;
        assert_eq!(fixture.lease_one().await.task.phase.remote(), Some(&said));
    }
}

#[tokio::test]
async fn whatever_is_said_of_time_or_counted_is_stored_as_the_nearest_that_can_be() {
    for (said, kept) in
        [(i64::MAX, END_OF_TIME), (i64::MIN, Timestamp(0)), (-1, Timestamp(0)), (0, Timestamp(0))]
    {
        let said = RemoteTask { expires_at: Some(Timestamp(said)), ttl: Some(Duration::MAX), ..learned() };
        let longest = Some(Duration::from_millis(i64::MAX.unsigned_abs()));
        check(
            Start::Working,
            Transition::Continue { remote: said, delay: Duration::MAX },
            YEAR,
            None,
            |task| {
                let remote = RemoteTask { expires_at: Some(kept), ttl: longest, ..learned() };
                (task.phase, task.attempt, task.polls) = (Phase::Working { remote }, 0, POLLS + 1);
            },
        )
        .await;
    }
    let retry = Transition::Retry { delay: Duration::MAX, attempt: u32::MAX, reason: String::new() };
    check(Start::Working, retry, YEAR, Some(""), |task| task.attempt = i32::MAX.unsigned_abs()).await;
}

#[tokio::test]
async fn a_failed_look_changes_nothing_but_the_count_of_failures_in_any_phase() {
    let delay = Duration::from_secs(4);
    for start in [Start::Queued, Start::Working, Start::TaskAsks, Start::CallAsks, Start::Cancelling] {
        let retry = Transition::Retry { delay, attempt: 3, reason: "Away.".to_owned() };
        check(start, retry, delay, Some("Away."), |task| task.attempt = 3).await;
        let impossible = Transition::Impossible { pair: "this and that" };
        let minute = Duration::from_secs(60);
        check(start, impossible, minute, Some("impossible: this and that"), |task| {
            task.attempt = ATTEMPT + 1
        })
        .await;
    }
}

#[tokio::test]
async fn waiting_changes_nothing_but_when_to_look_again() {
    let delay = Duration::from_secs(3_600);
    check(Start::CallAsks, Transition::Wait { delay }, delay, None, |_| {}).await;
}

#[tokio::test]
async fn a_round_of_questions_reads_as_asked_by_whom_it_was_asked() {
    let task = InputSubject::Task(learned());
    check(Start::Working, asks(task.clone(), 1, &["name"]), Duration::ZERO, None, |row| {
        row.phase = Phase::InputRequired { subject: task, since: Timestamp(0) };
        (row.attempt, row.polls, row.input_round) = (0, POLLS + 1, 1);
    })
    .await;
    for state in [None, Some(RequestState::new("opaque"))] {
        let call = InputSubject::Call { request_state: state };
        check(Start::Calling, asks(call.clone(), 1, &["name"]), Duration::ZERO, None, |row| {
            row.phase = Phase::InputRequired { subject: call, since: Timestamp(0) };
            (row.attempt, row.polls, row.input_round) = (0, POLLS + 1, 1);
        })
        .await;
    }
}

#[tokio::test]
async fn a_question_of_an_earlier_round_is_not_read_with_the_present_one() {
    let fixture = Fixture::new().await;
    let leased = Start::TaskIsTold.reach(&fixture).await;
    let states: Vec<_> = leased.inputs.iter().map(|input| input.state.clone()).collect();
    assert_eq!(states, [InputState::Sending(given()), InputState::Pending]);
    let next_round = asks(InputSubject::Task(remote("t")), 2, &["name"]);
    fixture.commit(Start::TaskIsTold.write(&leased, next_round)).await;
    let next = fixture.lease_one().await;
    let states: Vec<_> = next.inputs.iter().map(|input| input.state.clone()).collect();
    assert_eq!(states, [InputState::Pending], "the same key, but of the second round");
}

#[tokio::test]
async fn answers_on_their_way_keep_the_row_where_it_is() {
    let sending = Duration::from_secs(30);
    check(Start::TaskAsks, send_name(), sending, None, |_| {}).await;
    check(Start::TaskIsTold, name_was_sent(), Duration::from_secs(3), None, |task| task.attempt = 0).await;
}

#[tokio::test]
async fn an_end_that_owes_a_cancel_reads_as_cancelling_with_its_outcome() {
    for start in [Start::Working, Start::TaskAsks] {
        let fixture = Fixture::new().await;
        let leased = start.reach(&fixture).await;
        let end = fail_owing(&leased, Outcome::InputTimedOut, CancelDebt::Owed);
        check(start, end, Duration::ZERO, Some("It failed."), |task| {
            task.phase = Phase::Cancelling { remote: remote("t"), outcome: Outcome::InputTimedOut };
            task.attempt = 0;
        })
        .await;
    }
}

#[tokio::test]
async fn an_end_is_stored_with_its_word_and_is_never_leased_again() {
    for outcome in Outcome::ALL {
        let fixture = Fixture::new().await;
        let leased = Start::Working.reach(&fixture).await;
        fixture.commit(Start::Working.write(&leased, fail(&leased, outcome))).await;
        let row = fixture.row("a").await;
        assert_eq!((row.phase.as_str(), row.outcome.as_deref()), ("finalised", Some(outcome.as_str())));
        assert_eq!(row.action, outcome.action_status().as_str());
        fixture.sql("update david.mcp_action_tasks set due_at = now() - interval '1 day'").await;
        assert!(fixture.lease().await.is_empty());
    }
}

#[tokio::test]
async fn a_replica_that_holds_on_to_a_row_knows_what_the_next_lease_would_read() {
    for (start, transition) in
        [(Start::Queued, Transition::BeginCall { lease: YEAR }), (Start::TaskAsks, send_name())]
    {
        let fixture = Fixture::new().await;
        let leased = start.reach(&fixture).await;
        let held = after(&leased, &transition);
        fixture.commit(start.write(&leased, transition)).await;
        assert!(fixture.row("a").await.leased, "the row stays with its replica");
        fixture.let_leases_lapse().await;
        let next = fixture.lease_one().await;
        assert_eq!((&held.task.phase, &held.inputs), (&next.task.phase, &next.inputs));
    }
}
