//! Output as a document shows it, beside what there is.

/// Line by line, spaces counting as one; `…` stands for anything.
pub fn matches(shown: &str, actual: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| !line.is_empty() && !line.starts_with("--") && !line.contains("-+-"))
            .collect()
    };
    let (shown, actual) = (lines(shown), lines(actual));
    shown.len() == actual.len()
        && shown.iter().zip(&actual).all(|(shown, actual)| {
            let mut rest = actual.as_str();
            let mut parts = shown.split('…');
            let first = parts.next().unwrap_or_default();
            let Some(after) = rest.strip_prefix(first) else { return false };
            rest = after;
            let mut last = None;
            for part in parts {
                let Some(at) = rest.find(part) else { return false };
                rest = &rest[at + part.len()..];
                last = Some(part);
            }
            rest.is_empty() || last == Some("")
        })
}
