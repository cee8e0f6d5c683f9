//! The changes of phase, found by running every row through everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use david_reconciler::{Step, Transition};

use super::observations;
use super::rows::{CIRCUMSTANCES, phases, special_decisions, special_plans};
use crate::scene::Scene;

type Ways = BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>>;

/// From, to, and the labels of the transitions that lead there.
pub(super) fn ways() -> Ways {
    let mut ways = Ways::new();
    let mut note = |scene: &Scene, transition: &Transition| {
        let from = scene.task.phase.name();
        if let Some(to) = transition.next_phase().filter(|to| *to != from) {
            ways.entry((from.as_str(), to.as_str())).or_default().insert(transition.label());
        }
    };
    for (_, scene) in phases().into_iter().chain(special_plans()).chain(special_decisions()) {
        for (_, change) in CIRCUMSTANCES {
            let scene = scene.clone().with(change);
            if let Step::Commit(transition) = scene.plan() {
                note(&scene, &transition);
            }
        }
        for (_, observation) in observations::all() {
            note(&scene, &scene.decide(observation.clone()));
            let impatient = scene.clone().with(|scene| scene.task.attempt = u32::MAX);
            note(&impatient, &impatient.decide(observation));
        }
    }
    ways
}

pub(super) fn mermaid() -> String {
    let mut text = String::from(
        "```mermaid\nstateDiagram-v2\n    [*] --> queued: submitted\n    [*] --> working: adopted\n",
    );
    for ((from, to), labels) in ways() {
        let labels: Vec<&str> = labels.into_iter().collect();
        writeln!(text, "    {from} --> {to}: {}", labels.join(", ")).unwrap();
    }
    text.push_str("    finalised --> [*]\n```\n");
    text
}
