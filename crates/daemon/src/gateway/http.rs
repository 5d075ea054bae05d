//! Serves Streamable HTTP on one endpoint for two generations ("eras") of MCP. Each request of the modern era
//! (2026-07-28) has `_meta`. A request of the legacy era (older versions) names its session, which began with
//! `initialize`.

mod batch;
mod checks;
mod events;

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{Extensions, HeaderMap, HeaderValue, StatusCode, header},
    middleware::map_response,
    response::Response,
    routing::post,
};
use bytes::Bytes;
use toolrack_host::{ClientTransport, Era, Principal};

pub(super) use self::checks::modern_client;
use self::checks::{Claims, accepts, check_host_and_origin, header_text};
use crate::{error::retry_after_value, streams};

use super::{
    Gateway,
    exchange::{Outgoing, StartedRequest},
    incoming::{client_answer, handle_notification},
    message::{self, Id, Incoming},
    methods::{ClientCaller, ClientRequest, client_name},
    protocol_names::{BATCH_VERSION, LEGACY_VERSIONS, MODERN_VERSION},
    refusal::Refusal,
    relay,
    session::{ClientInfo, RunningRequest, Session},
};

/// The header with the id of a session of the legacy era.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The routes of an MCP endpoint. The gateway that answers a request is in the extensions of the request.
pub(super) fn router() -> Router {
    Router::new()
        .route("/", post(handle_post).get(handle_get).delete(handle_delete))
        .layer(map_response(streams::disable_buffering))
}

/// A refusal, and the data for its HTTP response.
struct RefusedRequest {
    /// The id of the refused request, if it could be read.
    id: Option<Id>,
    /// Decides the status of the response.
    era: Era,
    refusal: Refusal,
}

/// A refusal before the id and the era of the request are known. Its status is the same in both eras.
impl From<Refusal> for RefusedRequest {
    fn from(refusal: Refusal) -> Self {
        Self { id: None, era: Era::Modern, refusal }
    }
}

impl RefusedRequest {
    fn response(&self, gateway: &Gateway) -> Response {
        let body = gateway.0.concealed(message::error(self.id.as_ref(), &self.refusal));
        let mut response = json_response(self.refusal.status_for(self.era), body);
        if let Some(wait) = self.refusal.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, retry_after_value(wait));
        }
        response
    }
}

