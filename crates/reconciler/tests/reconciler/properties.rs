//! What holds for any row, any surroundings and any observation.

mod arbitrary;
mod liveness;
mod simulation;
mod soundness;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The same cases every time: a failure is a change of the code, and is found again.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2026),
        ..ProptestConfig::default()
    }
}
