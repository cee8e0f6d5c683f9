//! The document.

use std::fmt::Write as _;
use std::time::Duration;

use david_reconciler::{Observation, Outcome, Step, Transition};

use super::diagram::mermaid;
use super::observations;
use super::rows::{CIRCUMSTANCES, TRANSITIONS, phases, special_decisions, special_plans};
use crate::scene::{Scene, delay_of};

const INTRODUCTION: &str = "\
# The state machine

Generated from `crates/reconciler` by running it; after a change of the code, regenerate it with
`UPDATE_DOCS=1 cargo test -p david-reconciler --test reconciler`.

Each Action with remote work is one row, and a row is in one *phase*. Nothing but a *transition* moves it. One turn
of a row is always the same, after a crash too:

1. A replica *leases* the row: for a while nobody else has it.
2. `plan` looks at the row, its Run and its registration. Either it is clear what to do, or a request is to be made.
3. The request is made, and its reply becomes one *observation* out of a closed list.
4. `decide` turns the observation into a transition, which is committed if the lease still holds.

So there are two tables: what `plan` says of a leased row, and what `decide` says of an observation. Both were
produced with the default policy, for a live Run an hour before its deadline whose server may be talked to, unless
a line says otherwise. Delays are without jitter.

";

const RUN_CANCELLED: &str = "
Not drawn: cancelling a Run moves its rows in the same database transaction, to `cancelling` if a task id is known,
else to `finalised`. An unfinished row whose Run turns out to be cancelled is moved the same way (`repair_cancel`),
whatever was seen meanwhile.

";

pub(super) fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str(&mermaid());
    text.push_str(RUN_CANCELLED);
    text.push_str("## Transitions\n\n| label | meaning |\n|---|---|\n");
    for (label, meaning) in TRANSITIONS {
        writeln!(text, "| `{label}` | {meaning} |").unwrap();
    }
    plans(&mut text);
    decisions(&mut text);
    outcomes(&mut text);
    text
}

fn plans(text: &mut String) {
    text.push_str("\n## plan: a row was leased\n\nConditions are asked from left to right: the Run first, then whether we may talk to the server, then time.\n\n| phase |");
    for (name, _) in CIRCUMSTANCES {
        write!(text, " {name} |").unwrap();
    }
    text.push_str("\n|---|---|---|---|---|---|\n");
    for (name, scene) in phases() {
        write!(text, "| {name} |").unwrap();
        for (_, change) in CIRCUMSTANCES {
            write!(text, " {} |", planned(&scene.clone().with(change))).unwrap();
        }
        text.push('\n');
    }
    text.push_str("\n| otherwise | |\n|---|---|\n");
    for (name, scene) in special_plans() {
        writeln!(text, "| {name} | {} |", planned(&scene)).unwrap();
    }
}

fn decisions(text: &mut String) {
    text.push_str(
        "\n## decide: something was seen\n\n\
         *In the end* is the same observation after so many failures in a row that patience is over.\n",
    );
    let (phases, special) = (phases(), special_decisions());
    for (name, scene) in &phases {
        write!(text, "\n### {name}\n").unwrap();
        let impossible = table(text, scene, |_, _| true);
        writeln!(text, "\nImpossible: {}.", impossible.join("; ")).unwrap();
    }
    text.push_str("\n## decide: where it depends\n\nOnly what differs from the table of the phase.\n");
    for (name, scene) in &special {
        write!(text, "\n### {name}\n").unwrap();
        let ordinary = phases.iter().find(|(_, ordinary)| same_phase(ordinary, scene)).unwrap();
        table(text, scene, |observation, shown| outcome_of(&ordinary.1, observation) != *shown);
    }
}

fn same_phase(one: &Scene, other: &Scene) -> bool {
    one.task.phase.name() == other.task.phase.name()
        && one.task.phase.remote().is_some() == other.task.phase.remote().is_some()
}

/// What comes of an observation: at first, until when, and in the end.
type Shown = (String, String, String);

fn outcome_of(scene: &Scene, observation: &Observation) -> Shown {
    let first = scene.decide(observation.clone());
    let last = scene.clone().with(|scene| scene.task.attempt = u32::MAX).decide(observation.clone());
    let last = if last.label() == first.label() { String::new() } else { transition(&last) };
    (transition(&first), delay_of(&first).map(delay).unwrap_or_default(), last)
}

/// Writes a table of what is worth it; gives what is impossible.
fn table(text: &mut String, scene: &Scene, worth_it: impl Fn(&Observation, &Shown) -> bool) -> Vec<String> {
    let (mut rows, mut impossible) = (String::new(), Vec::new());
    for (what, observation) in observations::all() {
        let request = observations::request(&observation);
        if let Transition::Impossible { pair } = scene.decide(observation.clone()) {
            let line = format!("`{request}`, {pair}");
            if !impossible.contains(&line) {
                impossible.push(line);
            }
            continue;
        }
        let shown = outcome_of(scene, &observation);
        if worth_it(&observation, &shown) {
            let (first, due, last) = shown;
            writeln!(rows, "| `{request}`: {what} | {first} | {due} | {last} |").unwrap();
        }
    }
    if !rows.is_empty() {
        write!(text, "\n| seen | transition | due again | in the end |\n|---|---|---|---|\n{rows}").unwrap();
    }
    impossible
}

fn outcomes(text: &mut String) {
    text.push_str("\n## Outcomes\n\n| outcome | the Action becomes |\n|---|---|\n");
    for outcome in Outcome::ALL {
        writeln!(text, "| `{outcome}` | {} |", outcome.action_status().as_str()).unwrap();
    }
}

fn planned(scene: &Scene) -> String {
    match scene.plan() {
        Step::Commit(decided) => transition(&decided),
        Step::Poll => "ask `tasks/get`".to_owned(),
        Step::Cancel => "ask `tasks/cancel`".to_owned(),
    }
}

fn transition(transition: &Transition) -> String {
    match transition {
        Transition::Finish(finish) => format!("`{}`: **{}**", transition.label(), finish.outcome),
        other => format!("`{}`", other.label()),
    }
}

fn delay(delay: Duration) -> String {
    match delay.as_secs() {
        0 if delay.is_zero() => "at once".to_owned(),
        secs if secs >= 3600 => format!("{} h", secs / 3600),
        secs => format!("{secs} s"),
    }
}
