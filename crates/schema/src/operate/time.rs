//! An instant as the database shows it in JSON.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant of the database's clock: RFC 3339 in UTC, or `infinity`, which Postgres knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time {
    text: String,
    at: Option<SystemTime>,
}

impl Time {
    /// Reads what Postgres writes; what is no date of RFC 3339 is kept as it is.
    pub fn parse(text: &str) -> Self {
        let utc = text.strip_suffix("+00:00").map(|date| format!("{date}Z"));
        match humantime::parse_rfc3339(utc.as_deref().unwrap_or(text)) {
            Ok(at) => Self { text: humantime::format_rfc3339_millis(at).to_string(), at: Some(at) },
            Err(_) => Self { text: text.to_owned(), at: None },
        }
    }

    /// How long before `now` it was; none when it was not before, or is no date.
    pub fn before(&self, now: &Self) -> Option<Duration> {
        now.at?.duration_since(self.at?).ok()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_instants_become_rfc_3339_and_infinity_stays() {
        let early = Time::parse("2026-07-28T10:00:00.5+00:00");
        let late = Time::parse("2026-07-28T10:00:02+00:00");
        assert_eq!(early.to_string(), "2026-07-28T10:00:00.500Z");
        assert_eq!(early.before(&late), Some(Duration::from_millis(1500)));
        assert_eq!(late.before(&early), None);
        let never = Time::parse("infinity");
        assert_eq!((never.to_string().as_str(), never.before(&late)), ("infinity", None));
    }
}
