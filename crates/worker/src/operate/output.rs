//! Writing to stdout: text that cannot play tricks on a terminal, tables, JSON.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

/// How to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// For programs.
    Json,
}

/// Writes text, as it is. A reader that has gone away, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("this cannot be written to stdout"),
    }
}

/// Writes one JSON object on a line.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string(value)?))
}

/// Text of servers and of Core, on one line and without control characters, which a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// JSON as it was stored, but for characters that a terminal would obey: these become escapes, which say the same.
pub(crate) fn plain_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // White space between tokens; within strings JSON does not allow it.
            '\n' | '\t' | '\r' => safe.push(c),
            c if c.is_control() => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}

/// A table with these headings, if any, as wide as the terminal; without a terminal as wide as it needs to be.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if !headings.is_empty() {
        table.set_header(headings.iter().copied());
    }
    if io::stdout().is_terminal()
        && let Some((width, _)) = terminal_size::terminal_size()
    {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.0);
    }
    table
}

/// A length of time in two units at most: `3d 4h`, `10m 3s`, `250ms`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let whole = match seconds {
        0 => return if time.is_zero() { "0s".to_owned() } else { format!("{}ms", time.as_millis().max(1)) },
        1..3600 => seconds,
        3600..86_400 => seconds / 60 * 60,
        _ => seconds / 3600 * 3600,
    };
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")];
    let words: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    words.join(" ")
}

/// An id as it has to stand in a shell.
pub(crate) fn quoted(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    if !id.is_empty() && !id.starts_with('-') && id.bytes().all(plain) {
        return id.to_owned();
    }
    format!("'{}'", self::plain(id).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_would_obey_is_shown() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{9b}d"), "a [2Jb c d");
        let json = plain_json("{\"a\": \"\u{9b}1\u{7f}\"}\n");
        assert_eq!(json, "{\"a\": \"\\u009b1\\u007f\"}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["a"], "\u{9b}1\u{7f}");
    }

    #[test]
    fn a_span_has_two_units_at_most() {
        for (seconds, words) in [
            (0.0, "0s"),
            (0.25, "250ms"),
            (3.9, "3s"),
            (603.0, "10m 3s"),
            (3600.0 + 59.0, "1h"),
            (7500.0, "2h 5m"),
            (3.0 * 86_400.0 + 4.0 * 3600.0 + 5.0, "3d 4h"),
        ] {
            assert_eq!(span(Duration::from_secs_f64(seconds)), words);
        }
    }

    #[test]
    fn an_id_stands_in_a_shell_as_one_word() {
        for (id, word) in [
            ("act_1", "act_1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", "'it'\\''s'"),
            ("-x", "'-x'"),
        ] {
            assert_eq!(quoted(id), word);
        }
    }
}
