//! One Action from its submission to its end, as a worker drives it: each transition is applied to
//! the row as its commit does, and time goes on by the delays.

use std::time::Duration;

use david_reconciler::{
    Ack, CallReply, CancelDebt, InputRequest, InputState, InputSubject, Observation, Outcome, Phase,
    PollReply, RunState, Step, Transition,
};

use crate::scene::{Scene, answer, delay_of};

/// What happens in one lease.
#[derive(Debug, Clone)]
pub(super) enum Turn {
    /// The server answers whatever is asked.
    Server(CallReply, Box<PollReply>, Ack),
    /// The replica is killed once its request has left.
    Killed,
    /// The Run is cancelled.
    CancelRun,
}

/// Whoever is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Person {
    Answers,
    Silent,
}

#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) scene: Scene,
    pub(super) person: Person,
}

impl Simulation {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.scene.task.phase, Phase::Finalised { .. })
    }

    /// One lease.
    pub(super) fn turn(&mut self, turn: Turn) {
        if matches!(turn, Turn::CancelRun) {
            self.scene.run.state = RunState::Cancelled;
        }
        let observation = match self.scene.plan() {
            Step::Commit(begin @ Transition::BeginCall { .. }) => {
                let Transition::BeginCall { lease } = begin else { return };
                self.scene.task.phase = Phase::Calling { call_fence: self.scene.task.fence };
                match turn {
                    Turn::Server(reply, _, _) => Observation::Call(reply),
                    Turn::Killed | Turn::CancelRun => return self.pass(lease),
                }
            }
            Step::Commit(send @ Transition::SendAnswers { .. }) => {
                self.apply(send);
                match turn {
                    Turn::Server(_, _, ack) => Observation::Update(ack),
                    Turn::Killed | Turn::CancelRun => return self.pass(Duration::from_secs(30)),
                }
            }
            Step::Commit(transition) => return self.apply(transition),
            Step::Poll => match turn {
                Turn::Server(_, reply, ack) => match self.scene.decide(Observation::Poll(*reply)) {
                    send @ Transition::SendAnswers { .. } => {
                        self.apply(send);
                        Observation::Update(ack)
                    }
                    other => return self.apply(other),
                },
                Turn::Killed | Turn::CancelRun => return self.lapse(),
            },
            Step::Cancel => match turn {
                Turn::Server(_, _, ack) => Observation::Cancel(ack),
                Turn::Killed | Turn::CancelRun => return self.lapse(),
            },
        };
        let transition = self.scene.decide(observation);
        self.apply(transition);
    }

    fn pass(&mut self, time: Duration) {
        self.scene.now = self.scene.now.saturating_add(time);
    }

    fn lapse(&mut self) {
        self.scene.task.lapses += 1;
        self.pass(Duration::from_secs(30));
    }

    fn apply(&mut self, transition: Transition) {
        self.pass(delay_of(&transition).unwrap_or_default());
        let task = &mut self.scene.task;
        task.lapses = 0;
        match transition {
            Transition::Track { remote, .. } => (task.phase, task.attempt) = (Phase::Working { remote }, 0),
            Transition::Continue { remote, .. } => {
                (task.phase, task.attempt, task.polls) = (Phase::Working { remote }, 0, task.polls + 1);
            }
            Transition::Requeue { attempt, .. } => (task.phase, task.attempt) = (Phase::Queued, attempt),
            Transition::Retry { attempt, .. } => task.attempt = attempt,
            Transition::AwaitInput { subject, round, requests, .. } => self.ask(subject, round, requests),
            Transition::SendAnswers { answers } => {
                for input in &mut self.scene.inputs {
                    if let Some(answer) = answers.iter().find(|answer| answer.key == input.key) {
                        input.state = InputState::Sending(answer.response.clone());
                    }
                }
            }
            Transition::AnswersSent { keys, .. } => {
                task.attempt = 0;
                for input in self.scene.inputs.iter_mut().filter(|input| keys.contains(&input.key)) {
                    input.state = InputState::Sent;
                }
            }
            Transition::Finish(finish) => self.end(finish.outcome, finish.debt),
            Transition::SettleCancel { .. } => self.end(Outcome::RunCancelled, CancelDebt::None),
            Transition::RepairCancel => self.end(Outcome::RunCancelled, CancelDebt::Owed),
            Transition::Wait { .. } => {}
            Transition::BeginCall { .. } | Transition::Impossible { .. } => panic!("{transition:?}"),
        }
    }

    fn ask(
        &mut self,
        subject: InputSubject,
        round: u32,
        requests: Vec<(david_reconciler::InputKey, serde_json::Value)>,
    ) {
        let task = &mut self.scene.task;
        if round != task.input_round {
            self.scene.inputs.clear();
        }
        let since = match &task.phase {
            Phase::InputRequired { since, .. } if requests.is_empty() => *since,
            _ => self.scene.now,
        };
        (task.attempt, task.polls, task.input_round) = (0, task.polls + 1, round);
        task.phase = Phase::InputRequired { subject, since };
        let state = match self.person {
            Person::Answers => InputState::Answered(answer()),
            Person::Silent => InputState::Pending,
        };
        let asked =
            requests.into_iter().map(|(key, request)| InputRequest { key, request, state: state.clone() });
        self.scene.inputs.extend(asked);
    }

    fn end(&mut self, outcome: Outcome, debt: CancelDebt) {
        self.scene.task.attempt = 0;
        self.scene.task.phase = match (debt, self.scene.task.phase.remote().cloned()) {
            (CancelDebt::Owed, Some(remote)) => Phase::Cancelling { remote, outcome },
            (CancelDebt::Owed | CancelDebt::None, _) => Phase::Finalised { outcome },
        };
    }
}
