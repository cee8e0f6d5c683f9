//! What each role may do, and may not. The roles are the cluster's; nothing here creates or drops the four.

use david_schema::{Ledger, ReplicaId, migrate};
use david_testkit::TestDb;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor as _, PgPool};

use crate::support::{Fixture, asks, fail_owing, late, remote, retry, succeed, track, write};
use david_reconciler::{Answer, CancelDebt, InputKey, InputSubject, Outcome, Transition};

/// A pool whose sessions have set this role.
async fn pool_as(db: &TestDb, role: &'static str) -> PgPool {
    PgPoolOptions::new()
        .max_connections(3)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                connection.execute(sqlx::AssertSqlSafe(format!("set role {role}"))).await?;
                Ok(())
            })
        })
        .connect(&db.url)
        .await
        .unwrap()
}

async fn try_as(pool: &PgPool, sql: &str) -> Result<(), String> {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await;
    done.map(|_| ()).map_err(|error| match error.as_database_error().and_then(|error| error.code()) {
        Some(code) => code.into_owned(),
        None => error.to_string(),
    })
}

/// Each statement works, or is refused for want of a right: nothing between.
async fn check(role: &'static str, fixture: &Fixture, may: &[&str], may_not: &[&str]) {
    let pool = pool_as(&fixture.db, role).await;
    for sql in may {
        assert_eq!(try_as(&pool, sql).await, Ok(()), "{role} must be able to: {sql}");
    }
    for sql in may_not {
        assert_eq!(try_as(&pool, sql).await, Err("42501".to_owned()), "{role} must not be able to: {sql}");
    }
}

/// `act_asked` waits for an answer, `act_b` works.
async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.submit("asked", "asked").await;
    fixture.track("remote-secret").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, asks(InputSubject::Task(remote("remote-secret")), 1, &["q"]))).await;
    fixture.sql("update david.mcp_action_tasks set due_at = now() + interval '1 hour', last_error = 'what the server said'").await;
    fixture.submit("b", "b").await;
    fixture.track("other-secret").await;
    fixture
}

const VIEWS: &[&str] = &[
    "v_backlog",
    "v_due_lag",
    "v_leases",
    "v_stuck",
    "v_registration_health",
    "v_outcomes",
    "v_cancelling",
    "v_action",
    "v_timeline",
    "v_blockers",
    "v_table_health",
];

