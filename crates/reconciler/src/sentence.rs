//! Words of a server made fit to be stored and shown.

use crate::Snapshot;

/// Longest text that goes into `last_error`, an event or an envelope's message, in characters.
const MAX_CHARS: usize = 500;

/// `text` without the remote task's id, which servers like to repeat in their errors and which may be
/// a bearer secret (DESIGN rule 14); without NUL, which Postgres text cannot hold; and cut to a
/// length a person reads.
pub(crate) fn sentence(snapshot: &Snapshot<'_>, text: &str) -> String {
    match snapshot.task.phase.remote() {
        Some(remote) => fit(&text.replace(remote.id.expose(), &remote.id.fingerprint())),
        None => fit(text),
    }
}

fn fit(text: &str) -> String {
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
}
