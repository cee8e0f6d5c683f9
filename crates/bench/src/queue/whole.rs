//! F1: an Action's way through the database, without any server: leased and finalised, beside job queues that
//! claim and complete jobs that do nothing, on the same Postgres in the same run.

use std::time::Instant;

use anyhow::ensure;
use david_reconciler::{CancelDebt, Envelope, Finish, Outcome, ToolResult, Transition, Verdict};
use david_schema::{Due, Leased, ReplicaId};
use serde_json::json;
use tokio::time::Instant as Clock;

use crate::report::Report;
use crate::stand::Stand;

use super::TERM;
use super::database::Database;
use super::peers::{PEERS, Peer};
use super::sides::commit;
use super::tools::Tools;
use super::watermark::Watermark;

/// What the committer makes of whatever has gathered, at most.
const BATCH: u32 = 200;

/// Loops of lease and commit. A replica overlaps the two likewise.
const LOOPS: u32 = 3;

/// Each writes task, Action, output and event; a peer's job is a row that is claimed and done.
pub(crate) async fn whole(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let tools = Tools::install(stand.target()?).await?;
    let (mut rates, mut alone) = (Vec::new(), Vec::new());
    let mut peers: Vec<(&Peer, anyhow::Result<Vec<f64>>)> =
        PEERS.iter().map(|peer| (peer, Ok(Vec::new()))).collect();
    for _ in 0..stand.scale.repeats {
        let (rate, share) = finalised_per_second(stand).await?;
        rates.push(rate);
        alone.push(share * 100.0);
        for (peer, measured) in &mut peers {
            if let Ok(of_peer) = measured {
                match peer.jobs_per_second(stand, &tools).await {
                    Ok(rate) => of_peer.push(rate),
                    // It is not ours to mend, and the others go on.
                    Err(error) => *measured = Err(error),
                }
            }
        }
    }
    report.add("F1", "leased and finalised: Actions", "/s", "", &rates);
    report.add("F1", "leased and finalised: committed alone, somebody held the row", "%", "", &alone);
    for (peer, measured) in peers {
        match measured {
            Ok(of_peer) => {
                let ratios: Vec<f64> =
                    rates.iter().zip(&of_peer).map(|(ours, theirs)| ours / theirs).collect();
                report.add("F1", peer.ratio, "", peer.target, &ratios);
                report.add("F1", peer.jobs, "/s", "", &of_peer);
            }
            Err(error) => report.missing("F1", peer.ratio, peer.target, format!("{error:#}")),
        }
    }
    Ok(())
}

/// The rate, and the share that could not be committed in its batch.
async fn finalised_per_second(stand: &Stand) -> anyhow::Result<(f64, f64)> {
    let database = Database::create(stand, "bench_whole", LOOPS).await?;
    let count = stand.scale.jobs / 4;
    database.fill(i64::try_from(count)?, 1).await?;
    let began = Instant::now();
    let loops = (0..LOOPS).map(async |_| {
        let (replica, mut mark) = (ReplicaId::new(), Watermark::new(Clock::now()));
        let (mut rows, mut alone) = (0, 0);
        loop {
            let from = mark.from(Clock::now());
            let due = Due { limit: BATCH, cancels: BATCH, from };
            let batch = database.ledger.lease_due(replica, due, TERM).await?;
            if batch.is_empty() && from.is_none() {
                return anyhow::Ok((rows, alone));
            }
            mark.learn(&batch, batch.len() >= BATCH as usize);
            rows += batch.len();
            alone += commit(&database.ledger, replica, batch.rows, |leased| Ok(succeed(leased))).await?;
        }
    });
    let of_loops = futures::future::try_join_all(loops).await?;
    let time = began.elapsed().as_secs_f64();
    let (rows, alone) =
        of_loops.into_iter().fold((0, 0), |sum, of_loop| (sum.0 + of_loop.0, sum.1 + of_loop.1));
    let written: i64 = sqlx::query_scalar(
        "select count(*)
           from david.mcp_action_tasks t
           join david.actions a on a.id = t.action_id and a.status = 'completed'
           join david.tool_outputs o on o.action_id = t.action_id
           join david.mcp_task_events e on e.action_id = t.action_id and e.event = 'MCP_TASK_COMPLETED'
          where t.phase = 'finalised'",
    )
    .fetch_one(&database.pool)
    .await?;
    ensure!(rows == count && usize::try_from(written) == Ok(count), "{written} of {count} were written");
    database.drop(stand).await?;
    #[expect(clippy::cast_precision_loss, reason = "a count of Actions")]
    Ok((count as f64 / time, alone as f64 / count as f64))
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