fn json_response(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn empty_response(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// POST: answers a message of a client of either era.
async fn handle_post(Extension(gateway): Extension<Gateway>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let handling = async {
        let principal = principal(&gateway, &parts.extensions)?;
        let post = PostRequest { gateway: &gateway, principal, headers: &parts.headers, query: parts.uri.query() };
        post.handle(body).await
    };
    handling.await.unwrap_or_else(|refused: RefusedRequest| refused.response(&gateway))
}

/// A POST, without its body.
struct PostRequest<'a> {
    gateway: &'a Gateway,
    principal: Principal,
    headers: &'a HeaderMap,
    query: Option<&'a str>,
}

impl PostRequest<'_> {
    /// Checks the headers, reads the body, and handles the message in it.
    async fn handle(&self, body: Body) -> Result<Response, RefusedRequest> {
        check_host_and_origin(self.headers, &self.gateway.0.options.hosts)?;
        if self.gateway.0.stop.is_cancelled() {
            return Err(Refusal::stopping().into());
        }
        checks::require_json(self.headers)?;
        if !(accepts(self.headers, "application", "json") && accepts(self.headers, "text", "event-stream")) {
            let refusal = Refusal::invalid_request("accept both application/json and text/event-stream");
            return Err(refusal.status(StatusCode::NOT_ACCEPTABLE).into());
        }
        let max = self.gateway.0.options.bounds.body_bytes;
        let body = to_bytes(body, max).await.map_err(|_| {
            Refusal::invalid_request(format!("the message was cut off, or is larger than {max} bytes (body_bytes)"))
                .status(StatusCode::PAYLOAD_TOO_LARGE)
        })?;
        if message::is_batch(&body)
            && let Some(session) = self.session()?
            && session.may_batch()
        {
            return Ok(batch::response(self.gateway, &self.principal, &session, &body)?);
        }
        match message::read(&body).map_err(|(id, refusal)| RefusedRequest { id, era: Era::Modern, refusal })? {
            Incoming::Request { id, method, params } => {
                self.request(&id, ClientRequest { method: &method, params }).await
            }
            Incoming::Notification { method, params } => {
                if let Some(session) = self.session()? {
                    handle_notification(&session, &method, params.text());
                }
                Ok(empty_response(StatusCode::ACCEPTED))
            }
            Incoming::Response { id, outcome } => {
                let no_session_id = || {
                    Refusal::invalid_request("an answer needs the id of the session in which the question was asked")
                };
                self.session()?.ok_or_else(no_session_id)?.accept_answer(&id, client_answer(outcome));
                Ok(empty_response(StatusCode::ACCEPTED))
            }
        }
    }

    /// Determines the era of a request, checks what the request needs in that era, and runs it.
    async fn request(&self, id: &Id, request: ClientRequest<'_>) -> Result<Response, RefusedRequest> {
        let refuse = |era| move |refusal| RefusedRequest { id: Some(id.clone()), era, refusal };
        let params = request.params.text();
        let claims = Claims::read(params, self.headers);
        match claims.era().map_err(refuse(Era::Modern))? {
            Era::Modern => {
                let refuse = refuse(Era::Modern);
                let view = self.gateway.0.views.for_query(self.query).map_err(&refuse)?;
                let client = claims.check_modern(request.method).map_err(&refuse)?;
                let principal = self.principal.clone();
                let caller = ClientCaller {
                    principal,
                    era: Era::Modern,
                    client,
                    view,
                    session: None,
                    transport: ClientTransport::Http,
                };
                if request.method == "tools/call" {
                    checks::require_matching_headers(self.gateway, &caller, params, self.headers).map_err(&refuse)?;
                }
                // Without a session there is nothing to cancel by id, so the request is not registered.
                let running_request = None;
                self.run(&caller, id, request, running_request).await
            }
            Era::Legacy if request.method == "initialize" => self.initialize(id, params).map_err(refuse(Era::Legacy)),
            Era::Legacy => {
                let refuse = refuse(Era::Legacy);
                let no_session_id = || {
                    Refusal::invalid_request("the session id is missing: begin with initialize")
                        .status(StatusCode::BAD_REQUEST)
                };
                let session = self.session().and_then(|session| session.ok_or_else(no_session_id)).map_err(&refuse)?;
                // Always set: `initialize` sets it before it adds the session.
                let client = session.client_info.get().cloned().unwrap_or_default();
                let running_request = session.start_request(id).map_err(&refuse)?;
                let view = session.view.clone();
                let (principal, session) = (self.principal.clone(), Some(session));
                let caller = ClientCaller {
                    principal,
                    era: Era::Legacy,
                    client,
                    view,
                    session,
                    transport: ClientTransport::Http,
                };
                self.run(&caller, id, request, Some(running_request)).await
            }
        }
    }

    /// Runs a request. Answers with JSON if the result is the first message and comes soon enough, and with an event
    /// stream in all other cases: see [`events::first_message`].
    async fn run(
        &self,
        caller: &ClientCaller,
        id: &Id,
        request: ClientRequest<'_>,
        running_request: Option<RunningRequest>,
    ) -> Result<Response, RefusedRequest> {
        let refuse = |refusal| RefusedRequest { id: Some(id.clone()), era: caller.era, refusal };
        let start_future = async {
            match self.gateway.begin_exchange(caller, id, request).await? {
                StartedRequest::Answered(result) => Ok((None, Some(Outgoing::Answer(Ok(result))))),
                StartedRequest::Exchange(mut exchange) => {
                    let first_message = events::first_message(&mut exchange).await;
                    Ok((Some(exchange), first_message))
                }
            }
        };
        let started_request = match &running_request {
            Some(running_request) => running_request.token.clone().run_until_cancelled(start_future).await,
            None => Some(start_future.await),
        };
        match started_request {
            // The client cancelled the request: there is no answer.
            None => Ok(events::empty_stream()),
            Some(Err(refusal)) => Err(refuse(refusal)),
            Some(Ok((_, Some(Outgoing::Answer(Ok(result)))))) => {
                let body = self.gateway.0.concealed(message::response(id, &result));
                Ok(json_response(StatusCode::OK, body))
            }
            Some(Ok((_, Some(Outgoing::Answer(Err(refusal)))))) => Err(refuse(refusal)),
            Some(Ok((Some(exchange), first_message))) => {
                Ok(events::response(*exchange, running_request, first_message))
            }
            // Does not happen: without an exchange, the answer is there.
            Some(Ok((None, _))) => Ok(events::empty_stream()),
        }
    }

    /// Begins a session, whose id is in a header of the response.
    fn initialize(&self, id: &Id, params: &str) -> Result<Response, Refusal> {
        let gateway = &self.gateway.0;
        let view = gateway.views.for_query(self.query)?;
        let session = Session::new(self.principal.clone(), view, gateway.news.subscribe(), &gateway.options.bounds);
        let result = self.gateway.negotiate(&session, params)?;
        gateway.memory.add_session(session.clone())?;
        let mut response = json_response(StatusCode::OK, message::response(id, &result));
        if let Ok(mut value) = HeaderValue::from_str(&session.id) {
            value.set_sensitive(true);
            response.headers_mut().insert(SESSION_HEADER, value);
        }
        Ok(response)
    }

    /// The session that the request names, if it names one. An unknown session is an error, so that the client sends
    /// `initialize` again.
    fn session(&self) -> Result<Option<Arc<Session>>, Refusal> {
        session(self.gateway, &self.principal, self.query, self.headers)
    }
}