#[tokio::test]
async fn core_submits_cancels_answers_and_takes_and_touches_no_lease() {
    let fixture = fixture().await;
    check(
        "david_core",
        &fixture,
        &[
            "insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key) values ('r2', 'user', 'r2', 'https://h/', 'https://h/', 'r2')",
            "insert into david.runs (id, user_id) values ('run_1', 'user')",
            "select david.submit_action('act_1', 'run_1', 'reg', 'tool', 'tool', '{}')",
            "select david.submit_action('act_1', 'run_1', 'reg', 'tool', 'tool', '{}')",
            "select david.submit_action('act_2', 'run_1', 'reg', 'tool', 'tool', '{}', p_remote_task_id => 'adopted')",
            // Plain inserts, as a Core may do.
            "insert into david.actions (id, run_id, tool_name) values ('act_3', 'run_1', 'tool') on conflict (id) do nothing;
             insert into david.mcp_action_calls (action_id, remote_tool_name, arguments) values ('act_3', 'tool', '{}') on conflict (action_id) do nothing;
             insert into david.mcp_action_tasks (action_id, registration_id) values ('act_3', 'reg') on conflict (action_id) do nothing",
            "insert into david.actions (id, run_id, tool_name) values ('act_4', 'run_1', 'tool');
             insert into david.mcp_action_tasks (action_id, registration_id, phase, remote_task_id) values ('act_4', 'reg', 'working', 'mine') returning id",
            "select * from david.v_input_required",
            "select david.answer_input('act_asked', 'q', '{}')",
            "update david.runs set status = 'cancelled', cancelled_at = now() where id = 'run_1'",
            "select david.cancel_run('run_asked')",
            "update david.actions set is_processed = true",
            "select * from david.actions join david.tool_outputs o on o.action_id = actions.id",
            "select phase, outcome from david.mcp_action_tasks",
            "select * from david.take_outputs(10)",
            "select * from david.v_action, david.v_stuck, david.v_registration_health, david.v_timeline",
            "select david.ack_outputs(array['act_1'])",
            "update david.mcp_server_registrations set enabled = false where id = 'r2'",
            "delete from david.mcp_server_registrations where id = 'r2'",
            "delete from david.runs where id = 'run_1'",
        ],
        &[
            "select remote_task_id from david.mcp_action_tasks",
            "select remote_task_key from david.mcp_action_tasks",
            "select * from david.mcp_action_tasks",
            "update david.mcp_action_tasks set due_at = now()",
            "update david.mcp_action_tasks set fence = fence + 1",
            "delete from david.mcp_action_tasks",
            "insert into david.mcp_action_tasks (action_id, registration_id, fence) values ('act_5', 'reg', 7)",
            "update david.tool_outputs set acknowledged_at = now()",
            "insert into david.tool_outputs (action_id, outcome, is_error, envelope) values ('act_b', 'succeeded', false, '{}')",
            "update david.actions set pruned_at = now()",
            "insert into david.mcp_task_events (task_id, action_id, run_id, registration_id, event, transition, phase, fence) values (1, '', '', '', '', '', '', 1)",
            "update david.mcp_input_requests set state = 'sent'",
            "update david.mcp_registration_health set paused_at = null",
            "select david.pause_registration('reg', 'why')",
            "select david.retry_now('act_b', 'why')",
            "select david.fail_action('act_b', 'why')",
            "select david.prune(interval '1 day')",
            "select david.cancel_actions_of_run('run_b')",
            "select david.wake_workers()",
            "select david.set_up_roles()",
            "select * from david.mcp_operator_log",
            "create table david.mine (id int)",
        ],
    )
    .await;
    assert_eq!(fixture.row("b").await.phase, "working");
}

