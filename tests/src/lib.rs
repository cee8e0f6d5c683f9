//! End-to-end tests: real replicas as processes, real Postgres, real MCP servers.
