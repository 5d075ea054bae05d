//! Requests to providers and clients of a team: bounded in size and time, without redirects, and only to addresses that
//! egress allows.

use std::{iter, time::Duration};

use reqwest::{Client, redirect};
use serde::de::DeserializeOwned;
use toolrack_host::egress::Guard;
use url::Url;

/// The timeout of a request, with its connection and its response.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Another program could not be reached, or gave an answer that cannot be used. Its `Display` is one safe line without
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{who} {why}")]
pub struct Unreachable {
    /// Its origin.
    who: String,
    why: String,
}

impl Unreachable {
    pub(crate) fn new(url: &Url, why: impl Into<String>) -> Self {
        Self { who: url.origin().ascii_serialization(), why: why.into() }
    }

    /// The error when the last request was cancelled, so that its reason is unknown.
    pub(crate) fn lately() -> Self {
        Self { who: "the provider".to_owned(), why: "could not be reached a short time ago".to_owned() }
    }
}

/// Sends requests.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    guard: Guard,
    max_bytes: usize,
}

impl Http {
    /// Requests where `guard` allows them, with at most `max_bytes` of an answer.
    pub(crate) fn new(guard: Guard, max_bytes: usize) -> reqwest::Result<Self> {
        let builder = Client::builder()
            .connect_timeout(REQUEST_TIME)
            .timeout(REQUEST_TIME)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("toolrack/", env!("CARGO_PKG_VERSION")));
        Ok(Self { client: guard.client(builder)?, guard, max_bytes })
    }

    /// The JSON at `url`.
    pub(crate) async fn json<T: DeserializeOwned>(&self, url: &Url) -> Result<T, Unreachable> {
        self.json_with(url, None).await
    }

    /// The JSON at `url`, with an access token for it.
    pub(crate) async fn json_with<T: DeserializeOwned>(
        &self,
        url: &Url,
        token: Option<&str>,
    ) -> Result<T, Unreachable> {
        let failed = |why: String| Unreachable::new(url, why);
        let mut request = http::Request::get(url.as_str()).header("accept", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Vec::new()).map_err(|error| failed(error.to_string()))?;
        let answer = self.send(request).await?;
        if answer.status() != http::StatusCode::OK {
            return Err(failed(format!("answered with status {}", answer.status().as_u16())));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| failed(format!("gave an answer that cannot be understood: {error}")))
    }

    /// Sends `request`, and reads the whole answer.
    pub(crate) async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, Unreachable> {
        let request = reqwest::Request::try_from(request)
            .map_err(|error| Unreachable { who: "the address".to_owned(), why: format!("cannot be used: {error}") })?;
        let url = request.url().clone();
        let failed = |error: &reqwest::Error| Unreachable::new(&url, reason(error));
        self.guard.check(&url).map_err(|refused| Unreachable::new(&url, format!("cannot be used: {refused}")))?;
        let mut response = self.client.execute(request).await.map_err(|error| failed(&error))?;
        let mut answer = http::Response::new(Vec::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if answer.body().len() + chunk.len() > self.max_bytes {
                return Err(Unreachable::new(&url, format!("gave an answer of more than {} bytes", self.max_bytes)));
            }
            answer.body_mut().extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}

/// The most telling cause, without the URL.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("did not answer within {} s", REQUEST_TIME.as_secs());
    }
    let causes = iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    format!("cannot be reached: {}", causes.last().map(ToString::to_string).unwrap_or_default())
}
