//! What Core would do: plain SQL.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use sqlx::{PgPool, Row};

use crate::plan::{Cancel, Origin, Plan};
use crate::servers::Servers;

pub(crate) struct Store {
    pool: PgPool,
}

/// How an Action stands.
pub(crate) struct Standing {
    pub(crate) phase: String,
    pub(crate) outcome: Option<String>,
    pub(crate) status: String,
    pub(crate) outputs: i64,
}

impl Store {
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        let pool =
            PgPool::connect(url).await.context("the database cannot be reached (is DATABASE_URL right?)")?;
        david_schema::migrate(&pool).await?;
        Ok(Self { pool })
    }

    pub(crate) async fn submit(&self, plan: &mut Plan, servers: &Servers) -> anyhow::Result<()> {
        for (id, url) in &plan.registrations {
            sqlx::query(
                "insert into david.mcp_server_registrations
                        (id, owner_id, name, url, normalized_url, identity_key, timeout_seconds)
                 values ($1, $2, 'demo', $3, $3, encode(sha256(convert_to($3, 'UTF8')), 'hex'), 5)",
            )
            .bind(id)
            .bind(&plan.user)
            .bind(url)
            .execute(&self.pool)
            .await?;
        }
        for planned in &plan.actions {
            let (registration, _) = plan.registrations.get(planned.server).context("no such registration")?;
            let task = match planned.origin {
                Origin::Submitted => None,
                Origin::Adopted => Some(servers.create_task(planned).await?),
            };
            sqlx::query("insert into david.runs (id, user_id, status) values ($1, $2, 'pending_action') on conflict do nothing")
                .bind(&planned.run)
                .bind(&plan.user)
                .execute(&self.pool)
                .await?;
            sqlx::query(
                "select david.submit_action($1, $2, $3, $4, $4, $5::json, p_tool_call_id => $6,
                                            p_deadline_in => interval '10 minutes', p_remote_task_id => $7)",
            )
            .bind(&planned.action)
            .bind(&planned.run)
            .bind(registration)
            .bind(planned.tool)
            .bind(planned.arguments.to_string())
            .bind(planned.action.replace("act_", "call_"))
            .bind(task.as_ref().map(|id| id.expose().to_owned()))
            .execute(&self.pool)
            .await?;
        }
        Ok(())
    }

    pub(crate) async fn cancel_runs(&self, plan: &Plan, when: Cancel) -> anyhow::Result<()> {
        let runs: Vec<&str> = plan
            .actions
            .iter()
            .filter(|action| action.cancel == when)
            .map(|action| action.run.as_str())
            .collect();
        sqlx::query("update david.runs set status = 'cancelled', cancelled_at = now() where id = any ($1)")
            .bind(runs)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Actions that have ended, remote cancels included.
    pub(crate) async fn finalised(&self, plan: &Plan) -> anyhow::Result<u64> {
        let count: i64 = sqlx::query_scalar(
            "select count(*) from david.mcp_action_tasks where action_id = any ($1) and phase = 'finalised'",
        )
        .bind(ids(plan))
        .fetch_one(&self.pool)
        .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    pub(crate) async fn in_call(&self, plan: &Plan) -> anyhow::Result<Vec<String>> {
        Ok(sqlx::query_scalar(
            "select action_id from david.mcp_action_tasks where action_id = any ($1) and phase = 'calling'",
        )
        .bind(ids(plan))
        .fetch_all(&self.pool)
        .await?)
    }

    /// What has not ended, in words.
    pub(crate) async fn stuck(&self, plan: &Plan) -> anyhow::Result<String> {
        let rows = self.standings(plan).await?;
        let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
        for action in &plan.actions {
            if let Some(standing) = rows.get(&action.action).filter(|standing| standing.phase != "finalised")
            {
                *kinds.entry(format!("{} ({})", action.kind, standing.phase)).or_default() += 1;
            }
        }
        Ok(kinds.into_iter().map(|(kind, count)| format!("{count} × {kind}")).collect::<Vec<_>>().join(", "))
    }

    pub(crate) async fn standings(&self, plan: &Plan) -> anyhow::Result<HashMap<String, Standing>> {
        let rows = sqlx::query(
            "select a.id, a.status, t.phase, t.outcome,
                    (select count(*) from david.tool_outputs o where o.action_id = a.id) as outputs
               from david.actions a
               join david.mcp_action_tasks t on t.action_id = a.id
              where a.id = any ($1)",
        )
        .bind(ids(plan))
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let standing = Standing {
                    phase: row.try_get("phase")?,
                    outcome: row.try_get("outcome")?,
                    status: row.try_get("status")?,
                    outputs: row.try_get("outputs")?,
                };
                Ok((row.try_get("id")?, standing))
            })
            .collect()
    }
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.actions.iter().map(|action| action.action.as_str()).collect()
}
