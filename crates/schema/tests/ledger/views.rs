//! The views: a contract with a comment on every column, right numbers, and nothing secret in them.

use david_reconciler::InputSubject;
use sqlx::Row as _;

use crate::support::{Fixture, asks, fail, remote, retry, succeed, write};
use david_reconciler::Outcome;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/views.md");
const SECRET: &str = "remote-secret-4711";

async fn row(fixture: &Fixture, query: &str) -> sqlx::postgres::PgRow {
    sqlx::query(sqlx::AssertSqlSafe(query)).fetch_one(&fixture.db.pool).await.unwrap()
}

async fn lines(fixture: &Fixture, query: &str) -> Vec<String> {
    sqlx::query_scalar(sqlx::AssertSqlSafe(query)).fetch_all(&fixture.db.pool).await.unwrap()
}

/// Work in every phase, of two servers.
async fn busy() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.register("other").await;
    for name in ["cancelled", "asked", "done"] {
        fixture.submit(name, name).await;
        fixture.track(&format!("{SECRET}-{name}")).await;
        fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '5 min' where phase <> 'finalised'").await;
    }
    fixture.sql("update david.runs set status = 'cancelled' where id = 'run_cancelled'").await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() where action_id = 'act_asked'").await;
    for leased in fixture.lease().await {
        if leased.task.action_id.as_str() == "act_asked" {
            let subject = InputSubject::Task(remote(&format!("{SECRET}-asked")));
            fixture.commit(write(&leased, asks(subject, 1, &["question-1"]))).await;
        }
    }
    fixture.sql("update david.mcp_action_tasks set due_at = now() where action_id = 'act_done'").await;
    for leased in fixture.lease().await {
        if leased.task.action_id.as_str() == "act_done" {
            fixture.commit(write(&leased, succeed(&leased))).await;
        }
    }
    fixture.sql("update david.mcp_action_tasks set leased_by = null, lapses = 0").await;
    fixture.submit("calling", "calling").await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '5 min' where action_id <> 'act_calling'").await;
    fixture.begin_call().await;
    fixture
        .sql(
            "insert into david.runs (id, user_id) values ('run_queued', 'user');
             select david.submit_action('act_queued', 'run_queued', 'other', 'tool', 'tool', '{\"key\": \"argument-0815\"}')",
        )
        .await;
    fixture
}

#[tokio::test]
async fn every_view_and_every_column_of_it_has_a_comment() {
    let fixture = Fixture::new().await;
    let bare = lines(
        &fixture,
        "select c.relname || '.' || coalesce(a.attname, '')
           from pg_class c
           left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
          where c.relnamespace = 'david'::regnamespace and c.relkind = 'v'
            and (obj_description(c.oid, 'pg_class') is null or col_description(c.oid, a.attnum) is null)",
    )
    .await;
    assert!(bare.is_empty(), "without a comment: {bare:#?}");
}

/// Everything between the two marks is made of the comments.
#[tokio::test]
async fn the_contract_in_docs_views_md_is_what_the_database_says() {
    let fixture = Fixture::new().await;
    let made = lines(
        &fixture,
        "select case when a.attnum = 1 then '### david.' || c.relname || E'\\n\\n' || obj_description(c.oid, 'pg_class') || E'\\n\\n| column | type | |\\n|---|---|---|\\n' else '' end
                || '| `' || a.attname || '` | ' || format_type(a.atttypid, a.atttypmod) || ' | ' || col_description(c.oid, a.attnum) || ' |'
                || case when a.attnum = max(a.attnum) over (partition by c.oid) then E'\\n' else '' end
           from pg_class c
           join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
          where c.relnamespace = 'david'::regnamespace and c.relkind = 'v'
          order by c.relname, a.attnum",
    )
    .await
    .join("\n");
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let (begin, end) = ("<!-- generated -->\n", "<!-- /generated -->");
    let (head, rest) = text.split_once(begin).unwrap();
    let (was, tail) = rest.split_once(end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOCUMENT, format!("{head}{begin}{made}{end}{tail}")).unwrap();
        return;
    }
    let differs = was.lines().zip(made.lines()).find(|(was, is)| was != is);
    assert!(
        was == made,
        "docs/views.md is not what the migrations make; first difference: {differs:?}\n\
         regenerate it with UPDATE_DOCS=1 cargo test -p david-schema --test ledger docs_views_md"
    );
}

