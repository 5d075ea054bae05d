//! The guarded HTTP client, which sends every request to an authorization server. It limits the size, the time and the
//! number of requests. It connects only to addresses that the egress rules, which the operator sets, allow.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use reqwest::{Client, redirect};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use toolrack_host::{
    egress::{Egress, Guard, Refused},
    text::root_cause,
};
use url::Url;

use crate::{
    dpop::Nonce,
    error::AuthError,
    token_request::{RequestSigner, refuses_client, wants_nonce},
};

/// The timeout of connecting, TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of one request, with its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of bytes in a response body.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// The maximum number of requests of one operation, so that hostile metadata cannot cause endless requests.
const MAX_REQUESTS: u32 = 32;

/// Makes a [`GuardedHttp`] for each operation. It makes one pooled HTTP client for each set of allowed addresses, when
/// an operation first needs it. The addresses in a server's metadata are untrusted: see [`toolrack_host::egress`].
#[derive(Debug, Default)]
pub(crate) struct GuardedHttpMaker {
    egress: Egress,
    /// The HTTP clients that were made so far, by their allowed addresses.
    clients: ArcSwap<HashMap<Guard, Client>>,
}

impl GuardedHttpMaker {
    pub(crate) fn new(egress: Egress) -> Self {
        Self { egress, clients: ArcSwap::default() }
    }

    /// Returns a new HTTP client, for one operation that concerns the server at `url`.
    ///
    /// # Errors
    /// [`AuthError::Unavailable`] when no HTTP client can be made.
    pub(crate) fn http_for(&self, url: &Url) -> Result<Arc<GuardedHttp>, AuthError> {
        self.http_under(&self.egress, url)
    }

    /// Like [`Self::http_for`], but with these egress rules instead of those of the program.
    pub(crate) fn http_under(&self, egress: &Egress, url: &Url) -> Result<Arc<GuardedHttp>, AuthError> {
        let guard = egress.guard_for_server(url);
        let cached_client = self.clients.load().get(&guard).cloned();
        let client = cached_client.map_or_else(|| self.new_client(&guard), Ok)?;
        Ok(Arc::new(GuardedHttp { client, guard, signer: OnceLock::new(), observations: Observations::default() }))
    }

    /// Returns a new client for these addresses, and remembers it. If two operations need such a client at the same
    /// moment, each makes one, and the second is remembered.
    fn new_client(&self, guard: &Guard) -> Result<Client, AuthError> {
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            // `rmcp` follows redirects itself, within one origin, where MCP allows it.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("toolrack/", env!("CARGO_PKG_VERSION")));
        let client = guard
            .client(builder)
            .map_err(|error| AuthError::Unavailable { why: format!("no HTTP client: {error}") })?;
        self.clients.rcu(|clients| {
            // Drops the clients that were made under older egress rules.
            let current_clients = clients.iter().filter(|(other, _)| other.has_same_rules(guard));
            let current_clients = current_clients.map(|(other, client)| (other.clone(), client.clone()));
            current_clients.chain([(guard.clone(), client.clone())]).collect::<HashMap<_, _>>()
        });
        Ok(client)
    }
}

/// The HTTP client of one operation, such as a sign-in, with the limits of the operation.
pub(crate) struct GuardedHttp {
    client: Client,
    /// The addresses to which requests may go.
    pub(crate) guard: Guard,
    /// Signs the requests to the token endpoint. Set once the endpoint is known.
    signer: OnceLock<RequestSigner>,
    observations: Observations,
}

/// Facts that the requests of one operation and their responses have shown.
#[derive(Debug, Default)]
struct Observations {
    /// How many requests were sent.
    requests: AtomicU32,
    /// Whether the metadata of a resource requires tokens that are bound to a key. `rmcp` does not keep that field.
    requires_bound_tokens: AtomicBool,
    /// Whether the last response refuses the OAuth client, such as with `invalid_client`. The errors of `rmcp` have the
    /// code only inside a text.
    refuses_client: AtomicBool,
    /// The nonce that the token endpoint wants in proofs.
    nonce: ArcSwapOption<Nonce>,
    /// The reason why the last request got no response. It is kept here because `rmcp` drops it from some of its
    /// errors.
    no_response_reason: ArcSwapOption<String>,
}

impl Observations {
    /// Counts one more request. An error when there were too many.
    fn count_request(&self) -> Result<(), HttpError> {
        match self.requests.fetch_add(1, Ordering::Relaxed) < MAX_REQUESTS {
            true => Ok(()),
            false => Err(HttpError::TooManyRequests),
        }
    }
}

/// The reason why a request to an authorization server got no response. Most messages are the end of a sentence that
/// begins with the name of the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{0}")]
    Refused(Refused),
    #[error("its answer is larger than {MAX_BODY_BYTES} bytes")]
    BodyTooLarge,
    #[error("it leads to more than {MAX_REQUESTS} requests")]
    TooManyRequests,
    #[error("{}", failure_reason(.0))]
    Http(reqwest::Error),
    #[error(transparent)]
    Signing(AuthError),
}

