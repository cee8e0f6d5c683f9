//! An error with its causes, as one line for a log.

use std::error::Error;

/// The chain of causes, each once: some errors repeat their source's words. (A log in JSON would
/// otherwise hold the outermost words only.)
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let words = cause.to_string();
        if !line.ends_with(&words) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&words);
        }
        next = cause.source();
    }
    line
}
