//! HTTP statuses without a JSON-RPC body, which proxies and gateways send in the server's place.

use david_testkit::Reply;

use crate::support::{Row, check, row};

fn with(status: u16, headers: &[(&str, &str)]) -> Reply {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Reply::Status(status, headers, String::new())
}

const CHALLENGE: (&str, &str) = ("www-authenticate", "Bearer resource_metadata=\"https://as.example\"");

#[tokio::test]
async fn a_refused_credential_is_unauthorised_with_or_without_a_challenge() {
    check(vec![
        row("401 with a challenge", with(401, &[CHALLENGE]), "unauthorised", "Unauthorised"),
        row("403 with a challenge", with(403, &[CHALLENGE]), "unauthorised", "Unauthorised"),
        row("401 without", with(401, &[]), "unauthorised", "Unauthorised"),
        row("403 without", with(403, &[]), "unauthorised", "Unauthorised"),
        row(
            "401 with a JSON-RPC error",
            Reply::Status(
                401,
                vec![("content-type".to_owned(), "application/json".to_owned())],
                r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"who?"}}"#.to_owned(),
            ),
            "unauthorised",
            "Unauthorised",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back_in_seconds_or_as_a_date() {
    let limited = |value| with(429, &[("retry-after", value)]);
    check(vec![
        row("429", with(429, &[]), "transient", "RateLimited"),
        row("429, seconds", limited("7"), "transient after 7s", "RateLimited after 7s"),
        row(
            "429, a date to come",
            limited("Fri, 31 Dec 9999 23:59:59 GMT"),
            "transient after years",
            "RateLimited after years",
        ),
        row(
            "429, a date gone by",
            limited("Sun, 06 Nov 1994 08:49:37 GMT"),
            "transient after 0ns",
            "RateLimited after 0ns",
        ),
        row("429, nonsense", limited("soon"), "transient", "RateLimited"),
        row("429, negative", limited("-1"), "transient", "RateLimited"),
    ])
    .await;
}

/// A gateway's 5xx does not tell whether the server behind it ran the tool.
#[tokio::test]
async fn a_server_in_trouble_is_asked_again_but_not_called_again() {
    let statuses = [408, 500, 501, 502, 503, 504];
    let mut rows: Vec<Row> =
        statuses.map(|status| row("408 or 5xx", with(status, &[]), "transient", "unknown")).into();
    rows.push(row("503, seconds", with(503, &[("retry-after", "5")]), "transient after 5s", "unknown"));
    check(rows).await;
}

/// Such a call was refused by HTTP and hardly executed, but that is no proof; it was answered all the
/// same, and a repeat would not be answered better. So it ends as `protocol_error` and is never made
/// again.
#[tokio::test]
async fn any_other_status_is_not_an_answer_of_the_protocol() {
    let statuses = [400, 402, 404, 405, 406, 410, 413, 415, 418, 421, 422];
    check(statuses.map(|status| row("4xx", with(status, &[]), "malformed", "malformed")).into()).await;
}