#[tokio::test]
async fn an_operator_looks_and_acts_but_reads_no_argument_result_or_id() {
    let fixture = fixture().await;
    let mut may: Vec<String> = VIEWS.iter().map(|view| format!("select * from david.{view}")).collect();
    may.extend(
        [
            "select * from david.v_input_required",
            "select * from david.mcp_operator_log",
            "select david.pause_registration('reg', 'why')",
            "select david.resume_registration('reg', 'why')",
            "select david.retry_now('act_asked', 'why')",
            "select david.release_leases(gen_random_uuid(), 'why')",
            "select david.fail_action('act_b', 'why')",
            "select david.give_up_cancel('act_b', 'why')",
            "select david.prune(interval '1 day')",
            "select david.cancel_run('run_asked', 'why', 'alice')",
        ]
        .map(str::to_owned),
    );
    check(
        "david_operator",
        &fixture,
        &may.iter().map(String::as_str).collect::<Vec<_>>(),
        &[
            "select * from david.mcp_action_tasks",
            "select arguments from david.mcp_action_calls",
            "select function_args from david.actions",
            "select envelope from david.tool_outputs",
            "select response from david.mcp_input_requests",
            "select user_id from david.runs",
            "select status from david.runs",
            "update david.runs set user_id = 'me'",
            "update david.runs set status = 'running', cancelled_at = null",
            "select david.cancel_run('run_b')",
            "update david.mcp_action_tasks set due_at = now()",
            "delete from david.mcp_operator_log",
            "update david.mcp_operator_log set reason = 'another'",
            "insert into david.mcp_operator_log (function, reason, rows_changed) values ('x', 'x', 1)",
            "delete from david.mcp_task_events",
            "select david.answer_input('act_asked', 'q', '{}')",
            "select david.take_outputs(1)",
            "select david.submit_action('act_1', 'run_b', 'reg', 'tool', 'tool')",
            "select david.hold_action('act_b')",
            "select david.note('x', null, 'x', 1)",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_viewer_sees_views_and_nothing_of_what_servers_say_or_ask() {
    let fixture = fixture().await;
    fixture.sql("update david.mcp_action_tasks set attempt = 9; update david.mcp_task_events set detail = 'what the server said';
                 insert into david.mcp_registration_health (registration_id, last_error) values ('reg', 'what the server said')").await;
    let may: Vec<String> = VIEWS.iter().map(|view| format!("select * from david.{view}")).collect();
    let mut may: Vec<&str> = may.iter().map(String::as_str).collect();
    may.push("select action_id, tool_name, state, asked_at from david.v_input_required");
    check(
        "david_viewer",
        &fixture,
        &may,
        &[
            "select * from david.v_input_required",
            "select request from david.v_input_required",
            "select * from david.mcp_action_tasks",
            "select * from david.mcp_action_calls",
            "select * from david.actions",
            "select * from david.runs",
            "select * from david.tool_outputs",
            "select * from david.mcp_input_requests",
            "select * from david.mcp_task_events",
            "select * from david.mcp_operator_log",
            "select * from david.mcp_registration_health",
            "select url from david.mcp_server_registrations",
            "select david.pause_registration('reg', 'why')",
            "select david.retry_now('act_b', 'why')",
            "select david.fail_action('act_b', 'why')",
            "select david.prune(interval '1 day')",
            "select david.cancel_run('run_b')",
            "select david.wake_workers()",
            "select david.lanes()",
            "select david.cancel_run('run_b', 'why')",
        ],
    )
    .await;

    // Whoever may call what a view stands on needs no view.
    let words: Vec<String> = sqlx::query_scalar(
        "select p.oid::regprocedure || ' ' || name
           from pg_proc p cross join unnest(p.proargnames) name
          where p.pronamespace = 'david'::regnamespace and name in ('last_error', 'detail', 'request', 'arguments', 'remote_task_id')
            and has_function_privilege('david_viewer', p.oid, 'execute')",
    )
    .fetch_all(&fixture.db.pool)
    .await
    .unwrap();
    assert!(words.is_empty(), "{words:?}");

    for (role, sees) in [("david_viewer", false), ("david_operator", true), ("david_worker", true)] {
        let pool = pool_as(&fixture.db, role).await;
        for view in VIEWS {
            let all = format!("select coalesce(string_agg(v::text, ' '), '') from david.{view} v");
            let seen: String = sqlx::query_scalar(sqlx::AssertSqlSafe(all)).fetch_one(&pool).await.unwrap();
            let shows = ["v_stuck", "v_action", "v_timeline", "v_registration_health"].contains(view);
            assert_eq!(seen.contains("what the server said"), sees && shows, "{role} {view}: {seen}");
        }
    }
}

#[tokio::test]
async fn a_leaky_function_of_a_reader_sees_no_row_that_its_view_hides() {
    let fixture = fixture().await;
    fixture.sql("update david.mcp_input_requests set key = 'hidden-key'; update david.mcp_input_requests set state = 'sent', response = '{}', answered_at = now(), sent_at = now()").await;
    let peek = "create function pg_temp.peek(text) returns boolean language plpgsql cost 0.0001 as $$ begin if $1 like 'hidden%' then raise exception 'seen' using errcode = 'P0999'; end if; return true; end $$;";
    let mut connection = fixture.db.pool.acquire().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("set role david_core; {peek}")))
        .execute(&mut *connection)
        .await
        .unwrap();
    let hidden = sqlx::raw_sql("select * from david.v_input_required where pg_temp.peek(key)")
        .execute(&mut *connection)
        .await;
    sqlx::raw_sql("reset role").execute(&mut *connection).await.unwrap();
    hidden.unwrap();
}

#[tokio::test]
async fn the_worker_does_all_it_does_as_david_worker() {
    let mut fixture = Fixture::new().await;
    let pool = pool_as(&fixture.db, "david_worker").await;
    fixture.ledger = Ledger::from_pool(pool.clone());
    david_schema::check_level(&fixture.ledger).await.unwrap();

    fixture.submit("a", "a").await;
    fixture.track("t-1").await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, asks(InputSubject::Task(remote("t-1")), 1, &["q"]))).await;
    fixture.sql("select david.answer_input('act_a', 'q', '{}')").await;
    let leased = fixture.lease_one().await;
    let answers = vec![Answer { key: InputKey::new("q"), response: serde_json::json!({}) }];
    fixture.commit(write(&leased, Transition::SendAnswers { answers })).await;
    let sent = Transition::AnswersSent { keys: vec![InputKey::new("q")], delay: std::time::Duration::ZERO };
    fixture.commit(write(&leased, sent)).await;
    assert_eq!(fixture.number("select count(*) from david.mcp_input_requests where state = 'sent'").await, 1);
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, fail_owing(&leased, Outcome::DeadlineExceeded, CancelDebt::Owed))).await;
    let owing = fixture.lease_one().await;
    fixture.commit(write(&owing, Transition::SettleCancel { reason: "done".to_owned() })).await;
    assert_eq!(fixture.row("a").await.phase, "finalised");

    // A cancel that its canceller did not see through, repaired by a commit.
    fixture.submit("b", "b").await;
    let calling = fixture.begin_call().await;
    fixture
        .sql(
            "alter table david.runs disable trigger cancel_actions_with_run;
             update david.runs set status = 'cancelled' where id = 'run_b';
             alter table david.runs enable always trigger cancel_actions_with_run",
        )
        .await;
    fixture.commit(late(&calling, succeed(&calling))).await;
    assert_eq!(fixture.row("b").await.outcome.as_deref(), Some("run_cancelled"));

    // Asked before a task exists: the call's opaque state is kept.
    fixture.submit("c", "c").await;
    let calling = fixture.begin_call().await;
    fixture.commit(late(&calling, asks(InputSubject::Call { request_state: None }, 1, &["q"]))).await;
    let leased = fixture.lease_one().await;
    fixture.commit(write(&leased, retry("x"))).await;

    fixture.submit("d", "d").await;
    let leased = fixture.lease_one().await;
    fixture.ledger.release(&[(leased.task.id, leased.task.fence)]).await.unwrap();
    fixture.sql("update david.mcp_action_tasks set lapses = 2 where action_id = 'act_d'").await;
    assert!(fixture.ledger.suspect_due(&[]).await.unwrap());
    let suspects = fixture.ledger.lease_suspect(ReplicaId::new(), &[], crate::support::TERM).await.unwrap();
    assert_eq!(suspects.rows.len(), 1);
    fixture.ledger.registrations(std::slice::from_ref(&leased.task.registration_id)).await.unwrap();
    fixture.ledger.notify("progress", &["x".to_owned()]).await.unwrap();
    let Transition::Track { remote, .. } = track("nobody's") else { unreachable!() };
    assert!(fixture.ledger.may_cancel(&leased.task.registration_id, &remote.id).await.unwrap());
}

