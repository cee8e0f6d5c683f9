//! Every view at a million unfinished rows. Takes two minutes and 2 GB, so it is asked for by name:
//!
//!     cargo test -p david-schema --test ledger a_million -- --ignored --nocapture
//!
//! prints the table of docs/views.md.

use crate::support::Fixture;

const VIEWS: &[(&str, &str)] = &[
    ("v_backlog", ""),
    ("v_due_lag", ""),
    ("v_leases", ""),
    ("v_stuck", ""),
    ("v_registration_health", ""),
    ("v_outcomes", ""),
    ("v_input_required", ""),
    ("v_input_required", " where run_id = 'run_1'"),
    ("v_cancelling", ""),
    ("v_action", " where action_id = 'act_1000'"),
    ("v_action", " where run_id = 'run_1000'"),
    ("v_timeline", " where action_id = 'act_1000'"),
    ("v_blockers", ""),
    ("v_table_health", ""),
];

const TRIES: usize = 9;

/// Milliseconds, sorted.
async fn times(fixture: &Fixture, view: &str, filter: &str) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..TRIES {
        let explain = format!("explain (analyze, timing off, summary on) select * from david.{view}{filter}");
        let plan: Vec<String> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(explain)).fetch_all(&fixture.db.pool).await.unwrap();
        let spent: f64 = plan
            .iter()
            .filter(|line| line.starts_with("Planning Time") || line.starts_with("Execution Time"))
            .filter_map(|line| line.split_whitespace().nth(2)?.parse::<f64>().ok())
            .sum();
        times.push(spent);
    }
    times.sort_by(f64::total_cmp);
    times
}

#[tokio::test]
#[ignore = "fills a million rows: two minutes and 2 GB"]
async fn every_view_answers_within_a_tenth_of_a_second_at_a_million_rows() {
    let fixture = Fixture::new().await;
    fixture.sql("delete from david.mcp_server_registrations").await;
    for statement in include_str!("million.sql").split(";\n") {
        fixture.sql(statement).await;
    }
    assert_eq!(
        fixture.number("select count(*) from david.mcp_action_tasks where phase <> 'finalised'").await,
        1_000_000
    );

    let mut slow = Vec::new();
    let overdue = "update david.mcp_action_tasks set due_at = now() - interval '1 hour' * random() where phase <> 'finalised'";
    for (state, change) in [
        ("work as usual", "select"),
        ("all overdue", overdue),
        ("vacuumed", "vacuum analyze david.mcp_action_tasks"),
    ] {
        fixture.sql(change).await;
        for (view, filter) in VIEWS {
            let times = times(&fixture, view, filter).await;
            println!("| `{view}`{filter} | {state} | {:.0} | {:.0} |", times[TRIES / 2], times[TRIES - 1]);
            if times[TRIES / 2] > 100.0 {
                slow.push(format!("{view}{filter} with {state}: {times:?}"));
            }
        }
        let exact = fixture
            .number(
                "select count(*) from david.mcp_action_tasks where phase <> 'finalised' and due_at <= now()",
            )
            .await;
        let estimate = fixture.number("select due from david.v_due_lag where registration_id is null").await;
        assert!(
            (estimate - exact).abs() * 10 < exact.max(1000) * 2,
            "{state}: {estimate} estimated, {exact} due"
        );
        let estimate = fixture.number("select sum(tasks)::bigint from david.v_backlog").await;
        assert!((estimate - 1_000_000).abs() < 100_000, "{state}: {estimate} estimated");
    }
    assert!(slow.is_empty(), "{slow:#?}");
}
