//! F1: lease and finalise without any server, beside other queues that do as good as nothing.

use std::time::Instant;

use anyhow::ensure;
use david_reconciler::{CancelDebt, Envelope, Finish, Outcome, ToolResult, Transition, Verdict};
use david_schema::{Due, Leased, ReplicaId};
use serde_json::json;
use tokio::task::JoinSet;

use super::TERM;
use super::database::Database;
use super::peers::Peer;
use super::sides::commit;
use super::tools::Tools;
use crate::report::Report;
use crate::stand::Stand;

/// What the worker's committer writes at most in one transaction.
const BATCH: u32 = 200;

/// Batches under way at the same time.
const REPLICAS: usize = 4;

/// F1, all of it.
pub(crate) async fn whole(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let tools = Tools::new(stand).await?;
    let database = Database::create(stand, "bench_whole", 8).await?;
    let mut ours = Vec::new();
    let mut theirs = Peer::ALL.map(|_| Ok(Vec::new()));
    for _ in 0..stand.scale.repeats {
        ours.push(rate(&database, i64::try_from(stand.scale.jobs)?).await?);
        for (peer, rates) in Peer::ALL.into_iter().zip(&mut theirs) {
            if let Ok(so_far) = rates {
                match peer.rate(stand, &tools).await {
                    Ok(rate) => so_far.push(rate),
                    Err(error) => *rates = Err(format!("{error:#}")),
                }
            }
        }
    }
    database.drop(stand).await?;
    report.add("F1", "lease and finalise: Actions with output, event and task", "/s", "", &ours);
    for (peer, rates) in Peer::ALL.into_iter().zip(theirs) {
        let (name, ratio, target) = match peer {
            Peer::PgBoss => ("pg-boss: jobs", "ours ÷ pg-boss", "≥ 1.0"),
            Peer::GraphileWorker => ("graphile-worker: jobs", "ours ÷ graphile-worker", "≥ 0.5"),
            Peer::Pgmq => ("pgmq: messages", "ours ÷ pgmq", "≥ 1.0"),
            Peer::Procrastinate => ("procrastinate: jobs", "ours ÷ procrastinate", "≥ 1.0"),
        };
        match rates {
            Ok(rates) => {
                let ratios: Vec<f64> = ours.iter().zip(&rates).map(|(ours, theirs)| ours / theirs).collect();
                report.add("F1", ratio, "", target, &ratios);
                report.add("F1", name, "/s", "", &rates);
            }
            Err(why) => report.missing("F1", ratio, target, why),
        }
    }
    Ok(())
}

/// Actions per second, from the first lease to the last commit.
async fn rate(database: &Database, count: i64) -> anyhow::Result<f64> {
    database.fill(count, 1).await?;
    let began = Instant::now();
    let mut replicas = JoinSet::new();
    for _ in 0..REPLICAS {
        let ledger = database.ledger.clone();
        replicas.spawn(async move {
            let replica = ReplicaId::new();
            loop {
                let due = Due { limit: BATCH, cancels: BATCH, from: None };
                let batch = ledger.lease_due(replica, due, TERM).await?;
                if batch.is_empty() {
                    return anyhow::Ok(());
                }
                commit(&ledger, replica, batch.rows, |leased| Ok(succeed(leased))).await?;
            }
        });
    }
    while let Some(replica) = replicas.join_next().await {
        replica??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let ended = "select count(*) from david.mcp_action_tasks where phase = 'finalised'";
    let ended: i64 = sqlx::query_scalar(ended).fetch_one(&database.pool).await?;
    ensure!(ended == count, "{ended} of {count} Actions have ended");
    #[expect(clippy::cast_precision_loss, reason = "a count of Actions")]
    Ok(count as f64 / seconds)
}

fn succeed(leased: &Leased) -> Transition {
    let result = ToolResult {
        content: vec![json!({ "type": "text", "text": "done" })],
        structured_content: None,
        verdict: Verdict::Success,
    };
    Transition::Finish(Finish {
        outcome: Outcome::Succeeded,
        envelope: Envelope::of_result(&leased.task.action_id, &leased.call, &result),
        debt: CancelDebt::None,
        reason: None,
    })
}
