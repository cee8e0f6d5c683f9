//! The lease: bounded, ordered, and cheap however much is not due.

use david_reconciler::RegistrationId;
use david_schema::{Ledger, ReplicaId};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection};

use crate::support::{Fixture, TERM};

/// `count` queued Actions in one Run, due in the order of their numbers.
async fn queued(count: u32) -> Fixture {
    let fixture = Fixture::new().await;
    fixture
        .sql(&format!(
            "insert into david.runs (id, user_id) values ('run_a', 'user');
             select david.submit_action('act_' || n, 'run_a', 'reg', 'tool', 'tool', '{{}}') from generate_series(1, {count}) n;
             update david.mcp_action_tasks set due_at = now() - interval '1 hour' + id * interval '1 ms'"
        ))
        .await;
    fixture
}

#[tokio::test]
async fn rows_that_are_due_longest_come_first() {
    let fixture = queued(20).await;
    let mut ids: Vec<i64> = fixture
        .ledger
        .lease(fixture.replica, 5, TERM)
        .await
        .unwrap()
        .rows
        .iter()
        .map(|row| row.task.id.0)
        .collect();
    ids.sort_unstable();
    let first: Vec<i64> = sqlx::query_scalar("select id from david.mcp_action_tasks order by id limit 5")
        .fetch_all(&fixture.db.pool)
        .await
        .unwrap();
    assert_eq!(ids, first);
}

#[tokio::test]
async fn never_more_rows_than_asked_whatever_plan_is_forced() {
    let fixture = queued(300).await;
    for off in [
        &["enable_hashjoin", "enable_mergejoin"][..],
        &[
            "enable_hashjoin",
            "enable_mergejoin",
            "enable_material",
            "enable_memoize",
            "enable_indexscan",
            "enable_bitmapscan",
        ],
        &["enable_nestloop", "enable_seqscan", "enable_sort"],
        // Leaves but one plan to `id in (select … limit n for update)`: run the inner select for each row.
        &[
            "enable_hashjoin",
            "enable_mergejoin",
            "enable_material",
            "enable_memoize",
            "enable_hashagg",
            "enable_sort",
        ],
    ] {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let mut options =
                (*fixture.db.pool.connect_options()).clone().options([("plan_cache_mode", mode)]);
            for setting in off {
                options = options.options([(*setting, "off")]);
            }
            let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
            let ledger = Ledger::from_pool(pool);
            for limit in [1, 7] {
                let batch = ledger.lease(ReplicaId::new(), limit, TERM).await.unwrap();
                assert_eq!(batch.rows.len(), limit as usize, "{off:?} {mode}");
            }
        }
    }
    let leased = fixture.number("select count(*) from david.mcp_action_tasks where due_at > now()").await;
    assert_eq!(leased, 4 * 2 * 8, "no row was locked or moved beyond those returned");
}

#[tokio::test]
async fn a_lease_reads_its_index_and_not_the_rows_that_are_not_due() {
    let fixture = queued(20_000).await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 day' where id > 50").await;
    fixture.sql("vacuum analyze david.mcp_action_tasks").await;
    let lease = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/lease.sql")).unwrap();
    let statement = lease
        .replace("$1::bigint", "100")
        .replace("$2::uuid", "gen_random_uuid()")
        .replace("$3::bigint", "1000")
        .replace("$4::bigint", "100")
        .replace("$5::bigint", "0");
    let plan: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
        "explain (analyze, buffers, costs off, timing off) {statement}"
    )))
    .fetch_all(&fixture.db.pool)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("Index Scan using mcp_action_tasks_due on mcp_action_tasks d"), "{plan}");
    assert!(!plan.contains("Seq Scan on mcp_action_tasks"), "{plan}");
    let buffers: u64 = plan
        .lines()
        .find(|line| line.trim_start().starts_with("Buffers:"))
        .and_then(|line| line.split("hit=").nth(1)?.split_whitespace().next()?.parse().ok())
        .unwrap_or_else(|| panic!("{plan}"));
    // 50 rows of the 20,000 are due: some forty buffers a row for joins, heap and four indexes.
    assert!(buffers < 50 * 40, "the lease touched {buffers} buffers:\n{plan}");
}

