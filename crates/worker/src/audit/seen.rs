//! Replies in a few words for people: never a whole result, never a task id of the server's.

use david_reconciler::{Ack, CallReply, PollReply, Refusal, RemoteStatus};

/// What a server says in its own words is cut to this many characters.
const WORDS: usize = 200;

pub(super) fn call(reply: &CallReply) -> String {
    match reply {
        CallReply::Result(_) => "it answered with a result at once.".to_owned(),
        CallReply::Task { status, .. } => format!("it made a task that is {}.", status.as_str()),
        CallReply::InputRequired { .. } => "it asked for input first.".to_owned(),
        CallReply::Rejected(error) => format!("error {}: {}", error.code, brief(&error.message)),
        CallReply::NotExecuted { detail, .. }
        | CallReply::Unknown { detail }
        | CallReply::Malformed { detail }
        | CallReply::TooLarge { detail } => brief(detail),
    }
}

pub(super) fn poll(reply: &PollReply) -> String {
    match (status(reply), reply) {
        (Some(status), _) => format!("the task is {}.", status.as_str()),
        (None, PollReply::Refused(refused)) => refusal(refused),
        (None, _) => "its result is too large.".to_owned(),
    }
}

pub(super) fn ack(ack: &Ack) -> String {
    match ack {
        Ack::Acknowledged => "acknowledged.".to_owned(),
        Ack::Refused(refused) => refusal(refused),
    }
}

pub(super) fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Gone { .. } => "error -32602, as for an unknown task.".to_owned(),
        Refusal::Unauthorised { detail }
        | Refusal::EndpointForbidden { detail }
        | Refusal::Malformed { detail } => brief(detail),
        Refusal::Transient(trouble) => brief(&trouble.detail),
    }
}

/// The status that a reply shows, if any.
pub(super) fn status(reply: &PollReply) -> Option<RemoteStatus> {
    match reply {
        PollReply::Working(_) => Some(RemoteStatus::Working),
        PollReply::InputRequired { .. } => Some(RemoteStatus::InputRequired),
        PollReply::Completed { .. } => Some(RemoteStatus::Completed),
        PollReply::Failed { .. } => Some(RemoteStatus::Failed),
        PollReply::Cancelled(_) => Some(RemoteStatus::Cancelled),
        PollReply::Refused(_) | PollReply::TooLarge { .. } => None,
    }
}

/// One line, of a bearable length.
fn brief(words: &str) -> String {
    let mut line: String = words.chars().take(WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if words.chars().nth(WORDS).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_stay_one_line_of_bearable_length() {
        assert_eq!(brief("no\r\nSDK_TASKS_EXTENSION=PASS"), "no  SDK_TASKS_EXTENSION=PASS");
        assert_eq!(brief(&"é".repeat(1000)).chars().count(), WORDS + 1);
    }
}
