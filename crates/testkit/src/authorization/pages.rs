//! The pages of the fake authorization server: metadata, registration, sign-in, tokens, and the MCP endpoint that needs
//! them. *Faults* make a page misbehave as a test asks.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{any, get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::{
    ASSERTION, AuthorizationFault, RecordedRequest, Shared,
    grants::{Agreement, Recipient, RefreshOutcome, Tokens, matches_challenge},
    merged,
    proofs::{ProofError, ProofTarget},
};

/// The maximum number of bytes of a request body.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// The grant of workloads (RFC 7523, 2.1).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The header with the nonce that the next proofs must contain.
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The scope of a token if the client asks for none.
const SCOPE: &str = "tools";

/// How a call of a tool names its method, in the JSON of its request.
const CALL_METHOD: &[u8] = b"\"tools/call\"";

/// Returns the value of the first fault that matches the pattern; `None` if the test has not given the server such a
/// fault.
macro_rules! fault {
    ($server:expr, $pattern:pat => $value:expr) => {
        $server.fault(|fault| if let $pattern = fault { Some($value) } else { None })
    };
}

type Server = Arc<Shared>;
type Parameters = BTreeMap<String, String>;

pub(super) fn router(shared: Server) -> Router {
    Router::new()
        .route("/.well-known/oauth-protected-resource", get(resource))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/.well-known/openid-configuration", get(metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .route("/revoke", post(revoke))
        .route("/mcp", any(mcp))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), record))
        .with_state(shared)
}

/// Records a request, and passes it on to its page.
async fn record(State(server): State<Server>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let mut parameters: Vec<_> = pairs(head.uri.query().unwrap_or_default().as_bytes()).collect();
    if header_text(&head.headers, header::CONTENT_TYPE).starts_with("application/x-www-form-urlencoded") {
        parameters.extend(pairs(&body));
    }
    let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let authorization = authorization.map(str::to_owned);
    let proof = head.headers.get("dpop").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let endpoint = format!("{} {}", head.method, head.uri.path());
    server.state.lock().requests.push(RecordedRequest { endpoint, parameters, authorization, proof });
    next.run(Request::from_parts(head, body.into())).await
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = (String, String)> + '_ {
    form_urlencoded::parse(bytes).map(|(name, value)| (name.into_owned(), value.into_owned()))
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn json_response(status: u16, value: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], value.to_string())
        .into_response()
}

/// Counts a refused request, and returns an OAuth error for it (RFC 6749, 5.2).
fn refuse(server: &Server, status: u16, error: &str, why: &str) -> Response {
    server.state.lock().counts.refused += 1;
    json_response(status, &json!({ "error": error, "error_description": why }))
}

/// Serves metadata of either kind, with the configured faults.
async fn metadata_response(server: &Server, mut document: Value) -> Response {
    let delay = fault!(server, AuthorizationFault::SlowMetadata(time) => *time);
    if let Some(time) = delay {
        tokio::time::sleep(time).await;
    }
    if let Some(location) = fault!(server, AuthorizationFault::MovedMetadata(location) => location.clone()) {
        return (StatusCode::FOUND, [(header::LOCATION, location)]).into_response();
    }
    if let Some(text) = fault!(server, AuthorizationFault::NoJson(text) => *text) {
        return ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    }
    if let Some(bytes) = fault!(server, AuthorizationFault::HugeMetadata(bytes) => *bytes) {
        document["filler"] = "x".repeat(bytes).into();
    }
    json_response(200, &document)
}

async fn resource(State(server): State<Server>) -> Response {
    let document = json!({
        "resource": server.mcp_url(),
        "authorization_servers": [server.issuer()],
        "scopes_supported": [SCOPE],
        "bearer_methods_supported": ["header"],
    });
    let changes = fault!(server, AuthorizationFault::ResourceMetadata(changes) => changes.clone());
    metadata_response(&server, merged(document, &changes.unwrap_or_default())).await
}

async fn metadata(State(server): State<Server>) -> Response {
    let issuer = server.issuer();
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "registration_endpoint": format!("{issuer}/register"),
        "scopes_supported": [SCOPE, "offline_access"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
        "dpop_signing_alg_values_supported": ["ES256"],
    });
    if fault!(server, AuthorizationFault::NoRegistration => ()).is_some() {
        document = merged(document, &json!({ "registration_endpoint": null }));
    }
    let changes = fault!(server, AuthorizationFault::Metadata(changes) => changes.clone());
    metadata_response(&server, merged(document, &changes.unwrap_or_default())).await
}

