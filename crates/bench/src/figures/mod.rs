//! The figures of whole replicas against a server, by their letters. Those of the database alone are in `queue`.

mod latency;
mod path;
mod polling;

use serde_json::json;

use crate::bare::Bare;
use crate::stand::{CONCURRENCY, Stand};

pub(crate) use latency::{cancel, completion, dead_server, wake_up};
pub(crate) use path::whole_path;
pub(crate) use polling::{idle, kill, polling, replicas};

/// Longer than any benchmark.
const FOR_EVER: u32 = 1_000_000;

/// Tasks that work for ever, adopted.
async fn working(stand: &Stand, bare: &Bare) -> anyhow::Result<Vec<String>> {
    stand.fresh().await?;
    let arguments = vec![json!({ "seconds": FOR_EVER }); stand.scale.tasks];
    let made = bare.create(arguments, CONCURRENCY).await?;
    let ids: Vec<String> = made.into_iter().map(|(id, _)| id).collect();
    stand.adopt(&ids).await?;
    Ok(ids)
}
