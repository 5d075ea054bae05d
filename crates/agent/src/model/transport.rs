//! Sends requests to a model's provider over HTTP. A request is one POST, retried only before any part of the answer
//! has arrived. The answer is limited in time and size.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use rand::Rng;
use reqwest::{Client, Response, redirect};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use url::{Host, Url};

use super::{
    error::{ModelError, ModelErrorKind},
    failure::{self, ErrorResponse},
    settings::{Bounds, Key},
};

/// The maximum size of an error's body to read, in bytes.
const ERROR_BODY_BYTES: usize = 64 * 1024;
/// The longest time to read an error's body.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// What [`ModelErrorKind::TimedOut`] names as late while no part of the answer has arrived.
const ANSWER_START: &str = "the beginning of the answer";
/// The longest wait between two tries, unless the provider asks for a longer one.
const MAX_BACKOFF: Duration = Duration::from_secs(8);
/// The maximum of each time bound. Adding a much longer time to the present moment would overflow.
const LONGEST_BOUND: Duration = Duration::from_hours(100 * 365 * 24);
/// The longest time to read the rest of a body after the answer in it has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

/// Turns a provider's error response (status, headers, body) into an error kind.
pub(super) type ClassifyResponse = fn(&ErrorResponse<'_>) -> ModelErrorKind;

/// The things that all requests to one model share: the HTTP client, the headers and the bounds.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) client: Client,
    /// `provider/name`, safe to print.
    pub(super) model: String,
    pub(super) headers: HeaderMap,
    pub(super) key: Option<Key>,
    pub(super) bounds: Bounds,
    /// The next step for the user if the provider refuses the key.
    pub(super) key_advice: String,
}

/// Returns an HTTP client for models. It follows no redirects, because a redirect would carry the key elsewhere. For
/// servers on this machine, it uses no proxy, because a proxy would see every prompt. There it also opens a new
/// connection for each request, because llama.cpp often closes a used connection just when the client reuses it.
pub(super) fn client(connect_timeout: Duration, base: &Url) -> Result<Client, String> {
    let is_local = match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let builder = if is_local { Client::builder().no_proxy().pool_max_idle_per_host(0) } else { Client::builder() };
    builder
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("toolrack/", env!("CARGO_PKG_VERSION")))
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        // A compressed stream would arrive in bursts.
        .no_gzip()
        .build()
        .map_err(|error| format!("no HTTP client: {error}"))
}

/// Returns a header with a secret value, which its `Debug` does not show.
pub(super) fn secret_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let safe_name = || toolrack_host::text::for_log(name).into_owned();
    let name = HeaderName::try_from(name).map_err(|_| format!("`{}` is not a name of a header", safe_name()))?;
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| format!("the value for the header `{name}` has forbidden characters"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// A failed try to get an answer.
#[derive(Debug)]
pub(super) struct FailedAttempt {
    pub(super) kind: ModelErrorKind,
    /// Whether the same request may succeed later.
    may_retry: bool,
}

impl From<ModelErrorKind> for FailedAttempt {
    fn from(kind: ModelErrorKind) -> Self {
        Self { kind, may_retry: false }
    }
}

impl FailedAttempt {
    /// Marks the failure as one before the first piece of the answer. The request may then be retried if the provider
    /// reported in the stream that it is overloaded.
    pub(super) fn before_the_answer(self) -> Self {
        Self { may_retry: self.may_retry || failure::is_overload(&self.kind), ..self }
    }

    /// Returns the error, with the name of the model.
    pub(super) fn into_error(self, transport: &Transport, attempts: u32) -> ModelError {
        ModelError { model: transport.model.clone(), attempts, kind: self.kind }
    }
}

/// One request and its retries.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) transport: Arc<Transport>,
    url: Url,
    body: Bytes,
    classify: ClassifyResponse,
    /// The time at which the answer must be complete, however often the request is tried.
    pub(super) deadline: Instant,
    /// How long each try waits for the beginning of the answer.
    first_token_timeout: Duration,
    /// How many tries were made.
    pub(super) count: u32,
    /// The pause before the next try.
    pub(super) pause_before_next: Option<Duration>,
}

impl Attempts {
    pub(super) fn new(transport: Arc<Transport>, url: Url, body: Bytes, classify: ClassifyResponse) -> Self {
        let deadline = deadline_after(transport.bounds.total);
        let first_token_timeout = transport.bounds.first_token;
        Self { transport, url, body, classify, deadline, first_token_timeout, count: 0, pause_before_next: None }
    }

