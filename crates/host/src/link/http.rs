//! Implements MCP's Streamable HTTP transport, for both eras (`legacy`: MCP 2025-11-25 and older, `modern`:
//! 2026-07-28). Each message is one POST, and its answer is JSON or an event stream.
//!
//! Toolrack has its own code for this, on a pooled `reqwest` client, because the host guarantees each limit, header,
//! retry and redirect.

mod authorize;
mod body;
pub(crate) mod dial;
mod failure;
mod helper;
pub(crate) mod legacy_sse;
mod redirects;
mod stream;
mod tls;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use chrono::Utc;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Client, Method, RequestBuilder, Response, redirect};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{sleep, timeout},
};
use url::Url;

pub(crate) use self::stream::EventError;
use self::{
    authorize::AuthorizedBy,
    helper::{HelperProgram, RunCache},
};
use crate::{
    catalog::param_headers::encode_header_value,
    egress::{Egress, Guard},
    link::{
        bounds::Bounds,
        error::LinkError,
        inbound::{ConnectionEnd, Inbound, MessageSink},
        message::{OutgoingRequest, RawAnswer, cancelled_notification},
        process::child::Supervisor,
    },
    resolve::{Authorizer, Resolver},
    spec::{Era, Http, ServerName, Setting},
    text::quote,
};

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENT_STREAM: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The most answers and cancellations that are posted concurrently. Further ones wait.
const MAX_POSTS: usize = 16;
/// The most answers and cancellations that wait to be posted. More are dropped.
const MAX_QUEUED_POSTS: usize = 256;
/// How long ending the session at the server may take.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// How long unfinished posts may still take after the connection has ended.
const LAST_POST_TIMEOUT: Duration = Duration::from_millis(200);

/// The most idle connections of a client to one host.
const MAX_IDLE_CONNECTIONS: usize = 64;

/// The HTTP clients of a host, which pool connections. Servers with the same connect time-out and the same egress rules
/// (which addresses requests may reach) share a client. A client is made on first use, and again when the rules have
/// changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients(Arc<ArcSwap<ClientsByKey>>);

/// The clients, each with the guard that it enforces. The key is the connect time-out, and `true` for servers of the
/// host's own configuration or `false` for servers that a member of a team has added.
type ClientsByKey = HashMap<(Duration, bool), (Guard, Client)>;

impl Clients {
    /// Returns the client for a server, which enforces `guard`.
    fn client_for(&self, spec: &Http, guard: Guard) -> Result<Client, LinkError> {
        let key = (spec.open_timeout, spec.added_by.is_none());
        let find_existing = |clients: &ClientsByKey| {
            let (enforced_guard, client) = clients.get(&key)?;
            (*enforced_guard == guard).then(|| client.clone())
        };
        if let Some(client) = find_existing(&self.0.load()) {
            return Ok(client);
        }
        let builder = Client::builder()
            .connect_timeout(spec.open_timeout)
            .redirect(redirect::Policy::custom(redirects::follow))
            .user_agent(concat!("toolrack/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS);
        let client = guard.client(builder).map_err(|error| LinkError::protocol(format!("no HTTP client: {error}")))?;
        // If another thread has made a client meanwhile, use that one, to share its connections.
        let previous_clients = self.0.rcu(|clients| match find_existing(clients) {
            Some(_) => Arc::clone(clients),
            None => {
                let mut clients = ClientsByKey::clone(clients);
                clients.insert(key, (guard.clone(), client.clone()));
                Arc::new(clients)
            }
        });
        Ok(find_existing(&previous_clients).unwrap_or(client))
    }
}

/// The headers of the session. They change only during the handshake. Each request uses the headers of the moment at
/// which it begins: a slow `headers_helper` or authorizer may delay the probe for one era until the handshake already
/// tries the other era.
#[derive(Clone, Debug, Default)]
struct SessionHeaders {
    era: Option<Era>,
    version: Option<HeaderValue>,
    session: Option<HeaderValue>,
}

/// A client for one endpoint. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpTransport(Arc<Endpoint>);

struct Endpoint {
    client: Client,
    /// The URL of all requests.
    url: Url,
    /// The URL in the server's configuration. It identifies the server, and differs from `url` for the second endpoint
    /// of HTTP+SSE.
    server_url: Url,
    server: ServerName,
    spec: Http,
    resolver: Arc<dyn Resolver>,
    authorizer: Option<Arc<dyn Authorizer>>,
    /// The program that prints headers, if the server's configuration has one.
    helper: Option<Arc<HelperProgram>>,
    bounds: Bounds,
    session_headers: ArcSwap<SessionHeaders>,
    inbound: Arc<Inbound>,
    connection_end: Arc<ConnectionEnd>,
    /// The number of requests that wait for their answers. Subscriptions do not count.
    requests_under_way: AtomicUsize,
    /// One permit for each answer or cancellation that may be posted at once.
    post_permits: Arc<Semaphore>,
    /// One permit for each answer or cancellation that may wait to be posted.
    queue_permits: Arc<Semaphore>,
    /// Runs posts of [`MessageSink::post`], which may be called where there is no runtime: when a future is dropped.
    runtime: Handle,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("server", &self.0.server).finish_non_exhaustive()
    }
}

/// The inputs of an endpoint.
pub(crate) struct HttpPlan<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) spec: &'a Http,
    pub(crate) resolver: &'a Arc<dyn Resolver>,
    pub(crate) authorizer: Option<&'a Arc<dyn Authorizer>>,
    pub(crate) clients: &'a Clients,
    pub(crate) egress: &'a Egress,
    pub(crate) supervisor: Option<&'a Supervisor>,
    pub(crate) bounds: Bounds,
}

