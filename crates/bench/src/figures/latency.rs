//! How soon something is seen to: G (its second half), L, M, N.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::bare::Bare;
use crate::report::Report;
use crate::stand::{CONCURRENCY, Stand};

use super::{FOR_EVER, working};

/// M: cancels under the load of A.
pub(crate) async fn cancel(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let bare = Bare::connect(&stand.url).await?;
    let (mut halves, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        let ids = working(stand, &bare).await?;
        let replica = stand.replica()?;
        stand.until_polled(&ids, &stand.gets().await?).await?;
        for number in 1..=200 {
            sqlx::query(
                "update david.runs set status = 'cancelled', cancelled_at = clock_timestamp() where id = $1",
            )
            .bind(format!("run_{number}"))
            .execute(&stand.pool)
            .await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stand.until_finalised(200).await?;
        let quantiles = "select (percentile_cont(array[0.5, 0.99]) within group (order by
                                extract(epoch from e.at - r.cancelled_at)::float8 * 1000))::float8[]
                           from david.mcp_task_events e join david.runs r on r.id = e.run_id
                          where e.event = 'MCP_TASK_CANCELLED'";
        let quantiles: Vec<f64> = sqlx::query_scalar(quantiles).fetch_one(&stand.pool).await?;
        halves.push(*quantiles.first().context("no median")?);
        tails.push(*quantiles.last().context("no tail")?);
        stand.stop(vec![replica]).await?;
    }
    report.add("M", "cancel → acknowledged by the server and written, p50", "ms", "", &halves);
    report.add("M", "cancel → acknowledged by the server and written, p99", "ms", "≤ 250", &tails);
    Ok(())
}

/// L: tasks that complete among many that work, about as many as this machine can poll every second.
pub(crate) async fn completion(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let bare = Bare::connect(&stand.url).await?;
    let (mut halves, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        stand.fresh().await?;
        // One in ten completes, at some time that no poll knows of.
        let lead = 25.0;
        let lives: Vec<Option<f64>> = (0..stand.scale.tasks / 2)
            .map(|n| (n % 10 == 0).then(|| lead + fastrand::f64() * 15.0))
            .collect();
        let arguments =
            lives.iter().map(|life| json!({ "seconds": life.unwrap_or(f64::from(FOR_EVER)) })).collect();
        let made = bare.create(arguments, CONCURRENCY).await?;
        let ids: Vec<String> = made.iter().map(|(id, _)| id.clone()).collect();
        stand.adopt(&ids).await?;
        let replica = stand.replica()?;
        stand.until_finalised(lives.iter().flatten().count()).await?;
        let ended: Vec<(String, f64)> = sqlx::query_as(
            "select remote_task_id, extract(epoch from finalised_at)::float8
               from david.mcp_action_tasks where outcome = 'succeeded'",
        )
        .fetch_all(&stand.pool)
        .await?;
        let ended: BTreeMap<String, f64> = ended.into_iter().collect();
        let mut late = Vec::new();
        for ((id, made), life) in made.iter().zip(&lives) {
            if let (Some(life), Some(ended)) = (life, ended.get(id)) {
                let made = made.duration_since(std::time::UNIX_EPOCH)?.as_secs_f64();
                late.push((ended - (made + life)) * 1000.0);
            }
        }
        late.sort_by(f64::total_cmp);
        halves.push(*late.get(late.len() / 2).context("nothing completed")?);
        tails.push(*late.get(late.len() * 99 / 100).context("nothing completed")?);
        stand.stop(vec![replica]).await?;
    }
    report.add("L", "remote completion → Action finalised, p50", "ms", "", &halves);
    report.add("L", "remote completion → Action finalised, p99", "ms", "≤ 1100", &tails);
    Ok(())
}

/// G, second half: how soon an idle fleet sees to an Action that is inserted.
pub(crate) async fn wake_up(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let (mut halves, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        stand.fresh().await?;
        let replicas = vec![stand.replica()?, stand.replica()?];
        stand.one_by_one("reg", 200, Duration::from_millis(60)).await?;
        let (half, tail) = stand.inserted_to_finalised("reg").await?;
        halves.push(half);
        tails.push(tail);
        stand.stop(replicas).await?;
    }
    report.add("G", "insert → called and its result written, two idle replicas, p50", "ms", "", &halves);
    report.add("G", "insert → called and its result written, two idle replicas, p99", "ms", "≤ 50", &tails);
    Ok(())
}

/// N: very many rows on a server that accepts connections and never answers, a few on a healthy one.
pub(crate) async fn dead_server(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", silent.local_addr()?);
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            open.push(connection);
        }
    });
    let (mut halves, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        stand.fresh().await?;
        stand.register("silent", &url).await?;
        stand.work_on("silent", stand.scale.tasks * 5).await?;
        let replica = stand.replica()?;
        stand.one_by_one("reg", 100, Duration::from_millis(300)).await?;
        let (half, tail) = stand.inserted_to_finalised("reg").await?;
        halves.push(half);
        tails.push(tail);
        stand.stop(vec![replica]).await?;
    }
    accepting.abort();
    report.add(
        "N",
        "a dead server with 100 k due rows: insert → result of a healthy one's, p50",
        "ms",
        "",
        &halves,
    );
    report.add(
        "N",
        "a dead server with 100 k due rows: insert → result of a healthy one's, p99",
        "ms",
        "≤ 2000",
        &tails,
    );
    Ok(())
}