async fn register(State(server): State<Server>, body: Bytes) -> Response {
    let Ok(mut client) = serde_json::from_slice::<Value>(&body) else {
        return refuse(&server, 400, "invalid_client_metadata", "no JSON");
    };
    if fault!(server, AuthorizationFault::NoRegistration => ()).is_some() {
        return refuse(&server, 403, "access_denied", "registration is refused here");
    }
    if client["redirect_uris"].as_array().is_none_or(Vec::is_empty) {
        return refuse(&server, 400, "invalid_redirect_uri", "there is none");
    }
    let with_secret = client["token_endpoint_auth_method"].as_str().is_some_and(|method| method != "none");
    let mut state = server.state.lock();
    let (id, secret) = state.grants.register(with_secret);
    state.counts.registrations += 1;
    drop(state);
    client["client_id"] = id.into();
    if let Some(secret) = secret {
        client["client_secret"] = secret.into();
        client["client_secret_expires_at"] = 0.into();
    }
    json_response(201, &client)
}

/// Redirects back to the client at once, as if a user had agreed.
async fn authorize(State(server): State<Server>, request: Request) -> Response {
    let parameters: Parameters = pairs(request.uri().query().unwrap_or_default().as_bytes()).collect();
    let parameter = |name: &str| parameters.get(name).cloned().unwrap_or_default();
    let error_page = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned()).into_response();
    let is_known = server.state.lock().grants.has_client(&parameter("client_id"));
    let redirect_of_unknown = fault!(server, AuthorizationFault::RedirectsUnknownClients(error) => *error);
    if !is_known && redirect_of_unknown.is_none() {
        return error_page("no such client");
    }
    let Ok(mut redirect_uri) = Url::parse(&parameter("redirect_uri")) else {
        return error_page("no redirect_uri");
    };
    if parameter("response_type") != "code"
        || parameter("code_challenge_method") != "S256"
        || parameter("code_challenge").len() != 43
    {
        return error_page("only `response_type=code` with PKCE and S256 is supported");
    }
    if parameter("resource") != server.mcp_url() {
        return error_page("`resource` must be that of the MCP server");
    }
    if let Some(location) = fault!(server, AuthorizationFault::SentTo(location) => location.clone()) {
        return (StatusCode::FOUND, [(header::LOCATION, location)]).into_response();
    }
    let refusal = fault!(server, AuthorizationFault::Refuses(error) => *error)
        .or(redirect_of_unknown.flatten().filter(|_| !is_known));
    let iss = fault!(server, AuthorizationFault::Iss(iss) => iss.clone());
    let state = fault!(server, AuthorizationFault::State(state) => (*state).to_owned());
    {
        let mut query = redirect_uri.query_pairs_mut();
        match refusal {
            Some(error) => drop(query.append_pair("error", error)),
            None => drop(query.append_pair("code", &issue_code(&server, &parameters))),
        }
        if parameters.contains_key("state") || state.is_some() {
            query.append_pair("state", &state.unwrap_or_else(|| parameter("state")));
        }
        if let Some(iss) = iss.unwrap_or_else(|| Some(server.issuer())) {
            query.append_pair("iss", &iss);
        }
    }
    (StatusCode::FOUND, [(header::LOCATION, redirect_uri.to_string())]).into_response()
}

/// Issues a code for the request with these query parameters.
fn issue_code(server: &Server, parameters: &Parameters) -> String {
    let parameter = |name: &str| parameters.get(name).cloned().unwrap_or_default();
    let mut state = server.state.lock();
    state.counts.authorizations += 1;
    state.grants.issue_code(Agreement {
        client: parameter("client_id"),
        redirect_uri: parameter("redirect_uri"),
        challenge: parameter("code_challenge"),
        resource: parameter("resource"),
        scope: Some(parameter("scope")).filter(|scope| !scope.is_empty()).unwrap_or_else(|| SCOPE.to_owned()),
    })
}

