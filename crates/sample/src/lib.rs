//! A sample MCP server with one tool for every way a task can go.
//!
//! A real `rmcp` server over streamable HTTP, protocol 2026-07-28 with the tasks extension, stateless as that
//! protocol wants it. `david-tasks sdk-audit`, the demo and the tests talk to it.
//!
//! It keeps a [`Ledger`] of what it was asked to do, readable in the process and as JSON at `GET /ledger`: the
//! server is the only one who can prove that no Action was called twice.
//!
//! | tool | arguments (defaults) | what happens |
//! |---|---|---|
//! | `work` | `seconds` (1), `text` ("done") | task; completes with `text`, also as `structuredContent.text` |
//! | `fail` | `seconds` (1) | task; fails with JSON-RPC error -32050 |
//! | `tool_error` | `seconds` (1) | task; completes with `isError: true` |
//! | `ask` | `question`, `questions` (1), `seconds` (0) | task; asks `questions` times at once, completes with the answers |
//! | `stubborn` | `seconds` (1) | task; acknowledges a cancel, ignores it and completes |
//! | `cancelled` | `seconds` (1) | task; ends `cancelled` by the server's own decision |
//! | `vanish` | `seconds` (1) | task; works until the server forgets it, long before its TTL |
//! | `short_ttl` | `ttl_ms` (500), `seconds` (3600) | task; forgotten when its TTL has passed |
//! | `progress` | `steps` (3), `seconds` (1) | task; a status message per step |
//! | `born_done` | `text` ("done") | task; already completed when `tools/call` answers |
//! | `sync` | `text` ("done"), `seconds` (0) | an ordinary result, never a task |
//! | `sync_error` | | an ordinary result with `isError: true` |
//! | `ask_first` | `question` | `tools/call` itself asks for input and answers the second call with the answers |
//! | `reject` | | JSON-RPC error -32050 |
//!
//! Every tool takes a string `key`, by which the ledger counts calls. Every task but `stubborn` stops soon after
//! a cancel and ends `cancelled`.

mod arguments;
mod handler;
mod ledger;
mod results;
mod server;
mod tasks;
mod tools;

pub use ledger::{Counts, Ledger};
pub use server::{Options, Server};
pub use tools::REJECTED;
