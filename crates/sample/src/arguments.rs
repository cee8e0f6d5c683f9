//! The arguments of a call, with defaults.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::JsonObject;

/// Arguments as the client sent them. A value of the wrong type is refused; unknown names are ignored.
#[derive(Debug, Default)]
pub(crate) struct Arguments(JsonObject);

impl Arguments {
    pub(crate) fn new(arguments: Option<JsonObject>) -> Self {
        Self(arguments.unwrap_or_default())
    }

    /// By what the ledger counts.
    pub(crate) fn key(&self) -> Option<&str> {
        self.0.get("key")?.as_str()
    }

    pub(crate) fn text(&self, name: &str, default: &str) -> Result<String, ErrorData> {
        match self.0.get(name) {
            None => Ok(default.to_owned()),
            Some(value) => value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "a string")),
        }
    }

    pub(crate) fn count(&self, name: &str, default: u32) -> Result<u32, ErrorData> {
        match self.0.get(name) {
            None => Ok(default),
            Some(value) => value
                .as_u64()
                .and_then(|count| u32::try_from(count).ok())
                .ok_or_else(|| wrong(name, "a whole number, not negative")),
        }
    }

    /// `seconds`, a number that need not be whole.
    pub(crate) fn seconds(&self, default: f64) -> Result<Duration, ErrorData> {
        let seconds = match self.0.get("seconds") {
            None => default,
            Some(value) => value.as_f64().ok_or_else(|| wrong("seconds", "a number"))?,
        };
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong("seconds", "a duration, not negative"))
    }
}

fn wrong(name: &str, expected: &str) -> ErrorData {
    ErrorData::invalid_params(format!("argument `{name}` must be {expected}"), None)
}
