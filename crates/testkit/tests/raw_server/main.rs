//! The programmable server: correct towards the SDK's client by default, and as wrong as told on the wire.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

mod sdk;
mod wire;
