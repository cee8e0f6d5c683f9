//! Words of a server made fit to be stored and shown.

/// Longest text that goes into `last_error`, an event or an envelope's message, in characters.
const MAX_CHARS: usize = 500;

/// `text` without NUL, which Postgres text cannot hold, and cut to a length a person reads.
pub(crate) fn sentence(text: &str) -> String {
    let mut kept: String =
        text.chars().take(MAX_CHARS).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
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
        assert_eq!(sentence("a\0b"), "a\u{fffd}b");
        let long = "é".repeat(600);
        assert_eq!(sentence(&long).chars().count(), MAX_CHARS + 1);
    }
}