#[tokio::test]
async fn nothing_due_is_an_empty_batch() {
    let fixture = Fixture::new().await;
    let batch = fixture.ledger.lease(fixture.replica, 10, TERM).await.unwrap();
    assert!(batch.rows.is_empty() && batch.bad.is_empty() && batch.now.is_none());
    assert!(!fixture.ledger.suspect_due(&[]).await.unwrap());
}

#[tokio::test]
async fn a_suspect_is_leased_alone_and_by_nobody_who_leases_a_batch() {
    let fixture = queued(5).await;
    fixture.sql("update david.mcp_action_tasks set lapses = 2 where id in (select min(id) from david.mcp_action_tasks union select max(id) from david.mcp_action_tasks)").await;
    assert_eq!(fixture.lease().await.len(), 3);
    for _ in 0..2 {
        assert!(fixture.ledger.suspect_due(&[]).await.unwrap());
        let batch = fixture.ledger.lease_suspect(fixture.replica, &[], TERM).await.unwrap();
        assert_eq!(batch.rows.iter().map(|row| row.task.lapses).collect::<Vec<_>>(), [2]);
    }
    assert!(!fixture.ledger.suspect_due(&[]).await.unwrap());
    assert!(fixture.ledger.lease_suspect(fixture.replica, &[], TERM).await.unwrap().rows.is_empty());
}

#[tokio::test]
async fn a_suspect_of_a_closed_server_is_left_there_until_its_time_is_over() {
    let fixture = queued(1).await;
    fixture.sql("update david.mcp_action_tasks set lapses = 2").await;
    let closed = [RegistrationId::new("reg")];
    assert!(!fixture.ledger.suspect_due(&closed).await.unwrap());
    assert!(fixture.ledger.lease_suspect(fixture.replica, &closed, TERM).await.unwrap().rows.is_empty());
    // An expiry ends nothing without the server's word.
    fixture.sql("update david.mcp_action_tasks set phase = 'working', remote_task_id = 't', remote_status = 'working', remote_expires_at = now()").await;
    assert!(!fixture.ledger.suspect_due(&closed).await.unwrap());
    fixture.sql("update david.mcp_action_tasks set execution_deadline = now()").await;
    assert!(fixture.ledger.suspect_due(&closed).await.unwrap());
    assert_eq!(fixture.ledger.lease_suspect(fixture.replica, &closed, TERM).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn rows_without_lapses_are_not_leased_as_suspects() {
    let fixture = queued(3).await;
    assert!(!fixture.ledger.suspect_due(&[]).await.unwrap());
    assert!(fixture.ledger.lease_suspect(fixture.replica, &[], TERM).await.unwrap().rows.is_empty());
    fixture.sql("update david.mcp_action_tasks set lapses = 1").await;
    assert!(fixture.ledger.lease_suspect(fixture.replica, &[], TERM).await.unwrap().rows.is_empty());
    assert_eq!(fixture.lease().await.len(), 3);
}

#[tokio::test]
async fn a_row_that_is_locked_by_somebody_else_is_skipped_and_not_waited_for() {
    let fixture = queued(3).await;
    let mut other = PgConnection::connect(&fixture.db.url).await.unwrap();
    sqlx::raw_sql("begin; select from david.mcp_action_tasks order by due_at limit 1 for update")
        .execute(&mut other)
        .await
        .unwrap();
    assert_eq!(fixture.lease().await.len(), 2);
}

#[tokio::test]
async fn a_row_without_its_registration_is_leased_all_the_same() {
    let fixture = queued(1).await;
    fixture.sql("delete from david.mcp_server_registrations").await;
    let leased = fixture.lease_one().await;
    assert_eq!(leased.registered, None);
}
