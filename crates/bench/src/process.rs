//! What a process costs, as the kernel counts it.

use std::time::Duration;

use anyhow::Context as _;

/// Processor time of a process so far, in user and kernel mode.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    // Fields after the name, which may hold anything but ends with the last parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| -> anyhow::Result<u64> {
        Ok(fields.get(index).context("the kernel's line is too short")?.parse()?)
    };
    // utime and stime, in ticks of 10 ms on every Linux there is.
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
