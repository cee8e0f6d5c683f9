//! Any row, any surroundings, any observation.

use std::time::Duration;

use david_reconciler::{
    Ack, Authority, CallReply, Fence, InputKey, InputPolicy, InputState, InputSubject, Jitter, NotExecuted,
    Observation, Outcome, Phase, Policy, PollReply, Refusal, RemoteState, RemoteStatus, RemoteTask, Repeat,
    RequestState, RunState, Timestamp, Trouble, Verdict,
};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::scene::{NOW, SECRET_ID, Scene, answer, error, question, remote, result, state};

/// What a server may say as milliseconds.
fn millis() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 1..100_000_u64, any::<u64>(), Just(u64::MAX)].prop_map(Duration::from_millis)
}

fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        -10_000_000..10_000_000_i64,
        -1_000_000_000..1_000_000_000_i64,
        any::<i64>(),
        Just(0),
        Just(i64::MAX)
    ]
    .prop_map(|by| Timestamp(NOW.0.saturating_add(by)))
}

fn some_remote() -> impl Strategy<Value = RemoteTask> {
    (option::of(instant()), option::of(millis()), option::of(millis())).prop_map(
        |(expires_at, ttl, poll_interval)| RemoteTask { expires_at, ttl, poll_interval, ..remote() },
    )
}

fn some_state() -> impl Strategy<Value = RemoteState> {
    (option::of(millis()), option::of(millis()), millis())
        .prop_map(|(ttl, poll_interval, took)| RemoteState { took, ttl, poll_interval, ..state() })
}

fn some_outcome() -> impl Strategy<Value = Outcome> {
    select(Outcome::ALL.as_slice())
}

fn some_phase() -> BoxedStrategy<Phase> {
    let of_task = (some_remote(), instant())
        .prop_map(|(remote, since)| Phase::InputRequired { subject: InputSubject::Task(remote), since });
    let of_call = (option::of(Just(RequestState::new("s"))), instant()).prop_map(|(request_state, since)| {
        Phase::InputRequired { subject: InputSubject::Call { request_state }, since }
    });
    prop_oneof![
        Just(Phase::Queued),
        Just(Phase::Calling { call_fence: Fence(2) }),
        some_remote().prop_map(|remote| Phase::Working { remote }),
        of_task,
        of_call,
        (some_remote(), some_outcome()).prop_map(|(remote, outcome)| Phase::Cancelling { remote, outcome }),
        some_outcome().prop_map(|outcome| Phase::Finalised { outcome }),
    ]
    .boxed()
}

fn some_authority() -> BoxedStrategy<Authority> {
    prop_oneof![
        4 => Just(Authority::Granted),
        1 => Just(Authority::Missing),
        1 => Just(Authority::Disabled),
        1 => Just(Authority::NotOwner),
        1 => Just(Authority::EndpointForbidden { reason: "No.\0".to_owned() }),
        1 => Just(Authority::NoCredential { reason: "None.\0".to_owned() }),
    ]
    .boxed()
}

fn some_policy() -> BoxedStrategy<Policy> {
    let hasty = Policy {
        give_up_attempts: 2,
        malformed_attempts: 1,
        unauthorised_attempts: 1,
        cancel_attempts: 1,
        input_rounds: 1,
        ..Policy::default()
    };
    (select(vec![Policy::default(), hasty]), select(vec![InputPolicy::Surface, InputPolicy::Fail]))
        .prop_map(|(policy, input)| Policy { input, ..policy })
        .boxed()
}

fn some_inputs() -> BoxedStrategy<Vec<(&'static str, InputState)>> {
    let state = select(vec![
        InputState::Pending,
        InputState::Answered(answer()),
        InputState::Sending(answer()),
        InputState::Sent,
    ]);
    (btree_set(select(vec!["a", "b", "c"]), 0..=3), vec(state, 3))
        .prop_map(|(keys, states)| keys.into_iter().zip(states).collect())
        .boxed()
}

fn counter() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..10_u32, 1 => 990..1_010_u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

prop_compose! {
    /// Any row in any surroundings.
    pub(super) fn some_scene()(
        phase in some_phase(),
        authority in some_authority(),
        run in prop_oneof![3 => Just(RunState::Live), 1 => Just(RunState::Cancelled)],
        repeat in select(vec![Repeat::Never, Repeat::Idempotent]),
        policy in some_policy(),
        counters in (0..7_u32, counter(), counter(), prop_oneof![0..20_u32, any::<u32>()]),
        deadline in instant(),
        timeout in millis(),
        inputs in some_inputs(),
        jitter in -100..=100_i16,
    ) -> Scene {
        Scene::of(phase).with(|scene| {
            scene.authority = authority;
            scene.run.state = run;
            scene.call.repeat = repeat;
            scene.call.request_timeout = timeout;
            scene.policy = policy;
            (scene.task.lapses, scene.task.attempt, scene.task.polls, scene.task.input_round) = counters;
            scene.task.execution_deadline = deadline;
            scene.inputs = Scene::asking(&inputs).inputs;
            scene.jitter = Jitter::thousandths(jitter);
        })
    }
}

