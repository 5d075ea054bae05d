//! Sends requests to the providers and clients of a team. Limits the size and the time of an answer, and follows no
//! redirects. Connects only to addresses that the egress rules allow: the operator's rules for outgoing requests.

use std::time::Duration;

use reqwest::{Client, redirect};
use serde::de::DeserializeOwned;
use toolrack_host::{egress::Guard, text::root_cause};
use url::Url;

/// The timeout of a request, including its connection and its response: a user or a client waits meanwhile.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The error when another program cannot be reached, or sends an answer that cannot be used. Its `Display` is one safe
/// line without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin} {why}")]
pub struct Unreachable {
    /// The origin of the other program.
    origin: String,
    /// The reason, as a text that continues the origin: "answered with status 404".
    why: String,
}

impl Unreachable {
    pub(crate) fn new(url: &Url, why: impl Into<String>) -> Self {
        Self { origin: url.origin().ascii_serialization(), why: why.into() }
    }

    /// The error when an earlier request failed for a reason that is not known.
    pub(crate) fn for_unknown_reason() -> Self {
        Self { origin: "the provider".to_owned(), why: "could not be reached a short time ago".to_owned() }
    }
}

/// An HTTP client that sends requests only to addresses that its guard (the checker of the egress rules) allows.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    guard: Guard,
    max_bytes: usize,
}

impl Http {
    /// Creates a client that sends requests where `guard` allows, and reads at most `max_bytes` of an answer.
    pub(crate) fn new(guard: Guard, max_bytes: usize) -> reqwest::Result<Self> {
        let builder = Client::builder()
            .connect_timeout(REQUEST_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("toolrack/", env!("CARGO_PKG_VERSION")));
        Ok(Self { client: guard.client(builder)?, guard, max_bytes })
    }

    /// Gets the JSON at `url`.
    pub(crate) async fn json<T: DeserializeOwned>(&self, url: &Url) -> Result<T, Unreachable> {
        self.json_with_token(url, None).await
    }

    /// Gets the JSON at `url`, with an access token.
    pub(crate) async fn json_with_token<T: DeserializeOwned>(
        &self,
        url: &Url,
        token: Option<&str>,
    ) -> Result<T, Unreachable> {
        let unreachable = |why: String| Unreachable::new(url, why);
        let mut request = http::Request::get(url.as_str()).header("accept", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Vec::new()).map_err(|error| unreachable(error.to_string()))?;
        let answer = self.send(request).await?;
        if answer.status() != http::StatusCode::OK {
            return Err(unreachable(format!("answered with status {}", answer.status().as_u16())));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| unreachable(format!("sent an answer that cannot be read: {error}")))
    }

    /// Sends `request`, and reads the complete answer.
    pub(crate) async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, Unreachable> {
        let request = reqwest::Request::try_from(request).map_err(|error| Unreachable {
            origin: "the address".to_owned(),
            why: format!("cannot be used: {error}"),
        })?;
        let url = request.url().clone();
        let unreachable = |error: &reqwest::Error| Unreachable::new(&url, reason(error));
        self.guard.check(&url).map_err(|refused| Unreachable::new(&url, format!("cannot be used: {refused}")))?;
        let mut response = self.client.execute(request).await.map_err(|error| unreachable(&error))?;
        let mut answer = http::Response::new(Vec::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&error))? {
            if answer.body().len() + chunk.len() > self.max_bytes {
                return Err(Unreachable::new(&url, format!("sent an answer of more than {} bytes", self.max_bytes)));
            }
            answer.body_mut().extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}

/// The innermost cause of the error, without the URL.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("did not answer within {} s", REQUEST_TIMEOUT.as_secs());
    }
    format!("cannot be reached: {}", root_cause(error))
}
