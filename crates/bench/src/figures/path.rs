//! The whole path of an Action, from its lease to its output: F2.

use std::time::Duration;

use serde_json::json;

use crate::bare::Bare;
use crate::process::cpu;
use crate::report::Report;
use crate::stand::{CONCURRENCY, Stand};

/// F2: the whole path, for tools that answer at once and for tasks that are complete already.
pub(crate) async fn whole_path(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let bare = Bare::connect(&stand.url).await?;
    let count = stand.scale.tasks;
    let window = stand.scale.window / 3;
    let (mut calls, mut polls) = (Vec::new(), Vec::new());
    let (mut call_costs, mut poll_costs) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        let bare_calls = Cost::of_bare(stand, window, bare.calls(CONCURRENCY, window)).await?;
        stand.fresh().await?;
        stand.submit("sync", count, None).await?;
        let durable = finalised_per_second(stand, count).await?;
        calls.push(durable.rate / bare_calls.rate);
        call_costs.push(bare_calls.each / durable.each);

        stand.fresh().await?;
        let made = bare.create(vec![json!({ "seconds": 0 }); count], CONCURRENCY).await?;
        let ids: Vec<String> = made.into_iter().map(|(id, _)| id).collect();
        let bare_polls = Cost::of_bare(stand, window, bare.polls(&ids, CONCURRENCY, window)).await?;
        stand.adopt(&ids).await?;
        let durable = finalised_per_second(stand, count).await?;
        polls.push(durable.rate / bare_polls.rate);
        poll_costs.push(bare_polls.each / durable.each);
    }
    report.add("F2", "calls answered at once: Actions ÷ bare calls", "", "≥ 0.45", &calls);
    report.add("F2", "the same by processor time without Postgres", "", "≥ 0.8", &call_costs);
    report.add("F2", "tasks complete already: Actions ÷ bare polls", "", "≥ 0.45", &polls);
    report.add("F2", "the same by processor time without Postgres", "", "≥ 0.8", &poll_costs);
    Ok(())
}

/// How fast something is, and what each costs the client and the server, in seconds of processor.
struct Cost {
    rate: f64,
    each: f64,
}

impl Cost {
    async fn of_bare(
        stand: &Stand,
        window: Duration,
        measured: impl Future<Output = anyhow::Result<f64>>,
    ) -> anyhow::Result<Self> {
        let spent = async || anyhow::Ok(cpu(std::process::id())? + cpu(stand.server_pid())?);
        let before = spent().await?;
        let rate = measured.await?;
        let each = (spent().await? - before).as_secs_f64() / (rate * window.as_secs_f64());
        Ok(Self { rate, each })
    }
}

/// From the first to the last that is finalised: a replica's start is not of the path.
async fn finalised_per_second(stand: &Stand, count: usize) -> anyhow::Result<Cost> {
    let server = cpu(stand.server_pid())?;
    let replica = stand.replica()?;
    stand.until_finalised(count).await?;
    #[expect(clippy::cast_precision_loss, reason = "a count of Actions")]
    let each = (cpu(replica.pid())? + cpu(stand.server_pid())? - server).as_secs_f64() / count as f64;
    stand.stop(vec![replica]).await?;
    let rate = "select count(*)::float8 / extract(epoch from max(finalised_at) - min(finalised_at))::float8
                  from david.mcp_action_tasks";
    Ok(Cost { rate: sqlx::query_scalar(rate).fetch_one(&stand.pool).await?, each })
}