/// What a server may say to people.
fn words() -> impl Strategy<Value = String> {
    select(vec![
        String::new(),
        "Out of order.".to_owned(),
        format!("unknown task: {SECRET_ID}\0"),
        "é".repeat(501),
        "\"}\\\u{2028}\u{1f41b}".to_owned(),
    ])
}

fn some_refusal() -> BoxedStrategy<Refusal> {
    prop_oneof![
        words().prop_map(|message| Refusal::Gone { message }),
        words().prop_map(|detail| Refusal::Unauthorised { detail }),
        words().prop_map(|detail| Refusal::Malformed { detail }),
        words().prop_map(|detail| Refusal::EndpointForbidden { detail }),
        (words(), option::of(millis()))
            .prop_map(|(detail, retry_after)| Refusal::Transient(Trouble { detail, retry_after })),
    ]
    .boxed()
}

fn some_requests() -> BoxedStrategy<Vec<(InputKey, Value)>> {
    let request = select(vec![question(), json!({ "method": "roots/list" })]);
    (btree_set(select(vec!["a", "b", "c", "d"]), 0..=4), vec(request, 4))
        .prop_map(|(keys, requests)| keys.into_iter().map(InputKey::new).zip(requests).collect())
        .boxed()
}

fn some_result() -> impl Strategy<Value = david_reconciler::ToolResult> {
    select(vec![Verdict::Success, Verdict::Error]).prop_map(result)
}

/// Any reply to `tools/call`.
pub(super) fn some_call_reply() -> BoxedStrategy<CallReply> {
    let status = select(vec![
        RemoteStatus::Working,
        RemoteStatus::InputRequired,
        RemoteStatus::Completed,
        RemoteStatus::Failed,
        RemoteStatus::Cancelled,
    ]);
    let proof = select(vec![
        NotExecuted::NeverSent,
        NotExecuted::Unauthorised,
        NotExecuted::RateLimited,
        NotExecuted::Unsupported,
        NotExecuted::EndpointForbidden,
    ]);
    prop_oneof![
        1 => some_result().prop_map(CallReply::Result),
        2 => (some_state(), status).prop_map(|(state, status)| CallReply::Task { state, status }),
        2 => (some_requests(), option::of(Just(RequestState::new("s"))))
            .prop_map(|(requests, request_state)| CallReply::InputRequired { requests, request_state }),
        1 => any::<i64>().prop_map(|code| CallReply::Rejected(error(code))),
        2 => (proof, words(), option::of(millis()))
            .prop_map(|(proof, detail, retry_after)| CallReply::NotExecuted { proof, detail, retry_after }),
        1 => words().prop_map(|detail| CallReply::Unknown { detail }),
        1 => words().prop_map(|detail| CallReply::Malformed { detail }),
        1 => words().prop_map(|detail| CallReply::TooLarge { detail }),
    ]
    .boxed()
}

/// Any reply to `tasks/get`.
pub(super) fn some_poll_reply() -> BoxedStrategy<PollReply> {
    prop_oneof![
        2 => some_state().prop_map(PollReply::Working),
        4 => (some_state(), some_requests())
            .prop_map(|(state, requests)| PollReply::InputRequired { state, requests }),
        1 => (some_state(), some_result()).prop_map(|(state, result)| PollReply::Completed { state, result }),
        1 => (some_state(), any::<i64>())
            .prop_map(|(state, code)| PollReply::Failed { state, error: error(code) }),
        1 => some_state().prop_map(PollReply::Cancelled),
        2 => some_refusal().prop_map(PollReply::Refused),
        1 => words().prop_map(|detail| PollReply::TooLarge { detail }),
    ]
    .boxed()
}

/// Any reply to `tasks/update` or `tasks/cancel`.
pub(super) fn some_ack() -> BoxedStrategy<Ack> {
    prop_oneof![1 => Just(Ack::Acknowledged), 2 => some_refusal().prop_map(Ack::Refused)].boxed()
}

/// Anything that may be seen, whether or not it can be in that phase.
pub(super) fn some_observation() -> BoxedStrategy<Observation> {
    prop_oneof![
        3 => some_call_reply().prop_map(Observation::Call),
        3 => some_poll_reply().prop_map(Observation::Poll),
        1 => some_ack().prop_map(Observation::Update),
        1 => some_ack().prop_map(Observation::Cancel),
    ]
    .boxed()
}
