//! Credentials from a service that hands out short-lived tokens.
//!
//! ```text
//! POST <broker>   Content-Type: application/json   [Authorization: Bearer <the worker's own token>]
//! {"credential_id": "cred_1", "refused": false}
//!
//! 200   {"access_token": "…", "expires_in": 300}       seconds, as in RFC 6749 §5.1; 60 when missing
//! 404   the credential does not exist
//! ```
//!
//! `refused` is true when the server has just refused the last token. Anything else is trouble that may
//! pass.

use std::path::PathBuf;
use std::time::Duration;

use david_reconciler::CredentialId;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::{CredentialError, Fetched, SOURCE_TIMEOUT, Token, Want};

/// Longest reply that is read, in bytes.
const MAX_REPLY: usize = 128 * 1024;

/// When a reply does not say how long its token lasts.
const DEFAULT_LIFE: Duration = Duration::from_secs(60);

/// A token is replaced this long before it expires, or at nine tenths of a shorter life.
const MARGIN: Duration = Duration::from_secs(30);

/// The broker.
#[derive(Debug)]
pub struct Broker {
    http: reqwest::Client,
    url: Url,
    /// Holds the worker's own token; read on every request, since it may be rotated.
    token_file: Option<PathBuf>,
}

/// A broker that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Not a URL.
    #[error("the URL of the credential broker cannot be read; write it like https://broker.internal/token")]
    Url(#[source] url::ParseError),
    /// Another scheme, or a credential in it, which would be logged.
    #[error("the credential broker's URL must be http or https and hold no user name or password")]
    Unfit,
    /// No HTTP client.
    #[error("the HTTP client cannot be set up")]
    Http(#[source] reqwest::Error),
}

impl Broker {
    /// A broker at `url`, to which the worker shows the token in `token_file`.
    ///
    /// # Errors
    /// When the URL is none, or not fit.
    pub fn new(url: &str, token_file: Option<PathBuf>) -> Result<Self, BrokerError> {
        let url = Url::parse(url).map_err(BrokerError::Url)?;
        let plain = url.username().is_empty() && url.password().is_none();
        if !plain || !matches!(url.scheme(), "http" | "https") {
            return Err(BrokerError::Unfit);
        }
        // An error says that the process has one already, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(SOURCE_TIMEOUT)
            .build()
            .map_err(BrokerError::Http)?;
        Ok(Self { http, url, token_file })
    }

    pub(super) async fn fetch(&self, id: &CredentialId, want: Want) -> Result<Fetched, CredentialError> {
        let trouble = |what: &str| CredentialError::Unavailable(format!("The credential broker {what}."));
        let body = json!({ "credential_id": id.as_str(), "refused": want == Want::Another });
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(body.to_string());
        if let Some(header) = self.authorization().await? {
            request = request.header(AUTHORIZATION, header);
        }
        let asked = Instant::now();
        let mut response = request.send().await.map_err(|_| trouble("cannot be reached"))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Err(CredentialError::Missing(format!(
                    "The credential broker does not know the credential {id}."
                )));
            }
            status => return Err(trouble(&format!("answered with HTTP status {}", status.as_u16()))),
        }
        let mut reply = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| trouble("broke off its reply"))? {
            if reply.len() + chunk.len() > MAX_REPLY {
                return Err(trouble("sent a reply that is too long"));
            }
            reply.extend_from_slice(&chunk);
        }
        // No cause is repeated from here on: it might quote the token.
        let reply: Value = serde_json::from_slice(&reply).map_err(|_| trouble("did not send JSON"))?;
        let token = reply.get("access_token").and_then(Value::as_str);
        let token = token.ok_or_else(|| trouble("sent no access_token"))?;
        let token =
            Token::parse(token).map_err(|why| trouble(&format!("sent an access_token that {why}")))?;
        Ok(Fetched { token, until: asked + usable(reply.get("expires_in")) })
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, CredentialError> {
        let Some(path) = self.token_file.clone() else { return Ok(None) };
        let unreadable = || {
            CredentialError::Unavailable("The worker's own token for the broker cannot be read.".to_owned())
        };
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
        let text = SecretString::from(read.await.map_err(|_| unreadable())?.map_err(|_| unreadable())?);
        let token = Token::parse(secrecy::ExposeSecret::expose_secret(&text)).map_err(|_| unreadable())?;
        let mut header =
            HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| unreadable())?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// How long a token may be used. Whatever a broker says is bounded.
fn usable(expires_in: Option<&Value>) -> Duration {
    const LONGEST: f64 = 24.0 * 3600.0;
    let life = expires_in
        .and_then(Value::as_f64)
        .map_or(DEFAULT_LIFE, |seconds| Duration::from_secs_f64(seconds.clamp(0.0, LONGEST)));
    life.saturating_sub(MARGIN.min(life / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_shortly_before_it_expires_and_no_lifetime_breaks_that() {
        for (expires_in, seconds) in [
            (json!(300), 270.0),
            (json!(600.5), 570.5),
            (json!(10), 9.0),
            (json!(0), 0.0),
            (json!(-5), 0.0),
            (json!(u64::MAX), 24.0 * 3600.0 - 30.0),
            (json!(1e300), 24.0 * 3600.0 - 30.0),
            (json!("soon"), 54.0),
            (Value::Null, 54.0),
        ] {
            let usable = usable(Some(&expires_in)).as_secs_f64();
            assert!((usable - seconds).abs() < 0.01, "{expires_in}: {usable}");
        }
        assert_eq!(usable(None), Duration::from_secs(54));
    }

    #[test]
    fn a_broker_is_an_http_url_without_a_password() {
        for url in ["", "broker", "ftp://broker/", "https://user:hunter2@broker/", "file:///etc/passwd"] {
            let error = Broker::new(url, None).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("hunter2"), "{url}");
        }
        assert!(Broker::new("http://127.0.0.1:1/token", None).is_ok());
    }
}
