//! What a reply to `tasks/get` means, but for questions.

use david_reconciler::{Observation, Outcome, PollReply, Refusal, Trouble, Verdict};

use super::{
    Case, after_failures, at_deadline, cancelled, completed, expiring_in, failed, failed_owing, goes_after,
    secs, seen,
};
use crate::scene::{Scene, error, result, state};

pub(super) fn case(name: &'static str, scene: Scene, reply: PollReply, expected: super::Is) -> Case {
    seen(name, scene, Observation::Poll(reply), expected)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = news();
    cases.extend(gone());
    cases.extend(failures());
    cases
}

fn expired(scene: Scene) -> Scene {
    expiring_in(secs(0), scene)
}

fn news() -> Vec<Case> {
    let done = |verdict| PollReply::Completed { state: state(), result: result(verdict) };
    let working = Scene::working;
    vec![
        case("still working", working(), PollReply::Working(state()), goes_after("continue", secs(2))),
        case("completed", working(), done(Verdict::Success), completed()),
        case("completed is not success", working(), done(Verdict::Error), failed(Outcome::ToolError)),
        case("completed in the last moment", at_deadline(working()), done(Verdict::Success), completed()),
        case(
            "failed",
            working(),
            PollReply::Failed { state: state(), error: error(-32603) },
            failed(Outcome::RemoteFailed),
        ),
        case(
            "cancelled by the server",
            working(),
            PollReply::Cancelled(state()),
            cancelled(Outcome::RemoteCancelled),
        ),
        case(
            "over the cap: nobody knows whether it ended",
            working(),
            PollReply::TooLarge { detail: "9 MB.".to_owned() },
            failed_owing(Outcome::ResultTooLarge),
        ),
        case(
            "a server that answers past the TTL is believed",
            expired(working()),
            PollReply::Working(state()),
            goes_after("continue", secs(2)),
        ),
    ]
}

fn gone() -> Vec<Case> {
    let gone = || PollReply::Refused(Refusal::Gone { message: "unknown task".to_owned() });
    vec![
        case("gone, of no known TTL", Scene::working(), gone(), failed(Outcome::TaskMissing)),
        case(
            "gone before the TTL",
            expiring_in(secs(2), Scene::working()),
            gone(),
            failed(Outcome::TaskMissing),
        ),
        case(
            "gone within a clock's error of the TTL",
            expiring_in(secs(1), Scene::working()),
            gone(),
            failed(Outcome::TaskExpired),
        ),
        case("gone at the TTL", expired(Scene::working()), gone(), failed(Outcome::TaskExpired)),
    ]
}

fn failures() -> Vec<Case> {
    let trouble =
        || PollReply::Refused(Refusal::Transient(Trouble { detail: "503.".to_owned(), retry_after: None }));
    let malformed = || PollReply::Refused(Refusal::Malformed { detail: "HTML.".to_owned() });
    let unauthorised = || PollReply::Refused(Refusal::Unauthorised { detail: "401.".to_owned() });
    let forbidden =
        || PollReply::Refused(Refusal::EndpointForbidden { detail: "It leads to 10.0.0.1.".to_owned() });
    let after = |attempt| after_failures(attempt, Scene::working());
    let past_ttl = |attempt| after_failures(attempt, expired(Scene::working()));
    vec![
        case("trouble", after(0), trouble(), goes_after("retry", secs(1))),
        case("trouble, the last time but one", after(998), trouble(), goes_after("retry", secs(60))),
        case("trouble in the end", after(999), trouble(), failed(Outcome::RemoteUnreachable)),
        case("trouble past the TTL", past_ttl(1), trouble(), goes_after("retry", secs(2))),
        case("trouble past the TTL, again", past_ttl(2), trouble(), failed(Outcome::RemoteUnreachable)),
        case("unreadable", after(0), malformed(), goes_after("retry", secs(1))),
        case("unreadable, the last time but one", after(3), malformed(), goes_after("retry", secs(8))),
        case("unreadable in the end", after(4), malformed(), failed_owing(Outcome::ProtocolError)),
        case("unauthorised", after(0), unauthorised(), goes_after("retry", secs(1))),
        case("unauthorised, the last time but one", after(3), unauthorised(), goes_after("retry", secs(8))),
        case("unauthorised in the end", after(4), unauthorised(), failed(Outcome::Unauthorised)),
        case("a forbidden address", after(0), forbidden(), failed(Outcome::EndpointForbidden)),
    ]
}
