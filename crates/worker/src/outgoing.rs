//! What a leased row has to say to its server, and to whom.

use david_reconciler::{Answer, InputState};
use david_schema::Leased;

use crate::progress::News;
use crate::remote::{Target, ToolRequest};

/// Where its server is; none when the registration is gone.
pub(crate) fn target(leased: &Leased) -> Option<Target> {
    let endpoint = &leased.registered.as_ref()?.endpoint;
    Some(Target {
        registration_id: leased.task.registration_id.clone(),
        url: endpoint.url.clone(),
        credential: endpoint.credential.clone(),
    })
}

/// Its `tools/call`, if that can be sent at all.
pub(crate) fn tool_request(leased: &Leased) -> Result<ToolRequest, &'static str> {
    let request = leased.request.as_ref().ok_or("The Action does not say what to call.")?;
    let arguments = serde_json::from_str(&request.arguments)
        .map_err(|_| "The arguments are JSON that cannot be sent: a number beyond any double, half a surrogate pair, or more than 128 levels.")?;
    let answers = leased.inputs.iter().filter_map(|input| match &input.state {
        InputState::Answered(response) | InputState::Sending(response) => {
            Some(Answer { key: input.key.clone(), response: response.clone() })
        }
        InputState::Pending | InputState::Sent => None,
    });
    Ok(ToolRequest {
        tool: request.tool.clone(),
        arguments,
        request_state: request.request_state.clone(),
        input_responses: answers.collect(),
        trace: None,
    })
}

/// News of its Action, with nothing in it yet.
pub(crate) fn news(leased: &Leased) -> News {
    News {
        run: leased.run.id.clone(),
        action: leased.task.action_id.clone(),
        tool_call: leased.call.tool_call_id.clone(),
        message: None,
        progress: None,
        total: None,
    }
}
