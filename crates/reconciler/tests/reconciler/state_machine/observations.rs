//! Everything that can be seen, once each.

use david_reconciler::{
    Ack, CallReply, InputKey, NotExecuted, Observation, PollReply, Refusal, RemoteStatus, Trouble, Verdict,
};
use serde_json::Value;

use crate::scene::{error, question, result, state};

type Seen = (&'static str, Observation);

pub(super) fn all() -> Vec<Seen> {
    [calls(), polls(), updates(), cancels()].into_iter().flatten().collect()
}

fn asks() -> Vec<(InputKey, Value)> {
    vec![(InputKey::new("name"), question())]
}

fn detail() -> String {
    "No.".to_owned()
}

fn calls() -> Vec<Seen> {
    let not_executed = |proof| CallReply::NotExecuted { proof, detail: detail(), retry_after: None };
    let born = |status| CallReply::Task { state: state(), status };
    [
        ("a result", CallReply::Result(result(Verdict::Success))),
        ("a result with `isError`", CallReply::Result(result(Verdict::Error))),
        ("a task that works", born(RemoteStatus::Working)),
        ("a task of any other status", born(RemoteStatus::Completed)),
        ("asks for input", CallReply::InputRequired { requests: asks(), request_state: None }),
        ("a JSON-RPC error", CallReply::Rejected(error(-32050))),
        ("`-32020`, `-32021`, `-32022`", not_executed(NotExecuted::Unsupported)),
        ("connection refused, DNS, TLS", not_executed(NotExecuted::NeverSent)),
        ("401, 403", not_executed(NotExecuted::Unauthorised)),
        ("429", not_executed(NotExecuted::RateLimited)),
        ("its name leads to a forbidden address", not_executed(NotExecuted::EndpointForbidden)),
        ("reset, time-out, 5xx, cut", CallReply::Unknown { detail: detail() }),
        ("unreadable", CallReply::Malformed { detail: detail() }),
        ("over the size cap", CallReply::TooLarge { detail: detail() }),
    ]
    .map(|(what, reply)| (what, Observation::Call(reply)))
    .to_vec()
}

fn polls() -> Vec<Seen> {
    let mut seen = [
        ("works", PollReply::Working(state())),
        ("asks for input", PollReply::InputRequired { state: state(), requests: asks() }),
        ("completed", PollReply::Completed { state: state(), result: result(Verdict::Success) }),
        ("completed with `isError`", PollReply::Completed { state: state(), result: result(Verdict::Error) }),
        ("failed", PollReply::Failed { state: state(), error: error(-32603) }),
        ("cancelled", PollReply::Cancelled(state())),
        ("over the size cap", PollReply::TooLarge { detail: detail() }),
    ]
    .map(|(what, reply)| (what, Observation::Poll(reply)))
    .to_vec();
    let refused = |refusal| Observation::Poll(PollReply::Refused(refusal));
    seen.extend(refusals().map(|(what, refusal)| (what, refused(refusal))));
    seen
}

fn updates() -> Vec<Seen> {
    acks().into_iter().map(|(what, ack)| (what, Observation::Update(ack))).collect()
}

fn cancels() -> Vec<Seen> {
    acks().into_iter().map(|(what, ack)| (what, Observation::Cancel(ack))).collect()
}

fn acks() -> Vec<(&'static str, Ack)> {
    let refused = refusals().map(|(what, refusal)| (what, Ack::Refused(refusal)));
    [("acknowledged", Ack::Acknowledged)].into_iter().chain(refused).collect()
}

fn refusals() -> [(&'static str, Refusal); 5] {
    [
        ("`-32602`", Refusal::Gone { message: detail() }),
        (
            "refused, reset, time-out, 5xx, 429",
            Refusal::Transient(Trouble { detail: detail(), retry_after: None }),
        ),
        ("401, 403", Refusal::Unauthorised { detail: detail() }),
        ("unreadable, or another task's", Refusal::Malformed { detail: detail() }),
        ("its name leads to a forbidden address", Refusal::EndpointForbidden { detail: detail() }),
    ]
}

/// The request an observation is of.
pub(super) fn request(observation: &Observation) -> &'static str {
    match observation {
        Observation::Call(_) => "tools/call",
        Observation::Poll(_) => "tasks/get",
        Observation::Update(_) => "tasks/update",
        Observation::Cancel(_) => "tasks/cancel",
    }
}