/// Resolves the URL in a server's configuration, and checks that the egress rules allow requests to that URL.
pub(crate) async fn endpoint_url(plan: &HttpPlan<'_>) -> Result<Url, LinkError> {
    let url = resolved_url(plan.resolver, plan.server, plan.spec).await?;
    plan.egress.guard_for_configured().check(&url).map_err(|refused| LinkError::Refused(Arc::new(refused)))?;
    Ok(url)
}

/// Resolves the URL in a server's configuration, without the check of the egress rules.
pub(crate) async fn resolved_url(
    resolver: &Arc<dyn Resolver>,
    server: &ServerName,
    spec: &Http,
) -> Result<Url, LinkError> {
    let text = resolver.url(server, spec).await.map_err(LinkError::Resolve)?;
    let url = Url::parse(text.trim())
        .map_err(|error| LinkError::config("BAD_URL", format!("the configured url is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(LinkError::config("BAD_URL", "the configured url is neither http nor https"));
    }
    Ok(url)
}

impl HttpTransport {
    /// Creates a client without sending a request.
    pub(crate) async fn new(
        plan: &HttpPlan<'_>,
        inbound: &Arc<Inbound>,
        connection_end: &Arc<ConnectionEnd>,
    ) -> Result<Self, LinkError> {
        let url = endpoint_url(plan).await?;
        inbound.set_page_guard(plan.egress.guard_for_server(&url));
        Ok(Self(Arc::new(Endpoint {
            client: plan.clients.client_for(plan.spec, plan.egress.guard_for_configured())?,
            server_url: url.clone(),
            url,
            server: plan.server.clone(),
            spec: plan.spec.clone(),
            resolver: plan.resolver.clone(),
            authorizer: plan.authorizer.cloned(),
            helper: plan.spec.headers_helper.as_deref().map(|spec| {
                Arc::new(HelperProgram {
                    spec: spec.clone(),
                    server: plan.server.clone(),
                    resolver: plan.resolver.clone(),
                    supervisor: plan.supervisor.cloned(),
                    tasks: inbound.tracker.clone(),
                    run_cache: RunCache::default(),
                })
            }),
            bounds: plan.bounds,
            session_headers: ArcSwap::default(),
            inbound: inbound.clone(),
            connection_end: connection_end.clone(),
            requests_under_way: AtomicUsize::new(0),
            post_permits: Arc::new(Semaphore::new(MAX_POSTS)),
            queue_permits: Arc::new(Semaphore::new(MAX_QUEUED_POSTS)),
            runtime: Handle::current(),
        })))
    }

    /// Makes later requests carry the headers of this era and version.
    pub(crate) fn set_protocol(&self, era: Era, version: Option<&str>) {
        let version = version.and_then(|version| HeaderValue::from_str(version).ok());
        self.0.session_headers.rcu(|session_headers| SessionHeaders {
            era: Some(era),
            version: version.clone(),
            // The modern era has no sessions.
            session: session_headers.session.clone().filter(|_| era != Era::Modern),
        });
    }

    pub(crate) fn has_session(&self) -> bool {
        self.0.session_headers.load().session.is_some()
    }

    /// See [`LinkTransport::exchange`](super::channel::LinkTransport::exchange).
    pub(crate) async fn exchange(&self, request: OutgoingRequest) -> RawAnswer {
        let mut cancel_on_drop = CancelOnDrop {
            transport: self,
            id: (request.cancellable && self.0.session_headers.load().era == Some(Era::Legacy)).then_some(request.id),
        };
        let counted_request = self.0.count_under_way(&request);
        let answer = self.post_request(&request).await;
        cancel_on_drop.id = None;
        // Only the other requests count when the error decides about the connection.
        drop(counted_request);
        if let Err(error) = &answer {
            self.close_if_required(error);
        }
        answer
    }

    /// Ends the connection if this error requires it.
    fn close_if_required(&self, error: &LinkError) {
        if error.ends_the_connection(self.0.requests_under_way.load(Ordering::Acquire) > 0) {
            self.0.connection_end.close(error.clone());
        }
    }

    /// Posts a request and reads its answer. Takes the session id from the answer to `initialize`.
    async fn post_request(&self, request: &OutgoingRequest) -> RawAnswer {
        let response = self.0.post(Some(request), request.body.clone()).await?;
        let response = self.0.check_status(response).await?;
        if request.method == "initialize" {
            let session = response.headers().get(MCP_SESSION_ID).cloned().map(sensitive);
            self.0.session_headers.rcu(|session_headers| SessionHeaders {
                session: session.clone(),
                ..SessionHeaders::clone(session_headers)
            });
        }
        match media_type(response.headers()) {
            MediaType::Json => self.json_answer(response, request).await,
            MediaType::Events => self.streamed_answer(response, request).await,
            MediaType::None if response.status() == StatusCode::ACCEPTED => {
                Err(LinkError::protocol("the request was accepted (HTTP 202) and never answered"))
            }
            // A body without a Content-Type counts as JSON.
            MediaType::None => self.json_answer(response, request).await,
            MediaType::Other(kind) => Err(LinkError::protocol(format!(
                "the answer is {kind}, neither JSON nor an event stream; is this the MCP endpoint's URL?"
            ))),
        }
    }

    /// Posts a message that has no answer.
    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        let after = self.0.spec.post_timeout;
        timeout(after, self.deliver(message)).await.map_err(|_| LinkError::TimedOut {
            what: "posting a message without an answer",
            after,
            setting: Setting::PostTimeout,
        })?
    }

    /// Returns how long the first request to a server of unknown era waits for its answer.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.0.spec.probe_timeout
    }

    /// Posts a message whose answer, if it has one, arrives on another stream. Sets no time-out.
    pub(crate) async fn deliver(&self, message: Bytes) -> Result<(), LinkError> {
        let request = None;
        let response = self.0.post(request, message).await?;
        self.0.check_status(response).await.map(drop)
    }

    /// Returns a client for another endpoint of the same server, with the same configured headers and the same sign-in.
    pub(crate) fn for_url(&self, url: Url) -> Self {
        Self(Arc::new(Endpoint {
            client: self.0.client.clone(),
            url,
            server_url: self.0.server_url.clone(),
            server: self.0.server.clone(),
            spec: self.0.spec.clone(),
            resolver: self.0.resolver.clone(),
            authorizer: self.0.authorizer.clone(),
            helper: self.0.helper.clone(),
            bounds: self.0.bounds,
            session_headers: ArcSwap::default(),
            inbound: self.0.inbound.clone(),
            connection_end: self.0.connection_end.clone(),
            requests_under_way: AtomicUsize::new(0),
            post_permits: self.0.post_permits.clone(),
            queue_permits: self.0.queue_permits.clone(),
            runtime: self.0.runtime.clone(),
        }))
    }

    /// Starts a task that keeps the stream open on which a legacy server sends its own messages. The receiver resolves
    /// after the first try to open the stream.
    pub(crate) fn listen(&self) -> tokio::sync::oneshot::Receiver<()> {
        let (sender, opened) = tokio::sync::oneshot::channel();
        let (transport, stop) = (self.clone(), self.0.inbound.stop.clone());
        self.0.inbound.tracker.spawn(async move {
            stop.run_until_cancelled(transport.keep_standing_stream(sender, &transport.sink())).await;
        });
        opened
    }

    /// Asks the server to end a legacy session. Waits at most [`END_SESSION_TIMEOUT`], and ignores errors.
    pub(crate) async fn end_session(&self) {
        let end_session = async {
            let session_headers = self.0.session_headers.load_full();
            if let Ok((request, _)) = self.0.build_request(&Outgoing::EndSession, &session_headers).await {
                let _ = request.send().await;
            }
        };
        if self.has_session() {
            let _ = timeout(END_SESSION_TIMEOUT, end_session).await;
        }
    }

    pub(crate) fn sink(&self) -> Arc<dyn MessageSink> {
        Arc::new(self.clone())
    }
}

