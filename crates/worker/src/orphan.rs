//! A remote task that no row could take in: its Action ended or vanished while the call was out.

use std::time::Duration;

use david_reconciler::{Ack, RemoteTaskId};
use david_schema::{Leased, causes};
use tokio::time::Instant;

use crate::context::Context;
use crate::remote::Target;

/// Tries at the cancel; best effort, since nothing durable remembers it.
const TRIES: u32 = 4;

/// Cancels `id` remotely, but only after a successful read has shown that no live row holds it: a
/// server that restarts its ids may have given this one to somebody else (DESIGN rule 2).
pub(crate) async fn cancel(context: &Context, leased: &Leased, target: &Target, id: &RemoteTaskId) {
    let action = &leased.task.action_id;
    let timings = context.metrics.servers.of(&target.registration_id);
    let mut pause = Duration::from_millis(250);
    for _ in 0..TRIES {
        // Before each try: much may have changed since the last.
        if !may_cancel(context, leased, target, id).await {
            return;
        }
        let deadline = Instant::now() + context.poll_timeout;
        let began = Instant::now();
        let ack = context.remote.cancel_task(target, id, deadline).await;
        timings.cancel().observe(began.elapsed().as_secs_f64());
        match ack {
            Ack::Acknowledged => {
                tracing::info!(action.id = %action, remote.task = %id, "cancelled a remote task that came too late");
                return;
            }
            Ack::Refused(_) => {
                // Not the server's words: they may repeat the id.
                tracing::debug!(action.id = %action, remote.task = %id, "the cancel was refused");
            }
        }
        tokio::select! {
            () = context.aborting.cancelled() => break,
            () = tokio::time::sleep(pause) => pause *= 2,
        }
    }
    tracing::warn!(action.id = %action, remote.task = %id, "a remote task that came too late could not be cancelled");
}

async fn may_cancel(context: &Context, leased: &Leased, target: &Target, id: &RemoteTaskId) -> bool {
    let action = &leased.task.action_id;
    match context.ledger.may_cancel(&target.registration_id, id).await {
        Ok(true) => true,
        Ok(false) => {
            tracing::warn!(
                action.id = %action, remote.task = %id,
                "the task id that came late is a live row's, or its server may not be talked to; it is not cancelled"
            );
            false
        }
        Err(error) => {
            tracing::warn!(
                action.id = %action, remote.task = %id, error = causes(&error),
                "nobody knows whether a live row holds the task id that came late; it is not cancelled"
            );
            false
        }
    }
}
