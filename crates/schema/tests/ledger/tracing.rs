//! A trace context goes from Core into the row and comes out with every lease.

use david_schema::TraceContext;

use crate::support::Fixture;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

async fn submitted(traceparent: &str, tracestate: &str) -> Option<TraceContext> {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    sqlx::query(
        "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', p_traceparent => $1, p_tracestate => $2)",
    )
    .bind(traceparent)
    .bind(tracestate)
    .execute(&fixture.db.pool)
    .await
    .unwrap();
    fixture.lease_one().await.trace.clone()
}

#[tokio::test]
async fn a_trace_context_comes_out_of_the_row_as_it_went_in() {
    let longest = format!("v={}", "x".repeat(510));
    for state in ["vendor=1,other=a b", &longest] {
        let trace = submitted(PARENT, state).await.unwrap();
        assert_eq!((&*trace.traceparent, trace.tracestate.as_deref()), (PARENT, Some(state)));
    }
}

#[tokio::test]
async fn a_header_that_is_no_trace_context_begins_no_trace_and_does_not_stop_the_work() {
    for none in [
        "",
        "garbage",
        "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01\n",
    ] {
        assert_eq!(submitted(none, "vendor=1").await, None, "{none:?}");
    }
    for none in ["", "vendor=\u{7f}", "vendor=\u{e9}", "two\nlines", &"x".repeat(513)] {
        let trace = submitted(PARENT, none).await.unwrap();
        assert_eq!((&*trace.traceparent, trace.tracestate), (PARENT, None), "{none:?}");
    }
}

#[tokio::test]
async fn a_submission_that_is_repeated_in_another_trace_is_the_same_submission() {
    let fixture = Fixture::new().await;
    fixture.sql("insert into david.runs (id, user_id) values ('run_a', 'user')").await;
    let other = PARENT.replace("0af7", "1af7");
    for parent in [PARENT, &other] {
        fixture
            .sql(&format!(
                "select david.submit_action('act_a', 'run_a', 'reg', 'tool', 'tool', p_traceparent => '{parent}')"
            ))
            .await;
    }
    assert_eq!(fixture.lease_one().await.trace.as_ref().map(|trace| &*trace.traceparent), Some(PARENT));
}
