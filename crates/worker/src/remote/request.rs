//! The four requests, each bounded by its deadline.

use david_reconciler::{Ack, Answer, CallReply, PollReply, RemoteState, RemoteTaskId};
use david_schema::{TraceContext, causes};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, ClientRequest,
    GetTaskParams, GetTaskRequest, InputResponses, RequestMetaObject, ServerResult, UpdateTaskParams,
    UpdateTaskRequest,
};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{RoleClient, ServiceError};
use tokio::time::Instant;

use super::failure::{Failure, Refused};
use super::{Clients, Listener, Target, ToolRequest, tolerant};

impl Clients {
    /// `tools/call`, once. Whatever happens is told by the reply, and so is whether the tool may
    /// have run.
    ///
    /// Only a header mismatch is followed by a second one: the server refused before anything ran,
    /// and the SDK sends parameters as headers, too, once it has seen the tool list.
    pub async fn call_tool(&self, target: &Target, request: ToolRequest, deadline: Instant) -> CallReply {
        self.call_tool_and_listen(target, request, deadline, None).await
    }

    /// [`Clients::call_tool`], and whoever listens is told what the server reports meanwhile.
    pub async fn call_tool_and_listen(
        &self,
        target: &Target,
        request: ToolRequest,
        deadline: Instant,
        listener: Option<Listener>,
    ) -> CallReply {
        let began = Instant::now();
        let mut params =
            CallToolRequestParams::new(request.tool.as_str().to_owned()).with_arguments(request.arguments);
        params.request_state = request.request_state.map(|state| state.as_str().to_owned());
        if !request.input_responses.is_empty() {
            params.input_responses = Some(responses(&request.input_responses));
        }
        let options = Options { listener, meta: request.trace.map(meta_of) };
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut answer = self.send_with(target, request.clone(), deadline, options.clone()).await;
        if answer.as_ref().is_err_and(Failure::is_header_mismatch)
            && self.tools(target, deadline).await.is_ok()
        {
            answer = self.send_with(target, request, deadline, options).await;
        }
        match answer.map(tolerant::call_reply) {
            Ok(CallReply::Task { state, status }) => {
                CallReply::Task { state: RemoteState { took: began.elapsed(), ..state }, status }
            }
            Ok(reply) => reply,
            Err(failure) => failure.of_call(),
        }
    }

    /// `tasks/get`.
    pub async fn get_task(&self, target: &Target, id: &RemoteTaskId, deadline: Instant) -> PollReply {
        let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id.expose())));
        match self.send(target, request, deadline).await {
            Ok(result) => tolerant::poll_reply(id, result),
            Err(failure) => match failure.of_task() {
                Refused::Refusal(refusal) => PollReply::Refused(refusal),
                Refused::TooLarge(detail) => PollReply::TooLarge { detail },
            },
        }
    }

    /// `tasks/update` with these answers.
    pub async fn update_task(
        &self,
        target: &Target,
        id: &RemoteTaskId,
        answers: &[Answer],
        deadline: Instant,
    ) -> Ack {
        let params = UpdateTaskParams::new(id.expose(), responses(answers));
        let request = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params));
        ack(self.send(target, request, deadline).await)
    }

    /// `tasks/cancel`.
    pub async fn cancel_task(&self, target: &Target, id: &RemoteTaskId, deadline: Instant) -> Ack {
        let params = CancelTaskParams::new(id.expose());
        let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(params));
        ack(self.send(target, request, deadline).await)
    }

    pub(super) async fn send(
        &self,
        target: &Target,
        request: ClientRequest,
        deadline: Instant,
    ) -> Result<ServerResult, Failure> {
        self.send_with(target, request, deadline, Options::default()).await
    }

    async fn send_with(
        &self,
        target: &Target,
        request: ClientRequest,
        deadline: Instant,
        options: Options,
    ) -> Result<ServerResult, Failure> {
        let began = Instant::now();
        let result = self.exchange(target, request, deadline, options).await;
        if let Some(health) = &self.health {
            let answered = match &result {
                Err(failure) if failure.is_silence() => Err(failure.detail()),
                Ok(_) | Err(_) => Ok(began.elapsed()),
            };
            health.seen(&target.registration_id, answered);
        }
        result
    }

    async fn exchange(
        &self,
        target: &Target,
        request: ClientRequest,
        deadline: Instant,
        Options { listener, meta }: Options,
    ) -> Result<ServerResult, Failure> {
        let lent = self.lend(target, deadline).await?;
        if let Some(bearer) = &lent.bearer {
            // Fetched here, where a deadline still means that nothing was sent; the POST finds it ready.
            match tokio::time::timeout_at(deadline, bearer.token()).await {
                Ok(Ok(_ready)) => {}
                Ok(Err(error)) => return Err(Failure::of_credential(&error)),
                Err(_elapsed) => return Err(Failure::no_credential_in_time()),
            }
        }
        if Instant::now() >= deadline {
            return Err(Failure::connect_timeout());
        }
        let answered = async {
            let mut options = PeerRequestOptions::no_options();
            options.meta = meta;
            let sent = lent.peer.send_request_with_option(request, options).await;
            let handle = sent.map_err(|error| Failure::of_request(&error))?;
            let id = handle.id.clone();
            let _listening =
                listener.map(|listener| lent.listeners.listen(handle.progress_token.clone(), listener));
            InFlight(Some(handle)).answer().await.map_err(|error| {
                if lent.oversized.take(&id) {
                    Failure::too_large(self.limits.response_bytes)
                } else {
                    Failure::of_request(&error)
                }
            })
        };
        let failure = match tokio::time::timeout_at(deadline, answered).await {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(failure)) => failure,
            Err(_elapsed) => Failure::timeout(),
        };
        if failure.wants_another_handshake() {
            self.retire(target, &lent);
        }
        Err(failure)
    }
}

/// What only some requests have.
#[derive(Clone, Default)]
struct Options {
    /// Told what the server reports meanwhile.
    listener: Option<Listener>,
    /// Sent as `_meta`, beside what the SDK puts there.
    meta: Option<RequestMetaObject>,
}

fn meta_of(trace: TraceContext) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(trace.traceparent);
    if let Some(state) = trace.tracestate {
        meta.set_tracestate(state);
    }
    meta
}

/// A request whose answer is awaited. Dropping the SDK's handle would leave its POST open for as
/// long as the server likes; dropping this one, at the deadline or at a stop, ends it. (That ends
/// the *request*. A task is only ever cancelled by `tasks/cancel`: PROTOCOL 12.)
struct InFlight(Option<RequestHandle<RoleClient>>);

impl InFlight {
    async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // No runtime means the process is ending, and the connection with it.
        if let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = handle.cancel(Some("abandoned".to_owned())).await {
                    tracing::debug!(error = causes(&error), "an abandoned request was not told");
                }
            });
        }
    }
}

fn responses(answers: &[Answer]) -> InputResponses {
    answers.iter().map(|answer| (answer.key.to_string(), answer.response.clone())).collect()
}

/// Acknowledgements are empty; anything but an error is one.
fn ack(result: Result<ServerResult, Failure>) -> Ack {
    match result {
        Ok(_) => Ack::Acknowledged,
        Err(failure) => match failure.of_task() {
            Refused::Refusal(refusal) => Ack::Refused(refusal),
            // The reply to a request that was taken in; its size does not matter.
            Refused::TooLarge(_) => Ack::Acknowledged,
        },
    }
}