    /// Asks for an answer that does not come as a stream. A server that does not stream may send nothing until the
    /// answer is complete, so only the total time limits the wait for its beginning.
    pub(super) fn unstreamed(self) -> Self {
        Self { first_token_timeout: self.transport.bounds.total, ..self }
    }

    /// Waits for the pause that is due, and sends the request once.
    pub(super) async fn send(&mut self) -> Result<Response, FailedAttempt> {
        if let Some(pause) = self.pause_before_next.take() {
            sleep(pause).await;
        }
        self.count += 1;
        let request = self
            .transport
            .client
            .post(self.url.clone())
            .headers(self.transport.headers.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(self.body.clone());
        // Limits the wait for the head of the response. [`Body::chunk`] then waits as long again for the first piece.
        let first_token_timeout = self.first_token_timeout;
        let first_token_deadline = self.deadline.min(deadline_after(first_token_timeout));
        match timeout_at(first_token_deadline, request.send()).await {
            Err(_) if first_token_deadline == self.deadline => Err(self.total_timeout_error().into()),
            Err(_) => Err(timeout_error(ANSWER_START, first_token_timeout, "first_token_timeout").into()),
            Ok(Err(error)) => Err(self.unreachable_error(error)),
            Ok(Ok(response)) if response.status().is_success() => Ok(response),
            Ok(Ok(response)) => Err(self.read_error_response(response).await),
        }
    }

    /// Returns how long to wait before the next try; `None` if there must be none.
    pub(super) fn pause_after(&self, failed_attempt: &FailedAttempt) -> Option<Duration> {
        let bounds = &self.transport.bounds;
        if !failed_attempt.may_retry || self.count > bounds.retries {
            return None;
        }
        let requested_pause = match &failed_attempt.kind {
            ModelErrorKind::RateLimited { retry_after, .. } | ModelErrorKind::Unavailable { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        };
        let pause = requested_pause.unwrap_or_else(|| {
            // Shifts by at most 16, because a larger shift would overflow. The pause reaches `MAX_BACKOFF` long before.
            let backoff = bounds.first_pause.saturating_mul(1 << (self.count - 1).min(16)).min(MAX_BACKOFF);
            // Jitter, so that many clients do not return at the same moment.
            backoff.mul_f64(rand::rng().random_range(0.75..=1.0))
        });
        (pause <= bounds.longest_pause && deadline_after(pause) < self.deadline).then_some(pause)
    }

    /// Sends the request until there is a response, or until no further try is allowed.
    pub(super) async fn send_with_retries(&mut self) -> Result<Response, FailedAttempt> {
        loop {
            match self.send().await {
                Ok(response) => return Ok(response),
                Err(failed_attempt) => match self.pause_after(&failed_attempt) {
                    Some(pause) => self.pause_before_next = Some(pause),
                    None => return Err(failed_attempt),
                },
            }
        }
    }

    /// Converts an error of the HTTP client. The URL is left out, because it may hold a secret.
    fn unreachable_error(&self, error: reqwest::Error) -> FailedAttempt {
        let error = error.without_url();
        // `is_timeout` alone would also match a time-out that the system reports for an open connection.
        let why = match error.is_connect() && error.is_timeout() {
            true => format!("no connection within {} s (connect_timeout)", self.transport.bounds.connect.as_secs_f64()),
            false => failure::innermost_cause(&error),
        };
        let origin = failure::safe_line(&self.url.origin().ascii_serialization());
        // No byte of an answer has arrived. Unlike a call of a tool, a request to a model changes nothing, so it may be
        // repeated even if the provider has received it.
        let may_retry = !error.is_builder();
        let kind = ModelErrorKind::Unreachable { origin, why };
        FailedAttempt { kind, may_retry }
    }

    /// Reads the beginning of an error response, and classifies it.
    async fn read_error_response(&self, mut response: Response) -> FailedAttempt {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        let read_body = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BODY_BYTES - body.len())]);
                if body.len() >= ERROR_BODY_BYTES {
                    break;
                }
            }
        };
        // The part that arrived in time is enough to classify the error.
        let _ = timeout(ERROR_BODY_TIMEOUT, read_body).await;
        let response = ErrorResponse {
            status: Some(status),
            headers: &headers,
            body: &body,
            key: self.transport.key.as_ref(),
            key_advice: &self.transport.key_advice,
        };
        let kind = (self.classify)(&response);
        let may_retry = failure::may_retry(&response, &kind);
        FailedAttempt { kind, may_retry }
    }

    /// Returns the error for the exceeded total time.
    fn total_timeout_error(&self) -> ModelErrorKind {
        timeout_error("the answer", self.transport.bounds.total, "total_timeout")
    }
}

