//! What a replica serves over HTTP, and what its metrics say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use david_testkit::{Replica, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(30);

/// Where a replica serves, once it does. It was started with `--listen 127.0.0.1:0`.
///
/// # Errors
/// When it does not say so.
pub async fn address_of(replica: &Replica) -> anyhow::Result<String> {
    eventually(PATIENCE, "the replica says where it listens", async || {
        let logs = replica.logs();
        let told = logs.split("\"listen.address\":\"").nth(1).and_then(|rest| rest.split('"').next());
        told.map(str::to_owned).ok_or(logs)
    })
    .await
}

/// `GET`: the status and the body.
///
/// # Errors
/// When nobody answers, or not in HTTP.
pub async fn get(address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    let reply = String::from_utf8(reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").context("no head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunked(body)? } else { body.to_owned() }))
}

fn unchunked(mut body: &str) -> anyhow::Result<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").context("no chunk")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(whole);
        }
        whole.push_str(rest.get(..size).context("a chunk is short")?);
        body = rest.get(size + 2..).context("a chunk has no end")?;
    }
}

/// One scrape of `/metrics`.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// By name and labels, as in `david_tasks_polls_total{outcome="working"}`.
    pub samples: BTreeMap<String, f64>,
    /// The type of every family, by its name as it is queried: a counter's with `_total`.
    pub types: BTreeMap<String, String>,
}

impl Scrape {
    /// Scrapes.
    ///
    /// # Errors
    /// When there is no answer, or it is no exposition.
    pub async fn of(address: &str) -> anyhow::Result<Self> {
        let (status, text) = get(address, "/metrics").await?;
        anyhow::ensure!(status == 200, "{status}: {text}");
        anyhow::ensure!(text.ends_with("# EOF\n"), "it is cut off: {text}");
        let mut scrape = Self { samples: BTreeMap::new(), types: BTreeMap::new() };
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').context("a type has a name")?;
                let suffix = if kind == "counter" { "_total" } else { "" };
                scrape.types.insert(format!("{name}{suffix}"), kind.to_owned());
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').context("a sample has a value")?;
                scrape.samples.insert(name.to_owned(), value.parse()?);
            }
        }
        Ok(scrape)
    }

    /// A sample by name and labels.
    ///
    /// # Panics
    /// When there is none.
    pub fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("no {sample} in {:#?}", self.samples))
    }

    /// The labels that the samples of a family have, but a histogram's own.
    pub fn labels(&self, family: &str) -> BTreeSet<String> {
        let stems = ["", "_bucket", "_sum", "_count"].map(|suffix| format!("{family}{suffix}"));
        let samples = self.samples.keys().filter_map(|sample| {
            let (name, labels) = sample.split_once('{')?;
            stems.iter().any(|stem| stem == name).then_some(labels)
        });
        samples
            .flat_map(|labels| {
                labels.trim_end_matches('}').split("\",").map(str::to_owned).collect::<Vec<_>>()
            })
            .filter_map(|label| Some(label.split_once('=')?.0.to_owned()))
            .filter(|label| label != "le")
            .collect()
    }
}