#[tokio::test]
async fn the_backlog_counts_every_unfinished_row_by_server_and_phase() {
    let fixture = busy().await;
    let backlog = lines(
        &fixture,
        "select concat_ws(' ', registration_id, registration_name, phase, tasks, due, estimated) from david.v_backlog order by 1",
    )
    .await;
    assert_eq!(
        backlog,
        [
            "other other queued 1 1 f",
            "reg reg calling 1 0 f",
            "reg reg cancelling 1 0 f",
            "reg reg input_required 1 0 f"
        ]
    );
}

#[tokio::test]
async fn the_lag_is_that_of_the_rows_that_are_due_by_server_and_in_total() {
    let fixture = Fixture::new().await;
    for n in 0..100 {
        fixture.submit(&format!("{n}"), "a").await;
    }
    fixture
        .sql("update david.mcp_action_tasks set due_at = now() - interval '1 minute' - interval '1 second' * substr(action_id, 5)::int")
        .await;
    fixture.submit("later", "a").await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 minute' where action_id = 'act_later'").await;
    let lag = lines(
        &fixture,
        "select concat_ws(' ', coalesce(registration_id, 'all'), due, extract(epoch from p50)::int, extract(epoch from p99)::int,
                          extract(epoch from oldest)::int, estimated) from david.v_due_lag order by 1",
    )
    .await;
    assert_eq!(lag, ["all 100 109 158 159 f", "reg 100 109 158 159 f"]);
}

/// Estimates are wide of the mark by a few per cent; six times that is allowed here.
#[tokio::test]
async fn what_is_beyond_the_bound_is_estimated_and_said_to_be() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "alter table david.mcp_action_tasks disable trigger all;
             insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id, due_at, leased_by, outcome, finalised_at)
             select 'act_' || n, 'reg', p.phase, case p.phase when 'working' then 'task-' || n end,
                    now() - interval '1 second' * n, case p.phase when 'working' then '00000000-0000-0000-0000-000000000001'::uuid end,
                    case p.phase when 'finalised' then 'succeeded' end, case p.phase when 'finalised' then now() end
               from generate_series(1, 25000) n
              cross join lateral (select case when n = 7 then 'queued' when n % 2 = 0 then 'working' else 'finalised' end as phase) p;
             insert into david.mcp_action_tasks (action_id, registration_id, phase, outcome, finalised_at)
             values ('act_0', 'reg', 'finalised', 'quarantined', now())",
        )
        .await;
    let near = async |query: &str, exact: i64| {
        let estimate = fixture.number(query).await;
        assert!((estimate - exact).abs() * 10 <= exact * 3, "{query}: {estimate} instead of {exact}");
    };
    near("select tasks from david.v_backlog where estimated", 12_500).await;
    near("select due from david.v_backlog where estimated", 12_500).await;
    near("select due from david.v_due_lag where registration_id is null and estimated", 12_500).await;
    near("select extract(epoch from p50)::bigint from david.v_due_lag where registration_id is null", 12_500)
        .await;
    near("select extract(epoch from p99)::bigint from david.v_due_lag where registration_id is null", 24_750)
        .await;
    near("select leases from david.v_leases where estimated", 12_500).await;
    near("select last_hour from david.v_outcomes where estimated", 12_499).await;
    // What is rare is exact all the same.
    assert_eq!(
        lines(&fixture, "select concat_ws(' ', phase, tasks, due) from david.v_backlog where not estimated")
            .await,
        ["queued 1 1"]
    );
    assert_eq!(
        lines(
            &fixture,
            "select concat_ws(' ', outcome, last_hour, last_day) from david.v_outcomes where not estimated"
        )
        .await,
        ["quarantined 1 1"]
    );
    assert_eq!(fixture.number("select extract(epoch from oldest)::bigint / 100 from david.v_due_lag where registration_id is null").await, 250);
}