/// Returns the moment at which `bound`, of any length, is over.
fn deadline_after(bound: Duration) -> Instant {
    Instant::now() + bound.min(LONGEST_BOUND)
}

fn timeout_error(what: &'static str, after: Duration, setting: &'static str) -> ModelErrorKind {
    ModelErrorKind::TimedOut { what, after, setting }
}

/// The body of an answer, in pieces.
pub(super) struct Body {
    response: Response,
    deadline: Instant,
    total_timeout: Duration,
    first_token_timeout: Duration,
    silence_timeout: Duration,
    /// Whether the first piece of the answer has arrived. The reader of the stream (in `online.rs`) sets this at the
    /// first delta other than [`Delta::Usage`](super::Delta::Usage). Until then, `first_token_timeout` limits the wait
    /// for the next piece, and afterwards `silence_timeout`. The head of the response does not count: some servers send
    /// it before they process the prompt.
    pub(super) has_begun: bool,
    /// The maximum size of the whole body, in bytes.
    max_bytes: usize,
    /// The bytes that have arrived.
    received_bytes: usize,
}

impl Body {
    pub(super) fn new(response: Response, attempts: &Attempts) -> Self {
        let bounds = &attempts.transport.bounds;
        Self {
            response,
            deadline: attempts.deadline,
            total_timeout: bounds.total,
            first_token_timeout: attempts.first_token_timeout,
            silence_timeout: bounds.silence,
            has_begun: false,
            max_bytes: bounds.response_bytes,
            received_bytes: 0,
        }
    }

    /// Returns the media type of the body, without parameters, in lower case; empty if there is none.
    pub(super) fn media_type(&self) -> String {
        let value = self.response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns the next piece of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ModelErrorKind> {
        let (what, piece_timeout, setting) = match self.has_begun {
            true => ("the next piece of the answer", self.silence_timeout, "silence_timeout"),
            false => (ANSWER_START, self.first_token_timeout, "first_token_timeout"),
        };
        let piece_deadline = deadline_after(piece_timeout);
        let chunk = match timeout_at(piece_deadline.min(self.deadline), self.response.chunk()).await {
            Err(_) if piece_deadline < self.deadline => return Err(timeout_error(what, piece_timeout, setting)),
            Err(_) => return Err(timeout_error("the answer", self.total_timeout, "total_timeout")),
            Ok(Err(error)) => return Err(ModelErrorKind::Cut { why: failure::innermost_cause(&error.without_url()) }),
            Ok(Ok(chunk)) => chunk,
        };
        self.received_bytes = self.received_bytes.saturating_add(chunk.as_ref().map_or(0, Bytes::len));
        if self.received_bytes > self.max_bytes {
            return Err(ModelErrorKind::TooLarge {
                what: "the answer",
                limit: self.max_bytes,
                setting: "max_response_bytes",
            });
        }
        Ok(chunk)
    }

    /// Reads the rest of the body after the answer, for at most [`DRAIN_TIMEOUT`], so that the connection can be
    /// reused.
    pub(super) async fn drain(&mut self) {
        let read_rest = async { while let Ok(Some(_)) = self.chunk().await {} };
        let _ = timeout(DRAIN_TIMEOUT, read_rest).await;
    }

    /// Returns the whole body.
    pub(super) fn read_all(mut self) -> BoxFuture<'static, Result<Vec<u8>, ModelErrorKind>> {
        Box::pin(async move {
            // A server that does not stream sends no body until the answer is complete, even if the request asks for a
            // stream. Only the total time should limit this wait. `has_begun` stays `false`, so `first_token_timeout`
            // would limit it as well.
            self.first_token_timeout = self.total_timeout;
            let mut bytes = Vec::new();
            while let Some(chunk) = self.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        })
    }
}

#[cfg(test)]
mod tests;