impl MessageSink for HttpTransport {
    fn post(&self, message: Bytes) {
        let Ok(queue_permit) = self.0.queue_permits.clone().try_acquire_owned() else {
            return self.0.inbound.warn(format!("a message was dropped: {MAX_QUEUED_POSTS} wait to be posted"));
        };
        let transport = self.clone();
        let task = async move {
            let _queue_permit = queue_permit;
            let delivery = async {
                let _post_permit = transport.0.post_permits.acquire().await;
                transport.notify(message).await
            };
            let stop_and_wait = async {
                transport.0.inbound.stop.cancelled().await;
                sleep(LAST_POST_TIMEOUT).await;
            };
            tokio::select! {
                result = delivery => if let Err(error) = result {
                    transport.0.inbound.warn(format!("a message could not be delivered: {error}"));
                },
                () = stop_and_wait => {}
            }
        };
        self.0.inbound.tracker.spawn_on(task, &self.0.runtime);
    }
}

/// If this is dropped before the request has its answer, notifies a legacy server that the caller no longer waits. (In
/// the modern era, closing the stream is enough.)
struct CancelOnDrop<'a> {
    transport: &'a HttpTransport,
    /// The id of the request; `None` if no notification is needed.
    id: Option<i64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.transport.post(cancelled_notification(id));
        }
    }
}

