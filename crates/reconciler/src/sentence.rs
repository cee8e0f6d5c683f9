//! Words of a server made fit to be stored and shown.

use crate::{RemoteTaskId, Snapshot};

/// Longest text that goes into `last_error`, an event or an envelope's message, in characters.
const MAX_CHARS: usize = 500;

/// `text` without the remote task's id, which servers like to repeat in their errors and which may be
/// a bearer secret (DESIGN rule 14); without NUL, which Postgres text cannot hold; and cut to a
/// length a person reads.
pub fn sentence(snapshot: &Snapshot<'_>, text: &str) -> String {
    match snapshot.task.phase.remote() {
        Some(remote) => fit(&without_id(text, &remote.id)),
        None => fit(text),
    }
}

/// An id shorter than this is no secret, and may be part of any word: some servers number their
/// tasks from 1.
const SECRET_BYTES: usize = 8;

fn without_id(text: &str, id: &RemoteTaskId) -> String {
    let part_of_a_word = |before: &str, after: &str| {
        id.expose().len() < SECRET_BYTES
            && (before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric))
    };
    let (mut kept, mut from) = (String::new(), 0);
    for (at, found) in text.match_indices(id.expose()) {
        let (before, after) = (&text[..at], &text[at + found.len()..]);
        if !part_of_a_word(before, after) {
            kept.push_str(&text[from..at]);
            kept.push_str(&id.fingerprint());
            from = at + found.len();
        }
    }
    kept.push_str(&text[from..]);
    kept
}

/// `text` without NUL, and cut: for words that come while no id is known.
pub fn fit(text: &str) -> String {
    let printable = |c| if c == '\0' { '\u{fffd}' } else { c };
    let mut kept: String = text.chars().take(MAX_CHARS).map(printable).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_replaced_and_a_long_text_is_cut_between_characters() {
        assert_eq!(fit("a\0b"), "a\u{fffd}b");
        assert_eq!(fit(&"é".repeat(600)).chars().count(), MAX_CHARS + 1);
    }

    #[test]
    fn an_id_is_hidden_and_a_short_one_leaves_the_words_it_is_part_of_alone() {
        let hide = |text, id| without_id(text, &RemoteTaskId::parse(id).unwrap());
        assert_eq!(
            hide("Task 1 is unknown (code -32601).", "1"),
            "Task sha256:6b86b273ff34 is unknown (code -32601)."
        );
        assert!(!hide("x-secret-7f3a9c-y, secret-7f3a9c", "secret-7f3a9c").contains("secret"));
        assert_eq!(hide("nothing to hide", "secret-7f3a9c"), "nothing to hide");
    }
}