/// The principal that a layer in front of the gateway has authenticated.
fn principal(gateway: &Gateway, extensions: &Extensions) -> Result<Principal, Refusal> {
    let principal = extensions.get::<Principal>().or(gateway.0.options.default_principal.as_ref()).cloned();
    principal.ok_or_else(|| {
        Refusal::invalid_request(
            "the request does not prove who sends it: the layer in front of the gateway names no principal",
        )
        .status(StatusCode::UNAUTHORIZED)
    })
}

/// Returns the session that a request names; `None` if it names no session. A session of another principal or of
/// another profile is reported as unknown: a token for one profile must not lead into a session that sees more.
fn session(
    gateway: &Gateway,
    principal: &Principal,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, Refusal> {
    let Some(id) = header_text(headers, SESSION_HEADER)? else { return Ok(None) };
    let unknown = || {
        Refusal::invalid_request("there is no such session: it has ended, begin again with initialize")
            .status(StatusCode::NOT_FOUND)
    };
    let profile = gateway.0.views.profile_for_query(query);
    let session = gateway.0.memory.find_session(id, principal);
    let session = session.filter(|session| session.view.profile() == profile.as_ref());
    session.map(Some).ok_or_else(unknown)
}

/// Whether the client may have sessions, judged by its headers. A client of 2026-07-28 has no sessions.
pub(crate) fn has_sessions(headers: &HeaderMap) -> bool {
    headers.get(checks::VERSION_HEADER).is_none_or(|version| version != MODERN_VERSION)
}

/// Whether this is the message with which a client of the legacy era begins a session.
pub(crate) fn begins_session(body: &Bytes) -> bool {
    matches!(message::read(body), Ok(Incoming::Request { method, .. }) if method == "initialize")
}

impl Gateway {
    /// Agrees with a client of the legacy era on a protocol version, and returns the result of `initialize`. If the
    /// gateway does not know the version that the client asks for, it offers the newest legacy version.
    pub(super) fn negotiate(&self, session: &Session, params: &str) -> Result<Bytes, Refusal> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            protocol_version: String,
            #[serde(default)]
            capabilities: serde_json::Map<String, serde_json::Value>,
            #[serde(default)]
            client_info: serde_json::Value,
        }
        let params: Params = serde_json::from_str(params)
            .map_err(|error| Refusal::invalid_params(format!("the parameters: {error}")))?;
        let version = LEGACY_VERSIONS.into_iter().find(|version| *version == params.protocol_version);
        let name = params.client_info.get("name").and_then(serde_json::Value::as_str).map(client_name);
        let may_batch = version == Some(BATCH_VERSION);
        let client_info = ClientInfo { abilities: relay::abilities(&params.capabilities), name, may_batch };
        if session.client_info.set(client_info).is_err() {
            return Err(Refusal::invalid_request("initialize may be sent only once in a session"));
        }
        Ok(self.initialize_result(version.unwrap_or(LEGACY_VERSIONS[0])))
    }
}

/// GET: opens the stream on which a client of the legacy era gets notifications and requests.
async fn handle_get(Extension(gateway): Extension<Gateway>, request: Request) -> Response {
    let headers = request.headers();
    let open_stream = || -> Result<Response, RefusedRequest> {
        check_host_and_origin(headers, &gateway.0.options.hosts)?;
        let principal = principal(&gateway, request.extensions())?;
        let Some(session) = session(&gateway, &principal, request.uri().query(), headers)? else {
            return Err(no_session());
        };
        if !accepts(headers, "text", "event-stream") {
            let refusal = Refusal::invalid_request("accept text/event-stream");
            return Err(refusal.status(StatusCode::NOT_ACCEPTABLE).into());
        }
        let (things, setting) = ("streams", "streams");
        let permit = gateway
            .0
            .stream_limit
            .take(&principal)
            .map_err(|reached| Refusal::limit_reached(things, reached, setting))?;
        Ok(events::open_standing_stream(&gateway, session, principal, permit))
    };
    open_stream().unwrap_or_else(|refused| refused.response(&gateway))
}

/// DELETE: ends the session of a client of the legacy era.
async fn handle_delete(Extension(gateway): Extension<Gateway>, request: Request) -> Response {
    let headers = request.headers();
    let end_session = || -> Result<Response, RefusedRequest> {
        check_host_and_origin(headers, &gateway.0.options.hosts)?;
        let principal = principal(&gateway, request.extensions())?;
        let Some(session) = session(&gateway, &principal, request.uri().query(), headers)? else {
            return Err(no_session());
        };
        gateway.0.memory.end_session(&session.id);
        Ok(empty_response(StatusCode::OK))
    };
    end_session().unwrap_or_else(|refused| refused.response(&gateway))
}

/// Returns the error for a GET or DELETE without a session, as clients of 2026-07-28 might send it.
fn no_session() -> RefusedRequest {
    Refusal::invalid_request("GET and DELETE are only for sessions, which begin with initialize; POST messages here")
        .status(StatusCode::METHOD_NOT_ALLOWED)
        .into()
}
