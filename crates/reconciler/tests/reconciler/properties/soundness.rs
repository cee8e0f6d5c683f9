//! What is true of every single decision.

use std::time::Duration;

use david_reconciler::{
    Authority, CancelDebt, InputState, InputSubject, Observation, Outcome, Phase, PhaseName, PollReply,
    RemoteStatus, Repeat, RunState, Step, Transition,
};
use proptest::prelude::*;

use super::arbitrary::{some_observation, some_scene};
use super::config;
use crate::scene::{SECRET_ID, Scene, delay_of};

/// Shorter than this is not waited, unless there is a reason not to wait at all.
const SHORTEST: Duration = Duration::from_millis(50);

/// What both halves commit: `plan`'s transition, if it has one, and `decide`'s.
fn decisions(scene: &Scene, observation: Observation) -> Vec<Transition> {
    let planned = match scene.plan() {
        Step::Commit(transition) => Some(transition),
        Step::Poll | Step::Cancel => None,
    };
    planned.into_iter().chain([scene.decide(observation)]).collect()
}

fn has_ended(scene: &Scene) -> bool {
    matches!(scene.task.phase, Phase::Cancelling { .. } | Phase::Finalised { .. })
}

/// DESIGN §3: what may follow a phase.
fn successors(phase: &Phase) -> &'static [PhaseName] {
    use PhaseName::{Calling, Cancelling, Finalised, InputRequired, Queued, Working};
    match phase {
        Phase::Queued => &[Calling, Finalised],
        Phase::Calling { .. } => &[Queued, Working, InputRequired, Finalised],
        Phase::Working { .. } => &[Working, InputRequired, Cancelling, Finalised],
        Phase::InputRequired { subject: InputSubject::Task(_), .. } => {
            &[InputRequired, Working, Cancelling, Finalised]
        }
        Phase::InputRequired { subject: InputSubject::Call { .. }, .. } => &[Calling, Finalised],
        Phase::Cancelling { .. } => &[Finalised],
        Phase::Finalised { .. } => &[],
    }
}

/// The longest that may be waited; jitter lengthens what is not the server's own word.
fn ceiling(scene: &Scene, transition: &Transition) -> Duration {
    let policy = &scene.policy;
    match transition {
        Transition::Wait { .. } | Transition::AwaitInput { subject: InputSubject::Call { .. }, .. } => {
            policy.input_timeout
        }
        Transition::Retry { .. } | Transition::Requeue { .. } => policy.retry_after_ceiling,
        _ => policy.poll_interval_ceiling * 11 / 10,
    }
}

