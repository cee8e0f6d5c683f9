//! This machine's clock beside the database's.

use std::time::{Duration, Instant, SystemTime};

use david_schema::operate::{Operator, OperatorError};

use super::finding::{Finding, Severity};
use crate::operate::output::span;

/// The quickest answer says it best.
const TRIES: usize = 3;

pub(super) async fn check(operator: &Operator, tolerance: Duration) -> Result<Vec<Finding>, OperatorError> {
    let mut best: Option<(Duration, Duration, &'static str)> = None;
    for _ in 0..TRIES {
        let asked = Instant::now();
        let here = now();
        let there = operator.clock().await?;
        let took = asked.elapsed();
        // The database looked somewhere between question and answer.
        let here = here + took / 2;
        let (offset, direction) =
            if here > there { (here - there, "ahead of") } else { (there - here, "behind") };
        if best.is_none_or(|(quickest, ..)| took < quickest) {
            best = Some((took, offset, direction));
        }
    }
    let Some((_, offset, direction)) = best.filter(|(took, offset, _)| *offset > tolerance + *took / 2)
    else {
        return Ok(Vec::new());
    };
    let offset = (offset + Duration::from_millis(500)).as_secs().max(1);
    let what =
        format!("This machine's clock is {} {direction} the database's.", span(Duration::from_secs(offset)));
    Ok(vec![
        Finding::new(Severity::Warning, "clock_offset", what)
            .because("No instant of this machine is ever stored or compared, so Actions are safe; but logs of machines do not fit together, and TLS and tokens go by the clock.")
            .fix("timedatectl set-ntp true (here, and on the database's machine)"),
    ])
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is this machine's clock that is looked at; nothing is stored"
)]
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
