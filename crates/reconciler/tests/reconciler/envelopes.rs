//! Version 1 of the envelope as committed files (`docs/envelopes/v1`), byte for byte: Core's own reader
//! is tested against the same files.
//!
//! A change to one is a decision about a version: a reader of version 1 must still understand what is
//! written as version 1, else the number goes up and the files of version 1 stay as they are. So
//! `UPDATE_DOCS=1` adds files that are missing and never changes one.

use std::collections::BTreeSet;
use std::path::Path;

use david_reconciler::{
    CallReply, Envelope, ErrorSource, Observation, Outcome, PollReply, Refusal, Step, ToolResult, Transition,
    Verdict,
};
use serde_json::{Value, json};

use crate::scene::{Scene, result, state};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/envelopes/v1");

// Objects are written here in the order of their keys, as serde_json does unless another crate of the
// build asks it to keep the order.
fn contents() -> Vec<(&'static str, Vec<Value>, Option<Value>)> {
    vec![
        ("succeeded_empty", vec![], None),
        ("content_text", vec![json!({ "text": "42 °C", "type": "text" })], None),
        (
            "content_image_and_audio",
            vec![
                json!({ "data": "iVBORw0KGgo=", "mimeType": "image/png", "type": "image" }),
                json!({ "data": "UklGRg==", "mimeType": "audio/wav", "type": "audio" }),
            ],
            None,
        ),
        (
            "content_resources",
            vec![
                json!({
                    "description": "The report", "mimeType": "application/pdf", "name": "report.pdf",
                    "type": "resource_link", "uri": "file:///report.pdf",
                }),
                json!({
                    "resource": { "mimeType": "text/plain", "text": "inline", "uri": "file:///note.txt" },
                    "type": "resource",
                }),
                json!({
                    "resource": { "blob": "AAAA", "mimeType": "application/octet-stream", "uri": "file:///b" },
                    "type": "resource",
                }),
            ],
            None,
        ),
        (
            "content_annotated_and_unknown",
            vec![
                json!({
                    "_meta": { "example.com/x": [1] }, "annotations": { "audience": ["user"], "priority": 0.5 },
                    "text": "", "type": "text",
                }),
                json!({ "depth": 3, "type": "hologram" }),
            ],
            None,
        ),
        // What breaks readers that are not ready for it: NUL, noncharacters, a right-to-left override,
        // numbers beyond what a double holds exactly, empty and NUL keys.
        (
            "content_hostile",
            vec![json!({ "text": "a\u{0}b \u{ffff} \u{202e} \u{10ffff} \"\\\r\n\u{7f}", "type": "text" })],
            Some(json!({
                "": null, "a\u{0}b": "\u{0}", "big": u64::MAX, "exact": 9_007_199_254_740_993_u64, "huge": 1e300,
                "least": i64::MIN, "tiny": 5e-324,
            })),
        ),
        (
            "succeeded",
            vec![
                json!({ "annotations": { "priority": 0.5 }, "text": "42 °C, \u{0} and \"quotes\"", "type": "text" }),
                json!({ "data": "AAAA", "mimeType": "image/png", "type": "image" }),
            ],
            Some(json!({ "alpha": [null, 9_007_199_254_740_993_u64], "zulu": 1 })),
        ),
        ("structured_null", vec![], Some(Value::Null)),
        ("structured_array", vec![], Some(json!([1, "two", { "three": 3 }]))),
    ]
}

/// Of ends without a result, as far as no decision below makes one: whose word it is.
const ERRORS: &[(Outcome, ErrorSource)] = &[
    (Outcome::RemoteFailed, ErrorSource::Remote),
    (Outcome::CallRejected, ErrorSource::Remote),
    (Outcome::RemoteCancelled, ErrorSource::Remote),
    (Outcome::TaskExpired, ErrorSource::Remote),
    (Outcome::OutcomeUnknown, ErrorSource::Local),
    (Outcome::RegistrationMissing, ErrorSource::Local),
    (Outcome::RegistrationDisabled, ErrorSource::Local),
    (Outcome::RegistrationForbidden, ErrorSource::Local),
    (Outcome::EndpointForbidden, ErrorSource::Local),
    (Outcome::Unauthorised, ErrorSource::Remote),
    (Outcome::InputUnsupported, ErrorSource::Local),
    (Outcome::InputTimedOut, ErrorSource::Local),
    (Outcome::ProtocolError, ErrorSource::Remote),
    (Outcome::Quarantined, ErrorSource::Local),
    (Outcome::ResultTooLarge, ErrorSource::Remote),
    (Outcome::RemoteUnreachable, ErrorSource::Local),
];