/// Plans and begins every statement of a folder of sql/ with a role's rights, and runs none.
async fn every_statement_may_be_run(folder: &str, role: &'static str, spared: &[&str]) -> usize {
    let fixture = Fixture::new().await;
    let pool = pool_as(&fixture.db, role).await;
    let mut checked = 0;
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql")).join(folder);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || spared.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let sql = std::fs::read_to_string(&path).unwrap();
        let statement: String =
            sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        if statement.trim_start().starts_with("set local") {
            continue;
        }
        // What sqlx says about types is no part of a statement's rights.
        let mut connection = pool.acquire().await.unwrap();
        let explained = async {
            connection.execute("deallocate all").await?;
            connection.execute(sqlx::AssertSqlSafe(format!("prepare statement as {statement}"))).await?;
            let parameters: i32 = sqlx::query_scalar(
                "select coalesce(array_length(parameter_types, 1), 0) from pg_prepared_statements where name = 'statement'",
            )
            .persistent(false)
            .fetch_one(&mut *connection)
            .await?;
            let nulls = if parameters == 0 {
                String::new()
            } else {
                format!("({})", vec!["null"; parameters as usize].join(", "))
            };
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("explain execute statement{nulls}")))
                .execute(&mut *connection)
                .await?;
            Ok::<_, sqlx::Error>(())
        };
        if let Err(error) = explained.await {
            panic!("{}: {error}", path.display());
        }
        checked += 1;
    }
    checked
}

