//! The figures, by their letters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use crate::bare::Bare;
use crate::process::cpu;
use crate::report::Report;
use crate::stand::{CONCURRENCY, Stand};

/// Longer than any benchmark.
const FOR_EVER: u32 = 1_000_000;

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

/// Tasks that work for ever, adopted.
async fn working(stand: &Stand, bare: &Bare) -> anyhow::Result<Vec<String>> {
    stand.fresh().await?;
    let arguments = vec![json!({ "seconds": FOR_EVER }); stand.scale.tasks];
    let made = bare.create(arguments, CONCURRENCY).await?;
    let ids: Vec<String> = made.into_iter().map(|(id, _)| id).collect();
    stand.adopt(&ids).await?;
    Ok(ids)
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
