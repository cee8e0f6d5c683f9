//! `TestDb`: a database of its own for each test.

use anyhow::Context;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::Postgres;
use crate::admin::{self, Contents};

/// A fresh database on the [shared](Postgres::shared) server, copied from a migrated template.
///
/// Dropped with the value, in the background and with whatever is still connected to it; what a killed process
/// leaves on a server that outlives it, the next process drops.
#[derive(Debug)]
pub struct TestDb {
    /// Its URL, for processes under test.
    pub url: String,
    /// Up to ten connections, opened when used.
    pub pool: PgPool,
    name: String,
}

impl TestDb {
    /// A database with all migrations.
    ///
    /// # Errors
    /// When there is no server or the migrations fail.
    pub async fn create() -> anyhow::Result<Self> {
        Self::with(Contents::Migrated).await
    }

    /// A database with nothing in it.
    ///
    /// # Errors
    /// When there is no server.
    pub async fn empty() -> anyhow::Result<Self> {
        Self::with(Contents::Empty).await
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    async fn with(contents: Contents) -> anyhow::Result<Self> {
        let name = admin::create(contents).await?;
        // The administrator has started it, so this does not block.
        let url = Postgres::shared()?.url(&name);
        // Tests run in parallel against one server of 200 connections.
        let pool =
            PgPoolOptions::new().max_connections(10).connect_lazy(&url).context("bad test server URL")?;
        Ok(Self { url, pool, name })
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        admin::drop_soon(std::mem::take(&mut self.name));
    }
}