#[tokio::test]
async fn leases_are_shown_by_replica_with_what_lapsed() {
    let fixture = busy().await;
    fixture.submit("held", "held").await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '5 min' where action_id = 'act_queued'").await;
    fixture.lease_one().await;
    let seen = row(&fixture, "select * from david.v_leases").await;
    assert_eq!(seen.get::<sqlx::types::Uuid, _>("replica"), fixture.replica.0);
    assert_eq!(
        (seen.get::<i64, _>("leases"), seen.get::<i64, _>("calls"), seen.get::<i64, _>("lapsed")),
        (2, 1, 0)
    );
    fixture.let_leases_lapse().await;
    assert_eq!(fixture.number("select lapsed from david.v_leases").await, 2);
}

#[tokio::test]
async fn each_way_to_be_stuck_has_a_reason_and_a_remedy() {
    for (change, reason, remedy) in [
        ("due_at = now() - interval '10 min'", "not_leased", "v_leases"),
        (
            "due_at = now() - interval '10 min', execution_deadline = now() - interval '1 min'",
            "not_leased",
            "v_leases",
        ),
        (
            "phase = 'calling', call_fence = 0, remote_task_id = null, due_at = now() - interval '10 min'",
            "call_lost",
            "Start a replica",
        ),
        ("lapses = 2", "lapsing", "fail_action('act_a'"),
        (
            "lapses = 3, leased_by = gen_random_uuid(), due_at = now() + interval '1 min'",
            "lapsing",
            "fail_action('act_a'",
        ),
        ("attempt = 5, last_error = 'HTTP 500'", "failing", "retry_now('act_a'"),
        ("attempt = 5, phase = 'cancelling', outcome = 'run_cancelled'", "failing", "give_up_cancel('act_a'"),
        ("due_at = now() + interval '2 hours'", "put_off", "retry_now('act_a'"),
    ] {
        let fixture = Fixture::new().await;
        fixture.submit("a", "a").await;
        fixture.track(SECRET).await;
        assert_eq!(
            fixture.number("select count(*) from david.v_stuck").await,
            0,
            "a healthy row is not stuck"
        );
        fixture.sql(&format!("update david.mcp_action_tasks set {change}")).await;
        let seen = row(&fixture, "select reason, explanation, what_to_do from david.v_stuck").await;
        assert_eq!(seen.get::<String, _>("reason"), reason, "{change}");
        assert!(
            seen.get::<String, _>("what_to_do").contains(remedy),
            "{change}: {}",
            seen.get::<String, _>("what_to_do")
        );
        assert!(seen.get::<String, _>("explanation").len() > 20);
    }
}

#[tokio::test]
async fn a_stuck_row_of_a_closed_server_says_who_closed_it() {
    let fixture = Fixture::new().await;
    fixture.submit("a", "a").await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() - interval '10 min'").await;
    fixture.sql("select david.pause_registration('reg', 'it floods us', 'alice')").await;
    let seen = row(&fixture, "select * from david.v_stuck").await;
    assert_eq!(seen.get::<String, _>("reason"), "paused");
    assert!(
        seen.get::<String, _>("explanation").contains("alice")
            && seen.get::<String, _>("explanation").contains("it floods us")
    );
    // What it says to do helps.
    fixture.sql(&seen.get::<String, _>("what_to_do")).await;
    fixture
        .sql("update david.mcp_registration_health set trips = 1, opened_at = now(), open_until = now() + interval '1 min'")
        .await;
    assert_eq!(row(&fixture, "select * from david.v_stuck").await.get::<String, _>("reason"), "server_down");
    assert_eq!(lines(&fixture, "select breaker from david.v_registration_health").await, ["open"]);
    fixture.sql("update david.mcp_registration_health set open_until = now()").await;
    assert_eq!(lines(&fixture, "select breaker from david.v_registration_health").await, ["half_open"]);
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_stuck_after_an_hour() {
    let fixture = busy().await;
    assert_eq!(fixture.number("select count(*) from david.v_stuck").await, 0);
    fixture.sql("update david.mcp_input_requests set created_at = now() - interval '2 hours'").await;
    assert_eq!(
        lines(&fixture, "select action_id || ' ' || reason from david.v_stuck").await,
        ["act_asked unanswered"]
    );
}

#[tokio::test]
async fn outcomes_and_owed_cancels_are_counted() {
    let fixture = busy().await;
    let outcomes =
        "select concat_ws(' ', outcome, last_hour, last_day, estimated) from david.v_outcomes order by 1";
    assert_eq!(lines(&fixture, outcomes).await, ["succeeded 1 1 f"]);
    assert_eq!(
        lines(&fixture, "select concat_ws(' ', action_id, outcome, remote_task like 'sha256:____________', since is not null) from david.v_cancelling").await,
        ["act_cancelled run_cancelled t t"]
    );
    fixture.sql("update david.mcp_action_tasks set due_at = now() where action_id = 'act_queued'").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, fail(&leased, Outcome::CallRejected))).await;
    fixture.sql("update david.mcp_action_tasks set finalised_at = now() - interval '2 hours' where outcome = 'succeeded'").await;
    assert_eq!(lines(&fixture, outcomes).await, ["call_rejected 1 1 f", "succeeded 0 1 f"]);
    fixture.sql("update david.mcp_action_tasks set finalised_at = now() - interval '25 hours' where outcome = 'succeeded'").await;
    assert_eq!(lines(&fixture, outcomes).await, ["call_rejected 1 1 f"]);
}