/// Returns the id of the client that sends a request, and its secret: from the header (RFC 6749, 2.3.1) or from the
/// form.
fn read_client(headers: &HeaderMap, form: &Parameters) -> (String, Option<String>) {
    let basic = header_text(headers, header::AUTHORIZATION)
        .strip_prefix("Basic ")
        .and_then(|basic| STANDARD.decode(basic).ok());
    let basic = basic.and_then(|basic| String::from_utf8(basic).ok());
    let decoded = |text: &str| {
        // The parser decodes only whole pairs.
        let pair = format!("x={text}");
        pairs(pair.as_bytes()).next().map(|(_, value)| value).unwrap_or_default()
    };
    match basic.as_deref().and_then(|basic| basic.split_once(':')) {
        Some((id, secret)) => (decoded(id), Some(decoded(secret))),
        None => (form.get("client_id").cloned().unwrap_or_default(), form.get("client_secret").cloned()),
    }
}

async fn token(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    let delay = fault!(server, AuthorizationFault::SlowTokens(time) => *time);
    if let Some(time) = delay {
        tokio::time::sleep(time).await;
    }
    if let Some(error) = fault!(server, AuthorizationFault::TokenError(error) => *error) {
        return refuse(&server, 400, error, "the test has given the server this fault");
    }
    let form: Parameters = pairs(&body).collect();
    let url = format!("{}/token", server.issuer());
    let key = match check_proof(&server, &headers, ProofTarget { method: "POST", url: &url, token: None }) {
        Ok(key) => key,
        Err(ProofRefusal::Nonce(nonce)) => {
            let mut answer = refuse(&server, 400, "use_dpop_nonce", "another nonce");
            answer.headers_mut().extend(nonce.map(|nonce| (NONCE, nonce)));
            return answer;
        }
        Err(ProofRefusal::Invalid(why)) => return refuse(&server, 400, "invalid_dpop_proof", why),
    };
    let (client, secret) = read_client(&headers, &form);
    let is_workload = form.get("grant_type").is_some_and(|grant| grant == JWT_BEARER) && client.is_empty();
    if !is_workload && !server.state.lock().grants.is_authenticated(&client, secret.as_deref()) {
        return refuse(&server, 401, "invalid_client", "no such client, or another secret");
    }
    let result = server.state.lock().statements.check(&client, &server.issuer(), &form);
    if let Err(why) = result {
        return refuse(&server, 401, "invalid_client", why);
    }
    let recipient = Recipient { client: &client, key: key.as_deref() };
    let parameter = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    if parameter("resource") != server.mcp_url() {
        return refuse(&server, 400, "invalid_target", "`resource` must be that of the MCP server");
    }
    // The grants that need no browser get no refresh token.
    let with_refresh = false;
    let issued = match parameter("grant_type") {
        "authorization_code" => exchange_code(&server, recipient, &form),
        "refresh_token" => refresh_tokens(&server, recipient, parameter("refresh_token")),
        "client_credentials" if secret.is_some() => {
            let scope = form.get("scope").map_or(SCOPE, String::as_str);
            Ok(server.state.lock().grants.issue_tokens(recipient, parameter("resource"), scope, with_refresh))
        }
        JWT_BEARER if parameter("assertion") == ASSERTION => {
            Ok(server.state.lock().grants.issue_tokens(recipient, parameter("resource"), SCOPE, with_refresh))
        }
        JWT_BEARER => Err(("invalid_grant", "not this assertion")),
        _ => Err(("unsupported_grant_type", "not here")),
    };
    server.hold_back().await;
    match issued {
        Ok(tokens) => json_response(200, &token_response(&server, &tokens)),
        Err((error, why)) => refuse(&server, 400, error, why),
    }
}

/// Issues tokens for the code in `form`. An error is the OAuth error code, with an explanation.
fn exchange_code(
    server: &Server,
    recipient: Recipient<'_>,
    form: &Parameters,
) -> Result<Tokens, (&'static str, &'static str)> {
    let parameter = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let with_refresh = fault!(server, AuthorizationFault::NoRefresh => ()).is_none();
    let mut state = server.state.lock();
    let agreement = state.grants.redeem(parameter("code")).ok_or(("invalid_grant", "no such code"))?;
    if agreement.client != recipient.client || agreement.redirect_uri != parameter("redirect_uri") {
        return Err(("invalid_grant", "the code belongs to another client or redirect_uri"));
    }
    if !matches_challenge(parameter("code_verifier"), &agreement.challenge) {
        return Err(("invalid_grant", "the code_verifier does not match the code_challenge"));
    }
    if agreement.resource != parameter("resource") {
        return Err(("invalid_target", "the code is for another resource"));
    }
    state.counts.exchanges += 1;
    Ok(state.grants.issue_tokens(recipient, &agreement.resource, &agreement.scope, with_refresh))
}

