//! Version 1 of the envelope as committed files, byte for byte.
//!
//! Core reads these bytes. A change here is a decision about a version: a reader of version 1 must
//! still understand what is written as version 1, else the number goes up and the files of version 1
//! stay as they are.

use david_reconciler::{CallReply, Observation, PollReply, Refusal, ToolResult, Transition, Verdict};
use serde_json::{Value, json};

use crate::scene::{Scene, result, state};

fn check(committed: &str, transition: &Transition) {
    let Transition::Finish(finish) = transition else { panic!("no end: {transition:?}") };
    let written = finish.envelope.as_str();
    let explanation = "the envelope changed: that is a new version, not a new file (see this module)";
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parse(written), parse(committed), "{explanation}");
    assert_eq!(written, committed.trim_end(), "{explanation}");
}

// Objects are written here in the order of their keys, as serde_json does unless another crate of the
// build asks it to keep the order.
#[test]
fn a_result_with_text_and_structured_content_is_written_as_version_1() {
    let done = ToolResult {
        content: vec![
            json!({ "annotations": { "priority": 0.5 }, "text": "42 °C, \u{0} and \"quotes\"", "type": "text" }),
            json!({ "data": "AAAA", "mimeType": "image/png", "type": "image" }),
        ],
        structured_content: Some(json!({ "alpha": [null, 9_007_199_254_740_993_u64], "zulu": 1 })),
        verdict: Verdict::Success,
    };
    let reply = PollReply::Completed { state: state(), result: done };
    check(include_str!("envelopes/succeeded.json"), &Scene::working().decide(Observation::Poll(reply)));
}

#[test]
fn a_result_without_structured_content_does_not_mention_it() {
    let done = ToolResult { content: Vec::new(), structured_content: None, verdict: Verdict::Success };
    let reply = CallReply::Result(done);
    check(include_str!("envelopes/succeeded_empty.json"), &Scene::calling().decide(Observation::Call(reply)));
}

#[test]
fn a_result_that_is_an_error_is_written_as_version_1() {
    let reply = CallReply::Result(result(Verdict::Error));
    check(include_str!("envelopes/tool_error.json"), &Scene::calling().decide(Observation::Call(reply)));
}

#[test]
fn an_end_without_a_result_is_written_as_version_1() {
    let gone = PollReply::Refused(Refusal::Gone { message: "unknown task".to_owned() });
    check(include_str!("envelopes/task_missing.json"), &Scene::working().decide(Observation::Poll(gone)));
}

#[test]
fn an_end_for_a_local_reason_is_written_as_version_1() {
    let late = Scene::queued().with(|scene| scene.now = scene.task.execution_deadline);
    let david_reconciler::Step::Commit(transition) = late.plan() else { panic!("it goes on") };
    check(include_str!("envelopes/deadline_exceeded.json"), &transition);
}