/// Also those that no test above happens to run.
#[tokio::test]
async fn every_statement_in_sql_may_be_run_by_david_worker() {
    let checked = every_statement_may_be_run("", "david_worker", &[]).await;
    assert!(checked >= 20, "only {checked} statements; is the search broken?");
}

/// All that the commands do, but for showing results, which are Core's.
#[tokio::test]
async fn every_statement_of_the_operators_commands_may_be_run_by_david_operator() {
    let checked = every_statement_may_be_run("operate", "david_operator", &["result.sql"]).await;
    assert!(checked >= 20, "only {checked} statements; is the search broken?");
}

/// `doctor` asks for these one by one; a right that is granted and not asked for would not be missed.
#[tokio::test]
async fn the_rights_that_doctor_expects_are_those_that_are_granted() {
    use david_schema::operate::{Expected, rights_of};
    let fixture = Fixture::new().await;
    for (expected, role) in [(Expected::Worker, "david_worker"), (Expected::Operator, "david_operator")] {
        let granted: Vec<(String, String, String)> = sqlx::query_as(
            "select lower(a.privilege_type), 'david', ''
               from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'david' and a.grantee = $1::regrole
             union
             select lower(a.privilege_type), 'david.' || c.relname, ''
               from pg_class c, aclexplode(c.relacl) a
              where c.relnamespace = 'david'::regnamespace and a.grantee = $1::regrole
             union
             select lower(a.privilege_type), 'david.' || c.relname, t.attname::text
               from pg_class c join pg_attribute t on t.attrelid = c.oid, aclexplode(t.attacl) a
              where c.relnamespace = 'david'::regnamespace and a.grantee = $1::regrole
             union
             select lower(a.privilege_type), p.oid::regprocedure::text, ''
               from pg_proc p, aclexplode(p.proacl) a
              where p.pronamespace = 'david'::regnamespace and a.grantee = $1::regrole",
        )
        .bind(role)
        .fetch_all(&fixture.db.pool)
        .await
        .unwrap();
        let mut granted: Vec<String> = granted
            .into_iter()
            .map(|(privilege, object, column)| {
                format!("{privilege}\t{object}\t{column}").trim_end().to_owned()
            })
            .collect();
        granted.sort();
        let mut known: Vec<String> = rights_of(expected)
            .into_iter()
            .map(|right| {
                format!("{}\t{}\t{}", right.privilege, right.object, right.column).trim_end().to_owned()
            })
            .collect();
        known.sort();
        assert_eq!(known, granted, "write them into crates/schema/src/operate/rights/ for {role}");
    }
}

