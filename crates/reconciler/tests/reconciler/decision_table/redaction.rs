//! A server's words on their way into a row.

use david_reconciler::{Ack, Observation, PollReply, Refusal, Trouble};

use super::after_failures;
use crate::scene::{SECRET_ID, Scene, answer};

fn refusals(words: &str) -> [Refusal; 5] {
    let words = || words.to_owned();
    [
        Refusal::Gone { message: words() },
        Refusal::Unauthorised { detail: words() },
        Refusal::Malformed { detail: words() },
        Refusal::EndpointForbidden { detail: words() },
        Refusal::Transient(Trouble { detail: words(), retry_after: None }),
    ]
}

#[test]
fn they_bring_neither_the_task_id_nor_a_nul_with_them() {
    let sending = Scene::asking(&[("name", david_reconciler::InputState::Sending(answer()))]);
    for refusal in refusals(&format!("unknown task: {SECRET_ID}\0")) {
        for attempt in [0, 1_000] {
            for (scene, observation) in [
                (Scene::working(), Observation::Poll(PollReply::Refused(refusal.clone()))),
                (sending.clone(), Observation::Update(Ack::Refused(refusal.clone()))),
                (Scene::cancelling(), Observation::Cancel(Ack::Refused(refusal.clone()))),
            ] {
                let shown = format!("{:?}", after_failures(attempt, scene).decide(observation));
                assert!(!shown.contains(SECRET_ID), "{shown}");
                assert!(!shown.contains("\\0") && !shown.contains("\\u{0}"), "{shown}");
            }
        }
    }
}

#[test]
fn they_are_cut_to_what_a_person_reads() {
    for refusal in refusals(&"é".repeat(1_000_000)) {
        let transition = Scene::working().decide(Observation::Poll(PollReply::Refused(refusal)));
        assert!(format!("{transition:?}").chars().count() < 2_500, "as long as ever");
    }
}