/// Why a transition may be due at once.
fn may_be_due_at_once(scene: &Scene, transition: &Transition) -> bool {
    match transition {
        Transition::Track { remote, .. } => remote.status != Some(RemoteStatus::Working),
        // Of a lost call: it was leased for a long time already.
        Transition::Requeue { .. } => scene.call.repeat == Repeat::Idempotent,
        _ => false,
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn a_finalised_row_never_changes(scene in some_scene(), observation in some_observation()) {
        if matches!(scene.task.phase, Phase::Finalised { .. }) {
            for transition in decisions(&scene, observation) {
                prop_assert!(matches!(transition, Transition::Impossible { .. }), "{transition:?}");
            }
        }
    }

    #[test]
    fn an_action_ends_once_and_a_cancelled_runs_never_by_a_decision(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        if has_ended(&scene) || scene.run.state == RunState::Cancelled {
            for transition in decisions(&scene, observation) {
                prop_assert!(!matches!(transition, Transition::Finish(_)), "{transition:?}");
            }
        }
    }

    #[test]
    fn a_cancel_is_owed_only_for_a_task_whose_id_is_kept_and_never_after_its_result(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        for transition in decisions(&scene, observation) {
            if let Transition::Finish(finish) = &transition
                && finish.debt == CancelDebt::Owed
            {
                prop_assert!(scene.task.phase.remote().is_some(), "{transition:?}");
                prop_assert!(!matches!(finish.outcome, Outcome::Succeeded | Outcome::ToolError), "{transition:?}");
            }
        }
    }

    #[test]
    fn an_outcome_is_unknown_only_of_a_call_that_may_not_be_repeated(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        for transition in decisions(&scene, observation) {
            if matches!(&transition, Transition::Finish(finish) if finish.outcome == Outcome::OutcomeUnknown) {
                let calling = matches!(scene.task.phase, Phase::Calling { .. });
                prop_assert!(calling, "{:?}", scene.task.phase);
                prop_assert_eq!(scene.call.repeat, Repeat::Never);
            }
        }
    }

    #[test]
    fn a_call_that_may_have_been_executed_is_never_made_again(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        let proven = matches!(
            &observation,
            Observation::Call(david_reconciler::CallReply::NotExecuted { .. })
        );
        let planned = scene.plan();
        for transition in decisions(&scene, observation) {
            if matches!(transition, Transition::Requeue { .. }) {
                let lost = planned == Step::Commit(transition.clone());
                prop_assert!(scene.call.repeat == Repeat::Idempotent || (proven && !lost), "{transition:?}");
            }
        }
    }

    #[test]
    fn a_call_is_begun_only_from_queued_or_with_every_answer(scene in some_scene()) {
        if let Step::Commit(Transition::BeginCall { .. }) = scene.plan() {
            let answered = scene.inputs.iter().all(|input| input.state != InputState::Pending);
            let may_call = match &scene.task.phase {
                Phase::Queued => true,
                Phase::InputRequired { subject: InputSubject::Call { .. }, .. } => answered,
                _ => false,
            };
            prop_assert!(may_call, "{:?}", scene.task.phase);
        }
    }

    #[test]
    fn nobody_talks_to_a_server_without_authority(scene in some_scene()) {
        if scene.authority != Authority::Granted {
            let talks = matches!(
                scene.plan(),
                Step::Poll
                    | Step::Cancel
                    | Step::Commit(Transition::BeginCall { .. } | Transition::SendAnswers { .. })
            );
            prop_assert!(!talks, "{scene:?}");
        }
    }

    #[test]
    fn the_next_phase_is_one_the_design_allows(scene in some_scene(), observation in some_observation()) {
        for transition in decisions(&scene, observation) {
            if let Some(next) = transition.next_phase() {
                prop_assert!(successors(&scene.task.phase).contains(&next), "{next:?} by {transition:?}");
            }
        }
    }

    #[test]
    fn a_delay_is_bounded_by_the_policy_and_by_the_deadline_and_never_spins(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        let left = scene.task.execution_deadline.since(scene.now).max(SHORTEST);
        for transition in decisions(&scene, observation) {
            let Some(delay) = delay_of(&transition) else { continue };
            prop_assert!(delay <= ceiling(&scene, &transition), "{delay:?}");
            prop_assert!(has_ended(&scene) || delay <= left, "{delay:?} of {left:?}");
            let at_once = delay.is_zero() && may_be_due_at_once(&scene, &transition);
            prop_assert!(at_once || delay >= SHORTEST, "{delay:?} would spin: {transition:?}");
        }
    }

    #[test]
    fn a_failure_counts_as_one(scene in some_scene(), observation in some_observation()) {
        for transition in decisions(&scene, observation) {
            if let Transition::Retry { attempt, .. } | Transition::Requeue { attempt, .. } = transition {
                prop_assert_eq!(attempt, scene.task.attempt.saturating_add(1));
            }
        }
    }

    #[test]
    fn an_envelope_is_valid_says_whether_it_is_an_error_and_names_no_task(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        for transition in decisions(&scene, observation) {
            let Transition::Finish(finish) = transition else { continue };
            let text = finish.envelope.as_str();
            let envelope: serde_json::Value = serde_json::from_str(text).unwrap();
            prop_assert_eq!(&envelope["version"], 1);
            prop_assert_eq!(envelope["outcome"].as_str(), Some(finish.outcome.as_str()));
            prop_assert_eq!(envelope["is_error"].as_bool(), Some(finish.outcome != Outcome::Succeeded));
            prop_assert_eq!(envelope["error"].is_null(), finish.outcome == Outcome::Succeeded);
            let known = scene.task.phase.remote().is_some();
            prop_assert!(!known || !text.contains(SECRET_ID), "{text}");
        }
    }

    #[test]
    fn what_goes_into_a_text_column_holds_no_nul_no_task_id_and_not_too_much(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        for transition in decisions(&scene, observation) {
            let reason = match transition {
                Transition::Finish(finish) => finish.reason.unwrap_or_default(),
                Transition::Retry { reason, .. }
                | Transition::Requeue { reason, .. }
                | Transition::SettleCancel { reason } => reason,
                _ => continue,
            };
            prop_assert!(!reason.contains('\0'), "{reason:?}");
            prop_assert!(reason.chars().count() <= 501, "{reason:?}");
            let known = scene.task.phase.remote().is_some();
            prop_assert!(!known || !reason.contains(SECRET_ID), "{reason}");
        }
    }

    #[test]
    fn an_answer_is_sent_only_while_it_is_wanted_and_a_question_is_recorded_once(
        scene in some_scene(),
        observation in some_observation(),
    ) {
        let state_of = |key| scene.inputs.iter().find(|input| input.key == key).map(|input| &input.state);
        let asked = match &observation {
            Observation::Poll(PollReply::InputRequired { requests, .. }) => requests.clone(),
            _ => Vec::new(),
        };
        match scene.decide(observation) {
            Transition::SendAnswers { answers } => for answer in answers {
                prop_assert!(asked.iter().any(|(key, _)| *key == answer.key), "not asked for: {answer:?}");
                let state = state_of(answer.key);
                let to_send = matches!(state, Some(InputState::Answered(_) | InputState::Sending(_)));
                prop_assert!(to_send, "{state:?}");
            },
            Transition::AwaitInput { round, requests, .. } if round == scene.task.input_round => {
                for (key, _) in requests {
                    let known = matches!(scene.task.phase, Phase::InputRequired { .. }) && state_of(key).is_some();
                    prop_assert!(!known, "the same question twice in one round");
                }
            }
            _ => {}
        }
    }
}
