//! Protects the daemon: a request needs the daemon's token, or the token of a team's member, and may not come from a
//! web page other than the dashboard.
//!
//! A page of another site can make a browser send requests to the daemon. But that page cannot read the token, and the
//! requests carry its `Origin`. If the site points its own name at this machine (DNS rebinding), they carry the
//! site's `Host` as well.

mod members;
mod unauthenticated;

use std::{
    fmt, iter,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE},
};
use subtle::ConstantTimeEq as _;
use toolrack_host::Principal;
use toolrack_team::{Endpoint, FrontDoor, NoRandom, ProvedToken, random_text};
use url::Url;

pub(crate) use self::{
    members::Members,
    unauthenticated::{Connection, Registration, UnauthenticatedConnections},
};
use crate::{error::ApiError, fair_limit::LimitReached, membership::Membership, replicas::FromSibling};

/// How many requests a limiter lets through.
struct Rate {
    per_second: u32,
    /// The maximum number of requests in a burst.
    burst: u32,
}

/// The rate limit of requests with a valid token. It is far more than the clients of one gateway can send.
const RATE: Rate = Rate { per_second: 50_000, burst: 100_000 };

/// The rate limit of requests without a valid token. It is separate, so that they cannot use up [`RATE`].
const RATE_UNAUTHENTICATED: Rate = Rate { per_second: 5_000, burst: 10_000 };

/// How long a client should wait before it tries again after the guard has refused it because of a limit.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The content type of a stream of events.
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// The schemes of URLs, as in the `Origin` of a page.
const HTTP: &str = "http";
const HTTPS: &str = "https";

/// The header in which a browser says how the origin of the page is related to the origin of the requested URL.
const FETCH_SITE: &str = "sec-fetch-site";

/// The value of [`FETCH_SITE`] for a page of the same scheme, host and port as the request.
const SAME_ORIGIN: &str = "same-origin";

/// The path prefixes that need a token. `/p` has the MCP endpoints of profiles, and `/t` the MCP endpoints of tenants.
const PROTECTED: &[&str] = &["/agents", "/api", "/mcp", "/metrics", "/p", "/t"];

