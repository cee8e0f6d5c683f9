//! Rows as a decision finds them, one for each phase it may be made in.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::{Answer, CancelDebt, InputKey, InputSubject, Outcome, RequestState, Transition};
use david_schema::{Leased, Write};
use serde_json::{Value, json};

use crate::support::{Fixture, asks, fail_owing, late, remote, write};

/// Where `act_a` stands; it is leased, and an earlier failure and polls have left their counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Queued,
    Calling,
    Working,
    /// The remote task `t` asks `name` and `city`; `name` is answered.
    TaskAsks,
    /// As `TaskAsks`, and the answer is on its way.
    TaskIsTold,
    /// `tools/call` itself asks `name`.
    CallAsks,
    /// The Action has failed and the task `t` is to be cancelled.
    Cancelling,
}

pub(crate) const ATTEMPT: u32 = 2;
pub(crate) const POLLS: u32 = 7;

pub(crate) fn given() -> Value {
    json!({ "action": "accept" })
}

pub(crate) fn send_name() -> Transition {
    Transition::SendAnswers { answers: vec![Answer { key: InputKey::new("name"), response: given() }] }
}

pub(crate) fn name_was_sent() -> Transition {
    Transition::AnswersSent { keys: vec![InputKey::new("name")], delay: Duration::from_secs(3) }
}

impl Start {
    pub(crate) async fn reach(self, fixture: &Fixture) -> Arc<Leased> {
        fixture.submit("a", "a").await;
        count(fixture).await;
        match self {
            Self::Queued => return fixture.lease_one().await,
            Self::Calling => return fixture.begin_call().await,
            Self::CallAsks => {
                let subject = InputSubject::Call { request_state: Some(RequestState::new("state")) };
                let calling = fixture.begin_call().await;
                fixture.commit(late(&calling, asks(subject, 1, &["name"]))).await;
            }
            Self::Working | Self::TaskAsks | Self::TaskIsTold | Self::Cancelling => fixture.track("t").await,
        }
        if matches!(self, Self::TaskAsks | Self::TaskIsTold) {
            let working = fixture.lease_one().await;
            let subject = InputSubject::Task(remote("t"));
            fixture.commit(write(&working, asks(subject, 1, &["name", "city"]))).await;
            fixture.sql(&format!("select david.answer_input('act_a', 'name', '{}')", given())).await;
        }
        if self == Self::TaskIsTold {
            let asking = fixture.lease_one().await;
            fixture.commit(write(&asking, send_name())).await;
            fixture.let_leases_lapse().await;
        }
        if self == Self::Cancelling {
            let working = fixture.lease_one().await;
            let missed = fail_owing(&working, Outcome::DeadlineExceeded, CancelDebt::Owed);
            fixture.commit(write(&working, missed)).await;
        }
        count(fixture).await;
        fixture.lease_one().await
    }

    /// Under the guard such a decision carries: what comes of a call is written under the call's fence.
    pub(crate) fn write(self, leased: &Arc<Leased>, transition: Transition) -> Write {
        match self {
            Self::Calling => late(leased, transition),
            Self::Queued
            | Self::Working
            | Self::TaskAsks
            | Self::TaskIsTold
            | Self::CallAsks
            | Self::Cancelling => write(leased, transition),
        }
    }
}

async fn count(fixture: &Fixture) {
    fixture.sql(&format!("update david.mcp_action_tasks set attempt = {ATTEMPT}, polls = {POLLS}")).await;
}
