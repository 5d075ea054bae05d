//! Turns an error of the HTTP client into the error of a link, the connection to one server.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use http::{HeaderMap, header};
use url::Url;

use super::Endpoint;
use crate::{
    egress::Refused,
    link::error::{LinkError, Seconds},
    spec::Setting,
    text::quote,
};

impl Endpoint {
    /// Converts an error of the HTTP client. Leaves out the URL in the error, because the URL may hold a secret.
    pub(super) fn link_error(&self, error: reqwest::Error) -> LinkError {
        link_error(error, &self.url, self.spec.open_timeout)
    }
}

/// Converts an error of the HTTP client in a request to `url`. An error before there was a connection becomes
/// [`LinkError::Unreachable`]. Any later error becomes [`LinkError::Broken`]: the server may have executed the request.
fn link_error(error: reqwest::Error, url: &Url, open_timeout: Duration) -> LinkError {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
        if let Some(refused) = source.downcast_ref::<Refused>() {
            return LinkError::Refused(Arc::new(refused.clone()));
        }
    }
    let why = explain(&quote(&innermost.to_string()), url);
    if !error.is_connect() && !error.is_builder() {
        return LinkError::Broken { why };
    }
    // Name the setting of the time-out for opening a connection. Any other time-out was handled above, as a broken
    // connection.
    let why = match error.is_connect() && error.is_timeout() {
        true => format!("no connection within {} ({})", Seconds(open_timeout), Setting::OpenTimeout),
        false => why,
    };
    LinkError::Unreachable { origin: url.origin().ascii_serialization(), why, source: Some(Arc::new(error)) }
}

/// Returns how long the server asks to wait: `Retry-After` in seconds, or as a date (RFC 9110, 10.2.3).
pub(super) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(value).ok()?;
    // A date in the past means no wait.
    Some((date.to_utc() - now).to_std().unwrap_or_default())
}

/// Explains the text of an error of the HTTP client if it means that the other side does not speak HTTP or TLS.
/// Returns any other text unchanged.
fn explain(why: &str, url: &Url) -> String {
    if url.scheme() == "https" && why.contains("InvalidContentType") {
        format!("the server there does not speak TLS ({why}); should it be http://?")
    } else if why.contains("unexpected message") || why.contains("invalid HTTP") {
        format!("what answers there does not speak HTTP ({why})")
    } else {
        why.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_wait_that_a_server_asks_for_is_seconds_or_a_date() {
        let now = "2026-11-28T12:00:00Z".parse().unwrap();
        let wait = |value: &'static str| {
            retry_after(&HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(value))]), now)
        };
        for (value, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sat, 28 Nov 2026 12:01:30 GMT", Some(90)),
            ("Sat, 28 Nov 2026 11:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(wait(value), seconds.map(Duration::from_secs), "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    async fn error_of(url: &str, client: reqwest::ClientBuilder) -> LinkError {
        let error = client.no_proxy().build().unwrap().get(url).send().await.unwrap_err();
        link_error(error, &Url::parse(url).unwrap(), Duration::from_secs(5))
    }

    /// A connection that the system gave up has the same mark in the error as this time-out.
    #[tokio::test]
    async fn a_time_out_of_an_open_connection_does_not_say_that_nothing_was_sent() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        let client = reqwest::Client::builder().read_timeout(Duration::from_millis(1));
        let error = error_of(&url, client).await;
        assert!(matches!(error, LinkError::Broken { .. }), "{error:?}");
        assert!(!error.to_string().contains("open_timeout"), "{error}");
    }

    #[tokio::test]
    async fn a_refused_connection_is_a_server_that_cannot_be_reached() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = error_of(&format!("http://{gone}/"), reqwest::Client::builder()).await;
        assert!(matches!(error, LinkError::Unreachable { .. }), "{error:?}");
        assert!(!error.to_string().contains("open_timeout"), "{error}");
    }
}
