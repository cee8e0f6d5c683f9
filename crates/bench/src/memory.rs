//! H: what a replica keeps in memory.

use std::io::Write as _;
use std::time::Duration;

use david_testkit::{Replica, eventually};
use serde_json::json;

use crate::bare::Bare;
use crate::process::resident;
use crate::report::Report;
use crate::stand::{CONCURRENCY, Stand};

/// Longer than any benchmark.
const FOR_EVER: u32 = 1_000_000;

/// How seldom each row is polled, so that what is measured is what is held and not what is in flight.
const SELDOM_MS: u64 = 20_000;

/// Held rows of one server, and then one row each of very many.
pub(crate) async fn held(stand: &Stand, report: &mut Report) -> anyhow::Result<()> {
    let (rows, servers) = (stand.scale.tasks * 5, stand.scale.tasks / 20);
    let bare = Bare::connect(&stand.url).await?;
    let (mut per_row, mut per_client, mut everything) = (Vec::new(), Vec::new(), Vec::new());
    let mut bare_client = Vec::new();
    for _ in 0..stand.scale.repeats {
        let empty = idle(stand).await?;

        stand.fresh().await?;
        let ids = made(&bare, rows).await?;
        stand.adopt(&ids).await?;
        let of_rows = at_rest(stand, &ids).await?;

        // One row each, which is as good as none.
        stand.fresh().await?;
        let ids = made(&bare, servers).await?;
        stand.adopt_on_servers(&ids).await?;
        let of_servers = at_rest(stand, &ids).await?;

        let (none, some) = (clients(stand, 1).await?, clients(stand, servers + 1).await?);
        bare_client.push(each(some, none, servers) / 1024.0);
        per_row.push(each(of_rows, empty, rows));
        per_client.push(each(of_servers, empty, servers) / 1024.0);
        everything.push(each(of_rows + of_servers - empty, 0, 1) / 1_048_576.0);
    }
    report.add("H", "memory per held row, with 100 k of them", "B", "≤ 1024", &per_row);
    report.add("H", "memory per registration client, with 1,000 of them", "KiB", "≤ 60", &per_client);
    report.add("H", "memory per client of the bare SDK, with 1,000 of them", "KiB", "", &bare_client);
    report.add("H", "memory of a replica that holds both", "MiB", "", &everything);
    Ok(())
}

/// Memory of a process that has so many clients of the bare SDK.
async fn clients(stand: &Stand, count: usize) -> anyhow::Result<u64> {
    let holder = Replica::command(std::env::current_exe()?, "")
        .arg("--hold-clients")
        .arg(count.to_string())
        .arg("--url")
        .arg(&stand.url)
        .start()?;
    eventually(Duration::from_secs(60), "all are connected", async || {
        if holder.logs().contains(CONNECTED) { Ok(()) } else { Err(holder.logs()) }
    })
    .await?;
    resident(holder.pid())
}

/// What that process says then.
const CONNECTED: &str = "connected";

/// That process: until it is killed.
pub(crate) async fn hold_clients(url: &str, count: usize) -> anyhow::Result<()> {
    let clients = Bare::several(url, count, CONCURRENCY).await?;
    writeln!(std::io::stdout(), "{CONNECTED}")?;
    std::future::pending::<()>().await;
    drop(clients);
    Ok(())
}

/// Tasks that work for ever.
async fn made(bare: &Bare, count: usize) -> anyhow::Result<Vec<String>> {
    let arguments = vec![json!({ "seconds": FOR_EVER, "poll_interval_ms": SELDOM_MS }); count];
    Ok(bare.create(arguments, CONCURRENCY).await?.into_iter().map(|(id, _)| id).collect())
}

/// Memory of a replica that has nothing to do.
async fn idle(stand: &Stand) -> anyhow::Result<u64> {
    stand.fresh().await?;
    let replica = stand.replica()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let bytes = resident(replica.pid())?;
    stand.stop(vec![replica]).await?;
    Ok(bytes)
}

/// Memory of a replica that holds all of these, each polled once.
async fn at_rest(stand: &Stand, ids: &[String]) -> anyhow::Result<u64> {
    let before = stand.gets().await?;
    let replica = stand.roomy_replica()?;
    stand.until_polled(ids, &before).await?;
    let bytes = resident(replica.pid())?;
    stand.stop(vec![replica]).await?;
    Ok(bytes)
}

fn each(bytes: u64, without: u64, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "bytes and rows")]
    let each = bytes.saturating_sub(without) as f64 / count as f64;
    each
}
