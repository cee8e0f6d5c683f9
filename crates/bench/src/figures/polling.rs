//! Rows that work and are polled: A, B, I, J, K.

use std::time::{Duration, Instant};

use crate::bare::Bare;
use crate::process::cpu;
use crate::report::Report;
use crate::stand::{CONCURRENCY, Stand};

use super::working;

/// I: a replica that has nothing to do.
pub(crate) async fn idle(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let replica = stand.replica()?;
    // Past its start.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut queries, mut load) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        let (before, spent, began) = (stand.work().await?, cpu(replica.pid())?, Instant::now());
        tokio::time::sleep(stand.scale.window).await;
        let time = began.elapsed().as_secs_f64();
        queries.push((stand.work().await?.statements - before.statements) / time);
        load.push((cpu(replica.pid())? - spent).as_secs_f64() / time * 100.0);
    }
    stand.stop(vec![replica]).await?;
    report.add("I", "an idle replica: statements", "/s", "≤ 10", &queries);
    report.add("I", "an idle replica: processor", "%", "< 0.5", &load);
    Ok(())
}

/// A, B: polling tasks that work, beside the bare SDK.
pub(crate) async fn polling(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let bare = Bare::connect(&stand.url).await?;
    let ids = working(stand, &bare).await?;
    let (mut ratios, mut bare_rates, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut wal, mut statements, mut per_poll) = (Vec::new(), Vec::new(), Vec::new());
    let bare_window = stand.scale.window / 3;
    for _ in 0..stand.scale.repeats {
        let bare_rate = bare.polls(&ids, CONCURRENCY, bare_window).await?;
        let replica = stand.replica()?;
        stand.until_polled(&ids, &stand.gets().await?).await?;
        let (polls, before) = (stand.polls().await?, stand.work().await?);
        let (spent, began) = (cpu(replica.pid())?, Instant::now());
        tokio::time::sleep(stand.scale.window).await;
        let spent = cpu(replica.pid())? - spent;
        let (time, after) = (began.elapsed().as_secs_f64(), stand.work().await?);
        let polls = stand.polls().await? - polls;
        stand.stop(vec![replica]).await?;
        rates.push(polls / time);
        bare_rates.push(bare_rate);
        ratios.push(polls / time / bare_rate);
        wal.push((after.wal - before.wal) / polls);
        statements.push((after.statements - before.statements) / polls);
        per_poll.push(spent.as_secs_f64() / polls * 1e6);
    }
    report.add("A", "durable polls ÷ bare polls", "", "≥ 0.9", &ratios);
    report.add("A", "bare polls", "/s", "", &bare_rates);
    report.add("A", "durable polls", "/s", "", &rates);
    report.add("A", "processor of the replica per poll", "µs", "", &per_poll);
    report.add("B", "WAL per poll", "B", "≤ 100", &wal);
    report.add("B", "statements per poll", "", "≤ 0.02", &statements);
    Ok(())
}

/// J: more replicas on the same rows.
pub(crate) async fn replicas(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let bare = Bare::connect(&stand.url).await?;
    let ids = working(stand, &bare).await?;
    let (mut two, mut four) = (Vec::new(), Vec::new());
    for _ in 0..stand.scale.repeats {
        let mut rates = Vec::new();
        for count in [1, 2, 4] {
            let replicas = (0..count).map(|_| stand.replica()).collect::<Result<Vec<_>, _>>()?;
            stand.until_polled(&ids, &stand.gets().await?).await?;
            let (polls, began) = (stand.polls().await?, Instant::now());
            tokio::time::sleep(stand.scale.window / 3).await;
            rates.push((stand.polls().await? - polls) / began.elapsed().as_secs_f64());
            stand.stop(replicas).await?;
        }
        if let [one, of_two, of_four] = rates[..] {
            two.push(of_two / one);
            four.push(of_four / one);
        }
    }
    report.add("J", "polls of two replicas ÷ of one", "", "≥ 0.95", &two);
    report.add("J", "polls of four replicas ÷ of one", "", "≥ 0.95", &four);
    Ok(())
}

/// K: a replica that holds everything is killed.
pub(crate) async fn kill(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let bare = Bare::connect(&stand.url).await?;
    let ids = working(stand, &bare).await?;
    let mut times = Vec::new();
    for _ in 0..stand.scale.repeats {
        let first = stand.replica()?;
        stand.until_polled(&ids, &stand.gets().await?).await?;
        let second = stand.replica()?;
        first.kill()?;
        let (killed, before) = (Instant::now(), stand.gets().await?);
        stand.until_polled(&ids, &before).await?;
        times.push(killed.elapsed().as_secs_f64());
        stand.stop(vec![second]).await?;
        // Two kills in a row make suspects of all rows; this is about one.
        sqlx::query("update david.mcp_action_tasks set lapses = 0").execute(&stand.pool).await?;
    }
    report.add("K", "kill -9 → every row is polled again", "s", "≤ 31", &times);
    Ok(())
}