/// Issues tokens for the refresh token `token`. An error is the OAuth error code, with an explanation.
fn refresh_tokens(
    server: &Server,
    recipient: Recipient<'_>,
    token: &str,
) -> Result<Tokens, (&'static str, &'static str)> {
    let rotates = fault!(server, AuthorizationFault::NoRotation => ()).is_none();
    let mut state = server.state.lock();
    match state.grants.refresh(recipient, token, rotates) {
        RefreshOutcome::Fresh(tokens) => {
            state.counts.refreshes += 1;
            Ok(tokens)
        }
        RefreshOutcome::Reused => {
            state.counts.reused += 1;
            Err(("invalid_grant", "this refresh token was used before"))
        }
        RefreshOutcome::Unknown => Err(("invalid_grant", "no such refresh token")),
    }
}

/// Returns the body of a successful answer of the token endpoint (RFC 6749, 5.1).
fn token_response(server: &Server, tokens: &Tokens) -> Value {
    let lives = fault!(server, AuthorizationFault::Lives(seconds) => *seconds);
    let kind = fault!(server, AuthorizationFault::TokenType(kind) => *kind);
    let mut response = json!({
        "access_token": tokens.access,
        "token_type": kind.unwrap_or(if tokens.is_bound { "DPoP" } else { "Bearer" }),
        "expires_in": lives.unwrap_or(3_600),
        "scope": tokens.scope,
    });
    if let Some(refresh) = &tokens.refresh {
        response["refresh_token"] = refresh.clone().into();
    }
    response
}

async fn revoke(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    let form: Parameters = pairs(&body).collect();
    let (client, secret) = read_client(&headers, &form);
    if !server.state.lock().grants.is_authenticated(&client, secret.as_deref()) {
        return refuse(&server, 401, "invalid_client", "no such client, or another secret");
    }
    let is_refresh_token = form.get("token_type_hint").is_some_and(|hint| hint == "refresh_token");
    if is_refresh_token && fault!(server, AuthorizationFault::RevokesNoRefreshTokens => ()).is_some() {
        return refuse(&server, 400, "unsupported_token_type", "not refresh tokens");
    }
    let mut state = server.state.lock();
    if state.grants.revoke(form.get("token").map(String::as_str).unwrap_or_default()) {
        state.counts.revocations += 1;
    }
    // The answer is the same for an unknown token (RFC 7009, 2.2).
    StatusCode::OK.into_response()
}