/// The secret that gives access to the daemon: 256 random bits in hex. Each launch of a daemon makes a new one.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Token {
    /// Creates a random token.
    ///
    /// # Errors
    /// [`NoRandom`] when the system has no random bytes.
    pub fn new() -> Result<Self, NoRandom> {
        random_text::<32>("").map(|token| Self(token.to_string()))
    }

    /// Uses a token that was agreed on elsewhere.
    #[must_use]
    pub fn from_secret(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this token. Takes the same time wherever the two differ.
    pub(crate) fn matches(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// The sender of a request, as its token proves.
#[derive(Clone, Debug)]
pub(crate) enum ProvedSender {
    /// The user of the daemon's machine: the request has the token of this launch, or the token of one of its agents.
    Local,
    /// A member of the team.
    Member(ProvedToken),
}

impl ProvedSender {
    fn principal(&self) -> Principal {
        match self {
            Self::Local => Principal::LOCAL,
            Self::Member(proved_token) => proved_token.member().clone(),
        }
    }
}

/// Returns whether a token other than the daemon's own opens a path, for example the token of an agent. The arguments
/// are the path and the token.
pub(crate) type OtherTokenCheck = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Checks each request before anything else handles it.
pub(crate) struct Guard {
    token: Token,
    /// The names under which clients reach the daemon.
    hosts: Vec<OwnHost>,
    /// Limits the requests with a valid token.
    authenticated_rate: DefaultDirectRateLimiter,
    /// Limits the requests without a valid token.
    unauthenticated_rate: DefaultDirectRateLimiter,
    accepts_other_token: OtherTokenCheck,
    /// Finds the members of the team by their tokens. `None` for a daemon without a team.
    members: Option<Members>,
}

/// A name under which clients reach the daemon.
struct OwnHost {
    /// The `Host` of requests, in lower case. It includes the port unless clients leave that out.
    name: String,
    /// The scheme of the URLs with this name. `None` if either may be right: a daemon without TLS cannot know whether a
    /// proxy in front of it speaks TLS.
    scheme: Option<&'static str>,
}

impl OwnHost {
    /// Returns whether the pages of the daemon at this name have the origin `scheme://name`.
    fn has_origin(&self, scheme: &str, name: &str) -> bool {
        matches!(scheme, HTTP | HTTPS) && self.name == name && self.scheme.is_none_or(|own_scheme| own_scheme == scheme)
    }
}

/// Returns the `Host` of requests to `url`.
pub(crate) fn host_of(url: &Url) -> String {
    // Each URL with the scheme http or https has a host.
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether a request to `path` needs a token. What the daemon answers at other paths is no secret.
pub(crate) fn is_protected(path: &str) -> bool {
    PROTECTED
        .iter()
        .any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The member of a team who sent `request`; the guard has checked their token. `None` for the user of the daemon's
/// machine.
pub(crate) fn member_of(request: &Request) -> Option<Principal> {
    request.extensions().get::<Principal>().filter(|principal| !principal.is_local()).cloned()
}

impl Guard {
    /// Creates the guard of a daemon at `address`, which may also be reached under the names `hosts`. A name includes
    /// the port unless clients leave that out of `Host`: 80, and 443 with TLS. `has_tls` says whether the daemon itself
    /// speaks TLS.
    pub(crate) fn new(
        token: Token,
        address: SocketAddr,
        has_tls: bool,
        hosts: &[String],
        accepts_other_token: OtherTokenCheck,
    ) -> Self {
        let (scheme, usual_port) = if has_tls { (HTTPS, 443) } else { (HTTP, 80) };
        let port = address.port();
        let own_name = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let own_hosts = ["127.0.0.1", "localhost", "[::1]", &own_name].into_iter().flat_map(|name| {
            let without_port = (port == usual_port).then(|| name.to_owned());
            let names = iter::once(format!("{name}:{port}")).chain(without_port);
            names.map(move |name| OwnHost { name, scheme: Some(scheme) })
        });
        let named_hosts =
            hosts.iter().map(|host| OwnHost { name: host.to_ascii_lowercase(), scheme: has_tls.then_some(HTTPS) });
        Self {
            token,
            hosts: own_hosts.chain(named_hosts).collect(),
            authenticated_rate: limiter(RATE),
            unauthenticated_rate: limiter(RATE_UNAUTHENTICATED),
            accepts_other_token,
            members: None,
        }
    }

    /// Accepts the requests of a team's members, in addition to those with the daemon's token.
    pub(crate) fn with_team(mut self, members: Members) -> Self {
        self.set_scheme_of(members.url());
        Self { members: Some(members), ..self }
    }

    /// Accepts pages at the host of `url` only with the scheme of `url`.
    fn set_scheme_of(&mut self, url: &Url) {
        let (name, scheme) = (host_of(url), if url.scheme() == HTTPS { HTTPS } else { HTTP });
        self.hosts.iter_mut().filter(|host| host.name == name).for_each(|host| host.scheme = Some(scheme));
    }

    /// Returns the sender of a request, if the request has a valid token, and the refusal, if the guard refuses the
    /// request. A request with a valid token may be refused for another reason.
    async fn check_request(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        from_sibling: Option<FromSibling>,
    ) -> (Option<ProvedSender>, Option<ApiError>) {
        let sender = match (self.local_sender(uri.path(), headers), &self.members) {
            (Some(local), _) => Ok(Some(local)),
            (None, Some(members)) => {
                let may_ask_store = || self.unauthenticated_rate.check().is_ok();
                members
                    .prove(method, uri.path(), headers, may_ask_store)
                    .await
                    .map(|found| found.map(ProvedSender::Member))
            }
            (None, None) => Ok(None),
        };
        let (sender, token_refusal) = match sender {
            Ok(sender) => (sender, None),
            Err(refusal) => (None, Some(refusal)),
        };
        let is_authenticated = sender.is_some();
        // A client sent this request to another replica (a sibling), which has already checked all of this.
        let misuse = match from_sibling {
            Some(FromSibling) => None,
            None => self.misuse_refusal(uri, headers, is_authenticated),
        };
        let refusal = misuse.or(token_refusal).or_else(|| self.no_token_refusal(uri, is_authenticated));
        (sender, refusal)
    }

    /// Returns the refusal of a request that comes too often, is ambiguous, has the wrong `Host`, or comes from another
    /// site.
    fn misuse_refusal(&self, uri: &Uri, headers: &HeaderMap, is_authenticated: bool) -> Option<ApiError> {
        let rate_limiter = if is_authenticated { &self.authenticated_rate } else { &self.unauthenticated_rate };
        if rate_limiter.check().is_err() {
            return Some(too_many("too many requests"));
        }
        // If a header had two values, this code could check one of them while a proxy or a handler uses the other.
        if let Some(name) = [HOST, ORIGIN, AUTHORIZATION].iter().find(|name| has_several_values(headers, name)) {
            return Some(ambiguous(format!("the request has more than one header `{name}`")));
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_ascii_lowercase);
        if uri.authority().is_some_and(|named| host.as_deref() != Some(&*named.as_str().to_ascii_lowercase())) {
            return Some(ambiguous("the address of the request names another host than its header `Host`".to_owned()));
        }
        if !host.is_some_and(|host| self.hosts.iter().any(|own_host| own_host.name == host)) {
            let message = "the daemon is not known by this name";
            return Some(
                ApiError::new(StatusCode::FORBIDDEN, "WRONG_HOST", message)
                    .hint("use the address that `toolrack up` printed, or name it with --allow-host"),
            );
        }
        // The front door (the sign-in of a team) answers some paths to all origins, and checks the origin itself at the
        // others.
        let is_at_front_door = self.members.is_some() && FrontDoor::is_at(uri.path());
        if !is_at_front_door && headers.get(ORIGIN).is_some_and(|origin| !self.is_own_page(origin, headers)) {
            return Some(ApiError::new(
                StatusCode::FORBIDDEN,
                "WRONG_ORIGIN",
                "pages of other sites may not send requests",
            ));
        }
        None
    }

    /// Returns the refusal of a request that needs a token and has no valid one.
    fn no_token_refusal(&self, uri: &Uri, is_authenticated: bool) -> Option<ApiError> {
        let needs_token = is_protected(uri.path());
        // Wrong tokens have no limit of their own beside `RATE_UNAUTHENTICATED`, because an attacker cannot guess 256
        // bits anyway. With such a limit, a client with an old token could not learn that its token is wrong while
        // other clients send wrong tokens.
        (needs_token && !is_authenticated).then(|| {
            let hint = match &self.members {
                Some(members) => members.hint(),
                None => "send `Authorization: Bearer TOKEN` with the token that `toolrack up` printed".to_owned(),
            };
            self.unauthorized("the token is missing or wrong").hint(hint)
        })
    }

    /// Returns the refusal of a request whose token ended while it was under way.
    fn token_ended_refusal(&self) -> ApiError {
        self.unauthorized("the token has ended, or the rights of its member changed")
            .hint("send the request again; sign in if it is refused")
    }

    /// Returns a refusal of status 401 that names the page on which a member signs in, if there is one.
    fn unauthorized(&self, message: &str) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
            .sign_in(self.members.as_ref().and_then(Members::sign_in_page))
    }

    /// The `WWW-Authenticate` of a refusal at `path`.
    fn challenge(&self, path: &str, headers: &HeaderMap) -> HeaderValue {
        let team_endpoint = self.members.as_ref().zip(Endpoint::at(path));
        let text =
            team_endpoint.map(|(members, endpoint)| members.challenge(endpoint, headers.contains_key(AUTHORIZATION)));
        let without_metadata = HeaderValue::from_static("Bearer realm=\"toolrack\"");
        text.and_then(|text| HeaderValue::from_str(&text).ok()).unwrap_or(without_metadata)
    }

    /// Returns the membership of the member who sent a request. Only requests to the control API need it.
    fn membership(&self, path: &str, sender: Option<&ProvedSender>) -> Option<Membership> {
        match (sender, &self.members) {
            (Some(ProvedSender::Member(sender)), Some(members)) if Endpoint::at(path).is_none() => {
                members.membership(sender)
            }
            _ => None,
        }
    }

    /// Returns whether a page of the daemon itself sent a request with this `Origin`.
    ///
    /// The scheme counts: any machine on the way can answer for `http://tools.example`, and its page must not reach
    /// `https://tools.example`. Behind a proxy that ends TLS, the daemon knows the right scheme only if the URL of its
    /// team says it. For other names, the browser's own comparison of the page with the URL of the request decides
    /// (`Sec-Fetch-Site`).
    fn is_own_page(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        // An origin that is not ASCII is not the daemon's own.
        let origin = origin.to_str().map(str::to_ascii_lowercase).unwrap_or_default();
        let is_own_origin = origin
            .split_once("://")
            .is_some_and(|(scheme, name)| self.hosts.iter().any(|own_host| own_host.has_origin(scheme, name)));
        // Browsers send this header only to HTTPS and to this machine; other clients do not send it.
        is_own_origin && headers.get_all(FETCH_SITE).iter().all(|site| site == SAME_ORIGIN)
    }

    /// Returns [`ProvedSender::Local`] if the request has the token of this launch, or the token of the agent to which
    /// `path` belongs.
    fn local_sender(&self, path: &str, headers: &HeaderMap) -> Option<ProvedSender> {
        let token = bearer(headers)?;
        (self.token.matches(token) || (self.accepts_other_token)(path, token)).then_some(ProvedSender::Local)
    }
}

/// The token in `Authorization`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

fn has_several_values(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
}

/// The refusal of a request that can be read in two ways.
fn ambiguous(message: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "AMBIGUOUS_REQUEST", message).hint("send each of them once")
}

/// Makes a limiter that lets requests through at this rate.
fn limiter(Rate { per_second, burst }: Rate) -> DefaultDirectRateLimiter {
    // The rates above are not 0; the type only demands a fallback.
    let nonzero = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    RateLimiter::direct(Quota::per_second(nonzero(per_second)).allow_burst(nonzero(burst)))
}

fn too_many(message: &str) -> ApiError {
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", message)
        .hint("wait a second")
        .retry_after(BUSY_RETRY_AFTER)
}

/// The refusal of a request whose sender has too many connections.
fn too_many_connections(reached: LimitReached) -> ApiError {
    let message = format!("too many connections {}", reached.of_whom());
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_CONNECTIONS", message)
        .hint("end streams and connections that are not needed (`member_connections` in `[serve]`)")
        .retry_after(BUSY_RETRY_AFTER)
}

/// Lets a request through, with its principal and its membership in the extensions, or answers it with a refusal.
pub(crate) async fn check(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let _request_guard = connection.as_ref().map(Connection::begin_request);
    let from_sibling = request.extensions().get().copied();
    let (sender, refusal) = guard.check_request(request.method(), request.uri(), request.headers(), from_sibling).await;
    let assignment = match (&sender, &connection) {
        (Some(sender), Some(connection)) => connection.assign_to(&sender.principal()),
        _ => Ok(()),
    };
    if let Some(refusal) = refusal.or_else(|| assignment.err().map(too_many_connections)) {
        return refusal_response(refusal, guard.challenge(request.uri().path(), request.headers()));
    }
    if let Some(sender) = &sender {
        request.extensions_mut().insert(sender.principal());
    }
    if let Some(membership) = guard.membership(request.uri().path(), sender.as_ref()) {
        request.extensions_mut().insert(membership);
    }
    match sender {
        Some(ProvedSender::Member(sender)) => {
            let challenge = guard.challenge(request.uri().path(), request.headers());
            if let Some(uri) = for_all_tenants(request.uri()) {
                *request.uri_mut() = uri;
            }
            until_the_token_ends(sender, guard.token_ended_refusal(), challenge, next.run(request)).await
        }
        _ => next.run(request).await,
    }
}

/// If `uri` addresses an endpoint of one tenant, returns the URI of the endpoint for all tenants, which answers each
/// member for their own tenant. The guard has checked before that the member belongs to the tenant of `uri`.
fn for_all_tenants(uri: &Uri) -> Option<Uri> {
    let endpoint = Endpoint::at(uri.path())?.for_all_tenants()?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{endpoint}{query}").parse().ok()
}

/// The answer to a request of a member, or `refusal` as soon as the member's token has ended. A stream of events ends
/// when the token ends.
async fn until_the_token_ends(
    token: ProvedToken,
    refusal: ApiError,
    challenge: HeaderValue,
    answer: impl Future<Output = Response>,
) -> Response {
    let response = tokio::select! {
        response = answer => response,
        () = token.ended() => return refusal_response(refusal, challenge),
    };
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM));
    if !is_stream {
        return response;
    }
    response.map(|body| {
        let token_end = async move { token.ended().await };
        Body::from_stream(body.into_data_stream().take_until(Box::pin(token_end)))
    })
}

