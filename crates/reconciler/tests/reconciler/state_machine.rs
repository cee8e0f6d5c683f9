//! docs/state-machine.md is rendered from the code, by running it.

mod diagram;
mod observations;
mod render;
mod rows;

use david_reconciler::{Outcome, PhaseName};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state-machine.md");

#[test]
fn the_document_shows_what_the_code_does() {
    let actual = render::document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOCUMENT, &actual).unwrap();
    }
    let committed = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    let differs = committed.lines().zip(actual.lines()).find(|(was, is)| was != is);
    assert!(
        committed == actual,
        "docs/state-machine.md is not what the code does; first difference: {differs:#?}\n\
         regenerate it with UPDATE_DOCS=1 cargo test -p david-reconciler --test reconciler"
    );
}

#[test]
fn every_phase_outcome_and_transition_is_in_the_document() {
    let text = render::document();
    for phase in PhaseName::ALL {
        assert!(text.contains(&format!("\n### {}", phase.as_str())), "{}", phase.as_str());
    }
    for outcome in Outcome::ALL {
        assert!(text.contains(&format!("\n| `{outcome}` |")), "{outcome}");
    }
    for label in rows::TRANSITIONS.map(|(label, _)| label) {
        assert!(text.matches(&format!("`{label}`")).count() > 1, "{label} is explained but does not occur");
    }
}

#[test]
fn the_diagram_holds_each_way_of_the_design_and_no_other() {
    let ways: Vec<String> = diagram::ways().into_keys().map(|(from, to)| format!("{from} {to}")).collect();
    let designed = [
        "calling finalised",
        "calling input_required",
        "calling queued",
        "calling working",
        "cancelling finalised",
        "input_required calling",
        "input_required cancelling",
        "input_required finalised",
        "input_required working",
        "queued calling",
        "queued finalised",
        "working cancelling",
        "working finalised",
        "working input_required",
    ];
    assert_eq!(ways, designed);
}