/// Counts a request as under way until this value is dropped.
struct CountedRequest<'a>(&'a Endpoint);

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        self.0.requests_under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The purpose of one HTTP request to the endpoint.
enum Outgoing<'a> {
    /// It carries a message.
    Message {
        body: Bytes,
        /// The MCP request in the body, if the body is a request.
        request: Option<&'a OutgoingRequest>,
    },
    /// It opens an event stream: after the event with this id, or from the beginning.
    Stream { last_event: Option<&'a HeaderValue> },
    /// It ends the session.
    EndSession,
}

impl Outgoing<'_> {
    fn method(&self) -> Method {
        match self {
            Self::Message { .. } => Method::POST,
            Self::Stream { .. } => Method::GET,
            Self::EndSession => Method::DELETE,
        }
    }
}

impl Endpoint {
    /// Counts a request as under way, unless it is a subscription.
    fn count_under_way(&self, request: &OutgoingRequest) -> Option<CountedRequest<'_>> {
        (request.method != "subscriptions/listen").then(|| {
            self.requests_under_way.fetch_add(1, Ordering::AcqRel);
            CountedRequest(self)
        })
    }

    /// Posts a body. `request` is the MCP request in the body, if the body is a request.
    async fn post(&self, request: Option<&OutgoingRequest>, body: Bytes) -> Result<Response, LinkError> {
        self.inbound.observe_sent(&body);
        self.send(&Outgoing::Message { body, request }).await
    }

    /// Builds an HTTP request with all its headers. A header of the protocol replaces a configured one of the same
    /// name: a server that gets two values may act on either, or refuse both. Returns the HTTP request, and how it was
    /// authorized.
    async fn build_request(
        &self,
        outgoing: &Outgoing<'_>,
        session_headers: &SessionHeaders,
    ) -> Result<(RequestBuilder, AuthorizedBy), LinkError> {
        let method = outgoing.method();
        let mut headers = HeaderMap::new();
        let configured_headers = self.resolver.headers(&self.server, &self.spec).await;
        for (name, value) in configured_headers.map_err(LinkError::Resolve)? {
            let name = HeaderName::try_from(&name).map_err(|_| {
                LinkError::config("BAD_HEADER", format!("the configured header name `{name}` is not valid"))
            })?;
            let value = HeaderValue::try_from(&value).map_err(|_| {
                LinkError::config("BAD_HEADER", format!("the value of the configured header `{name}` is not valid"))
            })?;
            headers.append(name, sensitive(value));
        }
        let authorized_by = match &self.helper {
            None => self.sign(&mut headers, &method).await?,
            Some(helper) => {
                let helper_headers = helper.headers(&self.server_url).await?;
                for (name, value) in &helper_headers.headers {
                    headers.insert(name.clone(), value.clone());
                }
                AuthorizedBy::Helper(helper_headers)
            }
        };
        headers.insert(header::ACCEPT, if method == Method::GET { EVENT_STREAM } else { JSON_OR_EVENT_STREAM });
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, JSON);
        }
        if let Some(version) = &session_headers.version {
            headers.insert(MCP_PROTOCOL_VERSION, version.clone());
        }
        if let Some(session) = &session_headers.session {
            headers.insert(MCP_SESSION_ID, session.clone());
        }
        match outgoing {
            Outgoing::Message { request: Some(request), .. } if session_headers.era == Some(Era::Modern) => {
                headers.insert(MCP_METHOD, HeaderValue::from_static(request.method));
                if let Some(name) = &request.name {
                    headers.insert(MCP_NAME, encode_header_value(name));
                }
                for (name, value) in &request.headers {
                    headers.insert(name.clone(), value.clone());
                }
            }
            Outgoing::Stream { last_event: Some(last_event) } => {
                headers.insert(LAST_EVENT_ID, (*last_event).clone());
            }
            Outgoing::Message { .. } | Outgoing::Stream { last_event: None } | Outgoing::EndSession => {}
        }
        let builder = self.client.request(method, self.url.clone()).headers(headers);
        let builder = match outgoing {
            Outgoing::Message { body, .. } => builder.body(body.clone()),
            Outgoing::Stream { .. } | Outgoing::EndSession => builder,
        };
        Ok((builder, authorized_by))
    }

    /// Converts a status that is not a success into the error for it.
    async fn check_status(&self, response: Response) -> Result<Response, LinkError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let had_session = self.session_headers.load().session.is_some();
        match status.as_u16() {
            401 | 403 => {
                let refused = None;
                Err(authorize::needs_auth_error(&response, refused))
            }
            404 if had_session => Err(LinkError::SessionNotFound { not_executed: true }),
            429 => Err(LinkError::RateLimited { retry_after: failure::retry_after(response.headers(), Utc::now()) }),
            code @ (301..=303 | 307 | 308) => {
                let location = text_header(&response, &header::LOCATION).and_then(|to| response.url().join(&to).ok());
                Err(redirects::refused_error(code, location.as_ref(), &self.url))
            }
            code => Err(body::status_error(response, code, had_session, &self.inbound).await),
        }
    }
}

/// Marks a header as secret, so that `Debug` does not print it.
fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// Returns a header as escaped text.
fn text_header(response: &Response, name: &HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(quote)
}

/// The kind of a body, by its `Content-Type`.
enum MediaType {
    Json,
    Events,
    None,
    Other(String),
}

fn media_type(headers: &HeaderMap) -> MediaType {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return MediaType::None;
    };
    let value = value.to_str().unwrap_or("unreadable");
    match value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => MediaType::Json,
        "text/event-stream" => MediaType::Events,
        other => MediaType::Other(quote(other)),
    }
}

#[cfg(test)]
mod tests;