#[tokio::test]
async fn the_worker_may_apply_retention_and_not_submit_cancel_or_delete() {
    let fixture = fixture().await;
    check(
        "david_worker",
        &fixture,
        &[
            "select * from david.v_stuck",
            "select * from david.v_input_required",
            "select david.apply_retention(interval '1 day', 10)",
        ],
        &[
            "insert into david.runs (id, user_id) values ('x', 'x')",
            "update david.runs set status = 'cancelled'",
            "delete from david.runs",
            "insert into david.mcp_action_tasks (action_id, registration_id) values ('act_b', 'reg')",
            "delete from david.mcp_action_tasks",
            "update david.mcp_action_tasks set action_id = 'act_x'",
            "update david.mcp_action_calls set arguments = '{}'",
            "update david.mcp_server_registrations set enabled = true",
            "update david.tool_outputs set envelope = '{}'",
            "update david.mcp_input_requests set response = '{}'",
            "delete from david.mcp_task_events",
            "select david.fail_action('act_b', 'why')",
            "select david.cancel_run('run_b')",
            "select david.cancel_run('run_b', 'why')",
            "select david.prune(interval '1 day', 10, 'all')",
            "select david.prune_batch(now(), 10, 'all')",
        ],
    )
    .await;
}

#[tokio::test]
async fn nobody_else_may_do_anything() {
    let fixture = fixture().await;
    let open: Vec<String> = sqlx::query_scalar(
        "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'david'::regnamespace and has_function_privilege('public', p.oid, 'execute')
         union all
         select c.relname::text from pg_class c where c.relnamespace = 'david'::regnamespace and c.relkind in ('r', 'v', 'S') and c.relname <> '_sqlx_migrations'
            and has_table_privilege('public', c.oid, 'select, insert, update, delete')
         union all
         select 'schema' where has_schema_privilege('public', 'david', 'usage, create')",
    )
    .fetch_all(&fixture.db.pool)
    .await
    .unwrap();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn an_owner_who_may_not_create_roles_migrates_and_is_told_what_is_missing() {
    let db = TestDb::empty().await.unwrap();
    let owner = format!("owner_{}", db.name());
    let admin = &db.pool;
    let create =
        format!("create role {owner} login; grant create, connect on database {} to {owner}", db.name());
    sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(admin).await.unwrap();
    let options = (*db.pool.connect_options()).clone().username(&owner);
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.unwrap();

    let migrated = migrate(&pool).await;
    let missing: Result<Vec<String>, _> =
        sqlx::query_scalar("select * from david.set_up_roles('nobody_has_')").fetch_all(&pool).await;
    pool.close().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("drop owned by {owner} cascade; drop role {owner}")))
        .execute(admin)
        .await
        .unwrap();

    assert!(migrated.unwrap().applied > 0);
    let kinds = ["core", "worker", "operator", "viewer"].map(|kind| format!("nobody_has_{kind}"));
    assert_eq!(missing.unwrap(), kinds);
}

#[tokio::test]
async fn roles_may_be_set_up_again_and_by_several_at_once() {
    let (one, two) = tokio::join!(Fixture::new(), Fixture::new());
    let set_up = "select david.set_up_roles()";
    let (first, second) = tokio::join!(one.try_sql(set_up), two.try_sql(set_up));
    first.unwrap();
    second.unwrap();

    let prefix = format!("p{}_", &one.db.name()[one.db.name().len() - 8..]);
    let (first, second) =
        (format!("select david.set_up_roles('{prefix}')"), format!("select david.set_up_roles('{prefix}')"));
    let (first, second) = tokio::join!(one.try_sql(&first), two.try_sql(&second));
    for fixture in [&one, &two] {
        let drop: Vec<String> = ["core", "worker", "operator", "viewer"]
            .iter()
            .map(|kind| format!("drop owned by {prefix}{kind}"))
            .collect();
        fixture.sql(&drop.join("; ")).await;
    }
    let drop: Vec<String> = ["core", "worker", "operator", "viewer"]
        .iter()
        .map(|kind| format!("drop role {prefix}{kind}"))
        .collect();
    one.sql(&drop.join("; ")).await;
    first.unwrap();
    second.unwrap();
}