/// An answer of the guard itself, with the headers that belong to its status. `challenge` says how a client proves who
/// it is.
fn refusal_response(refusal: ApiError, challenge: HeaderValue) -> Response {
    let mut response = refusal.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "127.0.0.1:7717";

    fn guard() -> Guard {
        let agent_token_opens = |path: &str, token: &str| path == "/agents/a/mcp" && token == "a-token";
        let hosts = ["tools.example".to_owned()];
        Guard::new(Token::from_secret("t0ken"), OWN.parse().unwrap(), false, &hosts, Box::new(agent_token_opens))
    }

    /// The status with which `guard` refuses a request; 200 if it lets the request through.
    fn status(guard: &Guard, uri: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        let uri: Uri = uri.parse().unwrap();
        let is_known = guard.local_sender(uri.path(), &all).is_some();
        let refusal = guard.misuse_refusal(&uri, &all, is_known).or_else(|| guard.no_token_refusal(&uri, is_known));
        refusal.map_or(200, |refusal| refusal.status().as_u16())
    }

    #[test]
    fn only_the_token_opens_the_api() {
        let guard = guard();
        assert_eq!(status(&guard, "/api/v1/servers", &[("host", OWN)]), 401);
        assert_eq!(status(&guard, "/api/v1/servers", &[("host", OWN), ("authorization", "Bearer t0ke")]), 401);
        assert_eq!(status(&guard, "/api/v1/servers", &[("host", OWN), ("authorization", "Basic t0ken")]), 401);
        assert_eq!(status(&guard, "/api/v1/servers", &[("host", OWN), ("authorization", "Bearer t0ken")]), 200);
        assert_eq!(status(&guard, "/metrics", &[("host", OWN)]), 401);
        assert_eq!(status(&guard, "/mcp", &[("host", OWN)]), 401);
        assert_eq!(status(&guard, "/", &[("host", OWN)]), 200);
    }

    #[test]
    fn the_token_of_an_agent_opens_its_endpoint_and_nothing_else() {
        let with = |path| status(&guard(), path, &[("host", OWN), ("authorization", "Bearer a-token")]);
        assert_eq!(with("/agents/a/mcp"), 200);
        for path in ["/agents/b/mcp", "/agents/a/api/v1/servers", "/agents/a/metrics", "/mcp", "/api/v1/agents"] {
            assert_eq!(with(path), 401, "{path}");
        }
    }

    #[test]
    fn a_host_name_that_the_daemon_does_not_know_is_refused_even_with_the_token() {
        let token = ("authorization", "Bearer t0ken");
        assert_eq!(status(&guard(), "/api/v1/servers", &[("host", "evil.example:7717"), token]), 403);
        assert_eq!(status(&guard(), "/", &[("host", "evil.example:7717")]), 403);
        assert_eq!(status(&guard(), "/", &[]), 403);
        assert_eq!(status(&guard(), "/", &[("host", "localhost:7717")]), 200);
        assert_eq!(status(&guard(), "/", &[("host", "Tools.Example")]), 200);
    }

    #[test]
    fn pages_of_other_sites_are_refused_even_with_the_token() {
        let with = |origin| [("host", OWN), ("authorization", "Bearer t0ken"), ("origin", origin)];
        assert_eq!(status(&guard(), "/api/v1/servers", &with("https://evil.example")), 403);
        assert_eq!(status(&guard(), "/api/v1/servers", &with("null")), 403);
        assert_eq!(status(&guard(), "/api/v1/servers", &with("http://127.0.0.1:8000")), 403);
        assert_eq!(status(&guard(), "/api/v1/servers", &with("http://127.0.0.1:7717")), 200);
    }

    #[test]
    fn the_usual_port_may_be_left_out_of_the_host_and_no_other() {
        let asked = |address: &str, usual_port: u16, host: &str, origin: &str| {
            let (address, has_tls) = (address.parse().unwrap(), usual_port == 443);
            let guard = Guard::new(Token::from_secret("t0ken"), address, has_tls, &[], Box::new(|_, _| false));
            status(&guard, "/", &[("host", host), ("origin", origin)])
        };
        assert_eq!(asked("127.0.0.1:80", 80, "127.0.0.1", "http://127.0.0.1"), 200);
        assert_eq!(asked("127.0.0.1:80", 80, "127.0.0.1:80", "http://localhost"), 200);
        assert_eq!(asked("192.0.2.7:443", 443, "192.0.2.7", "https://192.0.2.7"), 200);
        assert_eq!(asked("[2001:db8::7]:443", 443, "[2001:db8::7]", "https://[2001:db8::7]"), 200);
        assert_eq!(asked("127.0.0.1:80", 80, "evil.example", "http://127.0.0.1"), 403);
        assert_eq!(asked("127.0.0.1:80", 443, "127.0.0.1", "http://127.0.0.1:80"), 403);
        assert_eq!(asked("127.0.0.1:7717", 80, "127.0.0.1", "http://127.0.0.1:7717"), 403);
        assert_eq!(asked("127.0.0.1:7717", 80, "127.0.0.1:7717", "http://127.0.0.1"), 403);
    }

    #[test]
    fn a_page_with_the_other_scheme_is_a_page_of_another_site() {
        let guard = |address: &str, has_tls| {
            let hosts = ["tools.example".to_owned()];
            Guard::new(Token::from_secret("t0ken"), address.parse().unwrap(), has_tls, &hosts, Box::new(|_, _| false))
        };
        let asked = |guard: &Guard, origin: &str| {
            let host = origin.split_once("://").unwrap().1;
            status(guard, "/", &[("host", host), ("origin", origin)])
        };
        let (plain, with_tls) = (guard("192.0.2.7:80", false), guard("192.0.2.7:443", true));
        for name in ["192.0.2.7", "localhost"] {
            let (http, https) = (format!("http://{name}"), format!("https://{name}"));
            assert_eq!((asked(&plain, &http), asked(&plain, &https)), (200, 403), "{name}");
            assert_eq!((asked(&with_tls, &http), asked(&with_tls, &https)), (403, 200), "{name}");
        }
        let (http, https) = ("http://tools.example", "https://tools.example");
        assert_eq!((asked(&with_tls, http), asked(&with_tls, https)), (403, 200));
        assert_eq!((asked(&plain, http), asked(&plain, https)), (200, 200), "a proxy may end TLS");
        assert_eq!(asked(&plain, "ftp://tools.example"), 403);
        for (site, expected) in [("same-origin", 200), ("same-site", 403), ("cross-site", 403), ("none", 403)] {
            let from_browser = [("host", "tools.example"), ("origin", http), ("sec-fetch-site", site)];
            assert_eq!(status(&plain, "/", &from_browser), expected, "{site}");
        }
        let mut of_team = plain;
        of_team.set_scheme_of(&Url::parse("https://tools.example/").unwrap());
        assert_eq!((asked(&of_team, http), asked(&of_team, https)), (403, 200), "the URL of the team says it");
        assert_eq!(asked(&of_team, "http://localhost"), 200);
    }

    #[test]
    fn a_wrong_token_gets_the_same_error_after_many_wrong_ones() {
        let guard = guard();
        let wrong = [("host", OWN), ("authorization", "Bearer guess")];
        assert!((0..100).all(|_| status(&guard, "/api/v1/servers", &wrong) == 401));
        assert_eq!(status(&guard, "/api/v1/servers", &[("host", OWN), ("authorization", "Bearer t0ken")]), 200);
    }

    #[test]
    fn a_request_that_can_be_read_in_two_ways_is_refused() {
        let (host, token) = (("host", OWN), ("authorization", "Bearer t0ken"));
        let page = ("origin", "http://127.0.0.1:7717");
        assert_eq!(status(&guard(), "/api/v1/servers", &[host, token, page]), 200);
        for second in [
            host,
            ("host", "evil.example"),
            token,
            ("authorization", "Bearer guess"),
            page,
            ("origin", "https://evil.example"),
        ] {
            let both = [host, token, page, second];
            assert_eq!(status(&guard(), "/api/v1/servers", &both), 400, "{second:?}");
            assert_eq!(status(&guard(), "/", &both), 400, "{second:?}");
        }
        // The request line has the whole URL, as in a request to a proxy.
        assert_eq!(status(&guard(), "http://127.0.0.1:7717/api/v1/servers", &[host, token]), 200);
        assert_eq!(status(&guard(), "http://evil.example/api/v1/servers", &[host, token]), 400);
        assert_eq!(status(&guard(), "http://127.0.0.1:7717/", &[("host", "evil.example")]), 400);
        assert_eq!(status(&guard(), "http://evil.example/", &[("host", "evil.example")]), 403);
    }

    #[test]
    fn requests_without_the_token_take_nothing_from_those_with_it() {
        let guard = guard();
        let wrong = [("host", OWN), ("authorization", "Bearer guess")];
        let answers = (0..RATE_UNAUTHENTICATED.burst * 2).map(|_| status(&guard, "/api/v1/servers", &wrong));
        assert!(answers.into_iter().any(|status| status == 429));
        assert_eq!(status(&guard, "/api/v1/servers", &[("host", OWN), ("authorization", "Bearer t0ken")]), 200);
    }
}
