//! The fields of log lines and spans, as the source names them.

use std::collections::BTreeSet;
use std::path::Path;

/// What begins a line or a span.
const MACROS: [&str; 10] = [
    "trace!(",
    "debug!(",
    "info!(",
    "warn!(",
    "error!(",
    "trace_span!(",
    "debug_span!(",
    "info_span!(",
    "warn_span!(",
    "error_span!(",
];

/// The names of all fields in `tracing::…!(…)` below a folder.
///
/// # Panics
/// When a file cannot be read, or a macro is written in a way that this does not understand.
pub fn in_source(folder: &Path) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap_or_else(|error| panic!("{error}")).path();
        if path.is_dir() {
            fields.append(&mut in_source(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
            for arguments in macros(&text) {
                let named = arguments.iter().filter_map(|argument| field(argument));
                fields.extend(named.inspect(|name| {
                    let legal = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '.');
                    assert!(name.chars().all(legal), "{}: {name:?} of {arguments:?}", path.display());
                }));
            }
        }
    }
    fields
}

/// The arguments of every macro in a file, up to the message.
fn macros(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("tracing::") {
        let rest = &text[at + "tracing::".len()..];
        let Some(name) = MACROS.into_iter().find(|name| rest.starts_with(name)) else { continue };
        found.push(arguments(&rest[name.len()..], name.contains("span")));
    }
    found
}

/// Splits at the commas that are in nothing else. Of a line the message, a string, ends what is named; of a span it is
/// the first argument.
fn arguments(text: &str, span: bool) -> Vec<String> {
    let (mut all, mut one) = (Vec::new(), String::new());
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    for c in text.chars() {
        if quoted {
            one.push(c);
            (quoted, escaped) = (escaped || c != '"', c == '\\' && !escaped);
            continue;
        }
        match c {
            '"' => quoted = true,
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(std::mem::take(&mut one).trim().to_owned());
                continue;
            }
            _ => {}
        }
        one.push(c);
    }
    all.push(one.trim().to_owned());
    let message = |argument: &String| argument.starts_with('"');
    let fields = if span { all.split_off(1) } else { all.into_iter().take_while(|a| !message(a)).collect() };
    fields.into_iter().filter(|argument| !argument.is_empty()).collect()
}

/// `name = value`, or a value that names itself: `%error`, `?committed`, `reason`.
fn field(argument: &str) -> Option<String> {
    let named = argument.split_once('=').filter(|(name, _)| !name.contains(['(', '"', '!', '<', '>']));
    let name = named.map_or(argument, |(name, _)| name).trim();
    let name = name.trim_start_matches(['%', '?']).trim();
    // What is said of the line itself.
    (!matches!(name.split(':').next(), Some("target" | "parent")) || !name.contains(':'))
        .then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_however_they_are_written() {
        let text = r#"
            tracing::info!(run.id = %leased.run.id, attempt = task.attempt, ?committed, %error, reason, "a, b = {}", sentence(x));
            tracing::warn!(error = causes(&error, (1, 2)), "text \" with = quotes, and commas");
            tracing::debug!("nothing = {}", here);
            tracing::info_span!("call", otel.name = "a, b", lease.fence = fence.0,);
        "#;
        let found: Vec<String> =
            macros(text).iter().flatten().filter_map(|argument| field(argument)).collect();
        assert_eq!(
            found,
            ["run.id", "attempt", "committed", "error", "reason", "error", "otel.name", "lease.fence"]
        );
    }
}
