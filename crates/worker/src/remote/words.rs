//! What errors say only in words: a status, a delay, a cause.

use std::error::Error;
use std::time::Duration;

use david_reconciler::RetryAfter;

/// Statuses other than 429 and 5xx reach us only as text: `HTTP 404 Not Found: …`.
pub(super) fn status_in(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("HTTP ")?.get(..3)?;
    digits.parse().ok()
}

/// A 4xx of the handshake reaches us as an error that the SDK has made up, body and all.
pub(super) fn discovery_status(message: &str) -> Option<u16> {
    status_in(message.strip_prefix("server/discover rejected with ")?)
}

/// An event over the cap ends its stream with an error that only says so.
pub(super) fn says_event_too_large(text: &str) -> bool {
    text.starts_with("SSE event exceeded the maximum size")
}

/// Seconds or an HTTP date.
pub(super) fn retry_after(value: &str) -> RetryAfter {
    if let Ok(seconds) = value.trim().parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a server's date is turned into a delay; no stored instant is involved"
    )]
    let now = std::time::SystemTime::now();
    Some(at.duration_since(now).unwrap_or_default())
}

/// An error and its sources, as one sentence.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    words
}

/// The innermost cause: reqwest's own words repeat the URL.
pub(super) fn root(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_the_sdks_words_and_from_no_others() {
        assert_eq!(status_in("HTTP 404 Not Found: nothing here"), Some(404));
        assert_eq!(status_in("HTTP 418: "), Some(418));
        for other in
            ["", "HTTP ", "HTTP 40", "HTTP abc", "HTTP \u{e9}\u{e9}", "could not parse JSON: HTTP 404"]
        {
            assert_eq!(status_in(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_handshakes_status_is_read_from_the_error_the_sdk_makes_of_it() {
        assert_eq!(
            discovery_status("server/discover rejected with HTTP 405 Method Not Allowed: "),
            Some(405)
        );
        assert_eq!(discovery_status("HTTP 405 Method Not Allowed: "), None);
    }

    #[test]
    fn an_event_over_the_cap_is_told_from_other_ends_of_a_stream() {
        assert!(says_event_too_large("SSE event exceeded the maximum size of 4096 bytes"));
        assert!(!says_event_too_large("error decoding response body"));
    }

    #[test]
    fn a_delay_is_seconds_or_a_date() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("18446744073709551615"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let far = retry_after("Fri, 31 Dec 9999 23:59:59 GMT");
        assert!(far.is_some_and(|delay| delay > Duration::from_secs(365 * 24 * 3600)));
        for nonsense in ["", "soon", "-1", "1.5", "18446744073709551616"] {
            assert_eq!(retry_after(nonsense), None, "{nonsense:?}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Cause(&'static str, #[source] Option<Box<Cause>>);

    #[test]
    fn a_chain_names_each_cause_once_and_its_root_is_the_last() {
        let error =
            Cause("a failed: b failed", Some(Box::new(Cause("b failed", Some(Box::new(Cause("c", None)))))));
        assert_eq!(chain(&error), "a failed: b failed: c");
        assert_eq!(root(&error), "c");
    }
}