/// Passes a request with a valid token on to the MCP server, and refuses any other.
async fn mcp(State(server): State<Server>, request: Request) -> Response {
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", server.issuer());
    let reject = |status: StatusCode, more: &str| {
        server.state.lock().counts.rejected += 1;
        let scheme = if fault!(server, AuthorizationFault::OnlyBound => ()).is_some() { "DPoP" } else { "Bearer" };
        let challenge = format!("{scheme} resource_metadata=\"{metadata}\"{more}");
        (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
    };
    let (head, body) = request.into_parts();
    let Some((is_bound, token)) = read_token(&head.headers) else {
        return reject(StatusCode::UNAUTHORIZED, "");
    };
    if !is_bound && fault!(server, AuthorizationFault::OnlyBound => ()).is_some() {
        return reject(StatusCode::UNAUTHORIZED, ", error=\"invalid_token\"");
    }
    let target = ProofTarget { method: head.method.as_str(), url: &server.mcp_url(), token: Some(token) };
    let proved = if is_bound { check_proof(&server, &head.headers, target) } else { Ok(None) };
    let key = match proved {
        Ok(None) if is_bound => return reject(StatusCode::UNAUTHORIZED, ", error=\"invalid_dpop_proof\""),
        Ok(key) => key,
        Err(ProofRefusal::Nonce(nonce)) => {
            let mut answer = reject(StatusCode::UNAUTHORIZED, ", error=\"use_dpop_nonce\"");
            answer.headers_mut().extend(nonce.map(|nonce| (NONCE, nonce)));
            return answer;
        }
        Err(ProofRefusal::Invalid(_)) => {
            return reject(StatusCode::UNAUTHORIZED, ", error=\"invalid_dpop_proof\"");
        }
    };
    let max_uses = fault!(server, AuthorizationFault::Expires(requests) => *requests);
    let admitted = server.state.lock().grants.admit(token, key.as_deref(), &server.mcp_url(), max_uses);
    let Some(scope) = admitted else {
        return reject(StatusCode::UNAUTHORIZED, ", error=\"invalid_token\"");
    };
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let required_scope = fault!(server, AuthorizationFault::WantsScope(scope) => *scope);
    if let Some(missing) = required_scope.filter(|required| !scope.split(' ').any(|granted| granted == *required))
        && body.windows(CALL_METHOD.len()).any(|window| window == CALL_METHOD)
    {
        return reject(StatusCode::FORBIDDEN, &format!(", error=\"insufficient_scope\", scope=\"{scope} {missing}\""));
    }
    server.state.lock().counts.admitted += 1;
    let mut answer = forward(&server, &head, body).await;
    if fault!(server, AuthorizationFault::ChangesNonce => ()).is_some() {
        answer.headers_mut().extend(header_value(&newest_nonce(&server)).map(|nonce| (NONCE, nonce)));
    }
    answer
}

/// Returns whether a request declares its token as bound to a key (scheme `DPoP`), and the token.
fn read_token(headers: &HeaderMap) -> Option<(bool, &str)> {
    let (scheme, token) = header_text(headers, header::AUTHORIZATION).split_once(' ')?;
    match scheme {
        "Bearer" => Some((false, token)),
        "DPoP" => Some((true, token)),
        _ => None,
    }
}

/// Why a request does not prove a key.
enum ProofRefusal {
    /// The proof must contain this nonce.
    Nonce(Option<HeaderValue>),
    /// The proof is not valid, for this reason.
    Invalid(&'static str),
}

/// Checks the proof of a request, and returns the key that the client has thereby proved to have; `None` for a request
/// without a proof.
fn check_proof(server: &Server, headers: &HeaderMap, target: ProofTarget<'_>) -> Result<Option<String>, ProofRefusal> {
    if !headers.contains_key("dpop") {
        return Ok(None);
    }
    let result = server.state.lock().proofs.check(headers, target);
    let proof = result.map_err(|error| match error {
        ProofError::Invalid(why) => ProofRefusal::Invalid(why),
        ProofError::Replayed => {
            server.state.lock().counts.replayed += 1;
            ProofRefusal::Invalid("this proof was used before")
        }
    })?;
    let required = fault!(server, AuthorizationFault::WantsNonce(nonce) => nonce.clone());
    let required =
        required.or_else(|| fault!(server, AuthorizationFault::ChangesNonce => ()).map(|()| newest_nonce(server)));
    // `ChangesNonce` is a fault of the MCP server: it does not apply at the token endpoint, where there is no token
    // yet.
    let required =
        required.filter(|_| target.token.is_some() || fault!(server, AuthorizationFault::ChangesNonce => ()).is_none());
    if let Some(required) = required.filter(|required| proof.nonce.as_ref() != Some(required)) {
        return Err(ProofRefusal::Nonce(header_value(&required)));
    }
    if let Some(nonce) = fault!(server, AuthorizationFault::NoNonceFits(nonce) => nonce.clone()) {
        return Err(ProofRefusal::Nonce(header_value(&nonce)));
    }
    server.state.lock().counts.proofs += 1;
    Ok(Some(proof.key))
}

fn header_value(nonce: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(nonce).ok()
}

/// Returns the nonce that is valid now if the server has the fault [`ChangesNonce`](AuthorizationFault::ChangesNonce).
/// The nonce changes with each admitted request.
fn newest_nonce(server: &Server) -> String {
    format!("nonce-{}", server.state.lock().counts.admitted)
}

/// Passes a request on to the MCP server, without its token, and returns the answer.
async fn forward(server: &Server, head: &http::request::Parts, body: Bytes) -> Response {
    let mut headers = head.headers.clone();
    for name in [header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let request = server.client.request(head.method.clone(), server.mcp_server.url()).headers(headers).body(body);
    match request.send().await {
        Ok(answer) => {
            let (status, mut headers) = (answer.status(), answer.headers().clone());
            headers.remove(header::TRANSFER_ENCODING);
            headers.remove(header::CONTENT_LENGTH);
            (status, headers, Body::from_stream(answer.bytes_stream())).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