#[tokio::test]
async fn health_shows_calls_in_flight_also_of_a_server_that_never_had_trouble() {
    let fixture = busy().await;
    fixture.sql("insert into david.mcp_registration_health (registration_id, requests, failures, latency_ms) values ('reg', 10, 1, 5), ('gone', 1, 1, 2)").await;
    assert_eq!(
        lines(&fixture, "select concat_ws(' ', registration_id, registration_name, enabled, breaker, success_rate, calls_in_flight) from david.v_registration_health order by 1").await,
        ["gone closed 0.0000 0", "other other t closed 0", "reg reg t closed 0.9000 1"]
    );
}

#[tokio::test]
async fn the_timeline_tells_what_happened_in_order() {
    let fixture = busy().await;
    assert_eq!(
        lines(&fixture, "select event from david.v_timeline where action_id = 'act_asked' order by position")
            .await,
        ["MCP_TASK_CREATED", "MCP_TASK_INPUT_REQUIRED"]
    );
}

#[tokio::test]
async fn what_keeps_vacuum_back_is_named() {
    let fixture = busy().await;
    let mut old = fixture.db.pool.begin().await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid() from david.runs").fetch_one(&mut *old).await.unwrap();
    sqlx::query("delete from david.tool_outputs").execute(&mut *old).await.unwrap();
    let seen = row(&fixture, "select * from david.v_blockers").await;
    assert_eq!(
        (seen.get::<String, _>("kind"), seen.get::<String, _>("name")),
        ("transaction".to_owned(), pid.to_string())
    );
    assert!(seen.get::<String, _>("what_to_do").contains(&format!("pg_terminate_backend({pid})")));
    old.rollback().await.unwrap();
    assert_eq!(
        fixture
            .number("select count(*) from david.v_table_health where table_name = 'mcp_action_tasks'")
            .await,
        1
    );
}

/// Every view as text, whoever reads it with every right.
#[tokio::test]
async fn no_remote_task_id_argument_or_result_stands_in_any_view() {
    let fixture = busy().await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() where action_id = 'act_asked'").await;
    let asked =
        fixture.lease().await.into_iter().find(|row| row.task.action_id.as_str() == "act_asked").unwrap();
    fixture.commit(write(&asked, retry("no answer"))).await;
    fixture.sql("update david.mcp_action_tasks set attempt = 9 where phase <> 'finalised'").await;
    let views = lines(
        &fixture,
        "select relname::text from pg_class where relnamespace = 'david'::regnamespace and relkind = 'v' and relname <> 'v_blockers'",
    )
    .await;
    assert!(views.len() >= 11, "{views:?}");
    for view in views {
        let seen = lines(&fixture, &format!("select v::text from david.{view} v")).await.join("\n");
        for secret in [SECRET, "argument-0815", "\"42\""] {
            assert!(!seen.contains(secret), "{view} shows {secret}: {seen}");
        }
        assert!(
            view == "v_due_lag" || view == "v_outcomes" || !seen.is_empty(),
            "{view} has nothing to show"
        );
    }
}