fn written(transition: Transition) -> String {
    let Transition::Finish(finish) = transition else { panic!("no end: {transition:?}") };
    finish.envelope.as_str().to_owned()
}

/// Every file, by name: what is written today.
fn vectors() -> Vec<(String, String)> {
    let mut vectors = Vec::new();
    for (name, content, structured_content) in contents() {
        let done = ToolResult { content, structured_content, verdict: Verdict::Success };
        let at_once = Scene::calling().decide(Observation::Call(CallReply::Result(done.clone())));
        let reply = PollReply::Completed { state: state(), result: done };
        let by_a_task = written(Scene::working().decide(Observation::Poll(reply)));
        assert_eq!(written(at_once), by_a_task, "{name}: it depends on the way");
        vectors.push((name.to_owned(), by_a_task));
    }
    let bad = CallReply::Result(result(Verdict::Error));
    vectors.push(("tool_error".to_owned(), written(Scene::calling().decide(Observation::Call(bad)))));
    let gone = PollReply::Refused(Refusal::Gone { message: "unknown task".to_owned() });
    vectors.push(("task_missing".to_owned(), written(Scene::working().decide(Observation::Poll(gone)))));
    let late = Scene::queued().with(|scene| scene.now = scene.task.execution_deadline);
    let Step::Commit(transition) = late.plan() else { panic!("it goes on") };
    vectors.push(("deadline_exceeded".to_owned(), written(transition)));
    let scene = Scene::working();
    for (outcome, source) in ERRORS {
        let message = format!("One sentence for people about {outcome}.");
        let envelope = Envelope::of_error(&scene.task.action_id, &scene.call, *outcome, &message, *source);
        vectors.push((outcome.as_str().to_owned(), envelope.as_str().to_owned()));
    }
    vectors
}

#[test]
fn every_envelope_is_written_as_the_committed_version_1() {
    for (name, written) in vectors() {
        let path = Path::new(FOLDER).join(format!("{name}.json"));
        if !path.exists() && std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, format!("{written}\n")).unwrap();
        }
        let committed = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_DOCS=1 adds it", path.display()));
        assert_eq!(written, committed.trim_end(), "{name}: that is a new version, not a new file");
    }
}

#[test]
fn every_outcome_that_is_told_to_core_has_a_committed_envelope_and_no_file_is_left_over() {
    let vectors: BTreeSet<String> = vectors().into_iter().map(|(name, _)| name).collect();
    for outcome in Outcome::ALL {
        let there = vectors.contains(outcome.as_str());
        // Core cancelled it: there is nobody to tell.
        assert_eq!(there, outcome != Outcome::RunCancelled, "{outcome}");
    }
    let files = std::fs::read_dir(FOLDER).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(files, vectors);
}

/// What docs/envelopes/README.md promises a reader of version 1.
#[test]
fn every_envelope_has_the_fields_of_version_1() {
    for (name, written) in vectors() {
        let envelope: Value = serde_json::from_str(&written).unwrap();
        let fields: BTreeSet<&str> = envelope.as_object().unwrap().keys().map(String::as_str).collect();
        let required =
            ["version", "action_id", "tool_call_id", "tool_name", "is_error", "outcome", "content", "error"];
        for field in required {
            assert!(fields.contains(field), "{name}: no {field}");
        }
        assert!(
            fields.len() - required.len() <= usize::from(fields.contains("structured_content")),
            "{name}"
        );
        assert_eq!(envelope["version"], 1, "{name}");
        assert!(envelope["content"].is_array(), "{name}");
        assert_eq!(envelope["is_error"], !envelope["error"].is_null(), "{name}");
        if envelope["is_error"] == true {
            assert_eq!(envelope["error"]["kind"], envelope["outcome"], "{name}");
            assert!(matches!(envelope["error"]["source"].as_str(), Some("local" | "remote")), "{name}");
        } else {
            assert_eq!(envelope["outcome"], "succeeded", "{name}");
        }
    }
}