/// Returns why a request failed, without its URL, which may contain a secret.
fn failure_reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return match error.is_connect() {
            true => format!("no connection to it was made within {} s", CONNECT_TIMEOUT.as_secs()),
            false => format!("it did not answer within {} s", REQUEST_TIMEOUT.as_secs()),
        };
    }
    root_cause(error)
}

impl GuardedHttp {
    /// Sets the signer of requests to the token endpoint. Later calls do nothing, because one operation has one signer.
    pub(crate) fn sign_with(&self, signer: RequestSigner) {
        let _ = self.signer.set(signer);
    }

    /// Returns the signer of requests to the token endpoint.
    pub(crate) fn signer(&self) -> Option<&RequestSigner> {
        self.signer.get()
    }

    /// Returns whether any fetched metadata require bound tokens for their resource. This includes metadata that `rmcp`
    /// refuses later: a bound token does no harm.
    pub(crate) fn requires_bound_tokens(&self) -> bool {
        self.observations.requires_bound_tokens.load(Ordering::Relaxed)
    }

    /// Returns whether the last response refuses the OAuth client itself.
    pub(crate) fn refuses_client(&self) -> bool {
        self.observations.refuses_client.load(Ordering::Relaxed)
    }

    /// Returns the reason why the last request of `rmcp` got no response; `None` when it got a response. A request that
    /// this crate sent with [`Self::send`] changes nothing here.
    pub(crate) fn no_response_reason(&self) -> Option<String> {
        self.observations.no_response_reason.load().as_deref().cloned()
    }

    /// Sends the request as [`Self::send`] does, and records the [`Self::no_response_reason`].
    async fn send_recorded(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, HttpError> {
        let origin = Url::parse(&request.uri().to_string()).map(|url| url.origin().ascii_serialization());
        let response = self.send(request).await;
        let failure_reason = response.as_ref().err().map(|error| match (error, origin) {
            // These errors need no address, or name it themselves.
            (HttpError::Refused(_) | HttpError::Signing(_), _) | (_, Err(_)) => error.to_string(),
            (error, Ok(origin)) => format!("{origin}: {error}"),
        });
        self.observations.no_response_reason.store(failure_reason.map(Arc::new));
        response
    }

    /// Sends the request. If the token endpoint answers that it wants a nonce, sends it once more with that nonce.
    pub(crate) async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, HttpError> {
        let Some(signer) = self.signer().filter(|signer| signer.is_for(&request)) else {
            return self.send_once(request).await;
        };
        let response = self.send_authenticated(signer, &request).await?;
        let Some(nonce) = signer.nonce_in(&response) else {
            return Ok(response);
        };
        self.observations.nonce.store(Some(Arc::new(nonce)));
        if wants_nonce(&response) { self.send_authenticated(signer, &request).await } else { Ok(response) }
    }

    /// Sends a request to the token endpoint, with the client assertion and the DPoP proof.
    async fn send_authenticated(
        &self,
        signer: &RequestSigner,
        request: &http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, HttpError> {
        let nonce = self.observations.nonce.load_full();
        self.send_once(signer.authenticated(request, nonce.as_deref()).map_err(HttpError::Signing)?).await
    }

    /// Sends the request as it is, and reads the whole response.
    async fn send_once(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, HttpError> {
        self.observations.count_request()?;
        let http_error = |error: reqwest::Error| HttpError::Http(error.without_url());
        let request = reqwest::Request::try_from(request).map_err(http_error)?;
        // The HTTP client itself checks only the addresses to which a host name resolves.
        self.guard.check(request.url()).map_err(HttpError::Refused)?;
        let mut response = self.client.execute(request).await.map_err(http_error)?;
        let mut full_response = http::Response::new(Vec::new());
        *full_response.status_mut() = response.status();
        *full_response.headers_mut() = std::mem::take(response.headers_mut());
        while let Some(chunk) = response.chunk().await.map_err(http_error)? {
            if full_response.body().len() + chunk.len() > MAX_BODY_BYTES {
                return Err(HttpError::BodyTooLarge);
            }
            full_response.body_mut().extend_from_slice(&chunk);
        }
        self.observations.refuses_client.store(refuses_client(&full_response), Ordering::Relaxed);
        if full_response.status().is_success() && requires_bound_tokens(full_response.body()) {
            self.observations.requires_bound_tokens.store(true, Ordering::Relaxed);
        }
        Ok(full_response)
    }
}

/// Returns whether this is the metadata of a resource that accepts only bound tokens (RFC 9728, 2).
fn requires_bound_tokens(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Metadata {
        /// Required, because only the metadata of a resource have this member.
        #[serde(rename = "resource")]
        _resource: String,
        #[serde(default)]
        dpop_bound_access_tokens_required: bool,
    }
    serde_json::from_slice(body).is_ok_and(|metadata: Metadata| metadata.dpop_bound_access_tokens_required)
}

impl OAuthHttpClient for GuardedHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            self.send_recorded(request.request).await.map_err(|error| Box::new(error) as OAuthHttpClientError)
        })
    }
}

#[cfg(test)]
mod tests;
