//! Defines the front door of a team: the pages and addresses at which users sign in and OAuth clients get tokens. This
//! file has the state and the functions that all of its routes share.

use std::{fmt, num::NonZeroU32, sync::Arc};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{HeaderMap, header::ORIGIN};
use oauth2::RedirectUrl;
use toolrack_host::{Caller, Principal, Way, egress::Egress};
use toolrack_store::{Purpose, StoreError, TeamStore, TeamToken, TokenHash};
use url::Url;
use zeroize::Zeroizing;

use crate::{
    browser::{Cookies, cookie, is_from_origin},
    clients::Clients,
    endpoint::Endpoint,
    file::TeamFile,
    parameters::Parameters,
    provider::Provider,
    random::{NO_PREFIX, NoRandom, random_text},
    refusals::Refusals,
    signed::without_slash,
    tokens::looks_like_token,
};

/// The maximum number of new clients per minute that go into the store. Beyond this limit, the id of a new client
/// contains the registration itself, protected by a seal (an HMAC).
const REGISTRATIONS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(120).unwrap();

/// The reason why a front door cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadFrontDoor {
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created: {0}")]
    Http(#[from] reqwest::Error),
    /// The system provides no random numbers.
    #[error(transparent)]
    Random(#[from] NoRandom),
    /// The address of the team cannot be the base of other addresses.
    #[error("the `url` of the team file cannot be the base of other addresses: {0}")]
    Url(#[from] url::ParseError),
}

/// The front door of a team: signs users in with the team's OpenID Connect provider, and issues tokens to OAuth clients
/// that act in the name of a user who agreed.
///
/// The front door is an OAuth 2.1 authorization server for the team's [`Endpoint`]s, for public clients only. Its
/// tokens are random, and the [`TeamStore`] keeps only their hashes; [`Authority`](crate::Authority) checks them.
///
/// The front door records every refusal of bad input as a row `refused_at_the_door` of the audit log, within the bounds
/// of [`Refusals`].
pub struct FrontDoor {
    pub(crate) team: Arc<TeamFile>,
    pub(crate) store: TeamStore,
    pub(crate) cookies: Cookies,
    /// Signs users in. Without a provider, the team has only personal tokens and the tokens of trusted issuers.
    pub(crate) provider: Option<Provider>,
    pub(crate) clients: Clients,
    pub(crate) refusals: Arc<Refusals>,
    /// Limits how many registrations go into the store.
    pub(crate) registration_limit: DefaultDirectRateLimiter,
}

impl fmt::Debug for FrontDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontDoor").field("url", &self.team.url.as_str()).finish_non_exhaustive()
    }
}

/// The session of a browser in which a member is signed in.
pub(crate) struct BrowserSession {
    /// The secret in the cookie.
    pub(crate) cookie: Zeroizing<String>,
    pub(crate) member: Principal,
}

impl FrontDoor {
    /// Creates the front door of `team`. `client_secret` is the value of the placeholder in
    /// [`SignInProvider::client_secret`](crate::SignInProvider). The front door sends its own requests by the default
    /// egress rules; see [`Self::with_egress`] for other rules. It sends none before the first user signs in.
    ///
    /// # Errors
    /// [`BadFrontDoor`]
    pub fn new(
        team: Arc<TeamFile>,
        client_secret: Option<String>,
        store: TeamStore,
    ) -> Result<Arc<Self>, BadFrontDoor> {
        Self::with_egress(team, client_secret, store, &Egress::default())
    }

    /// Like [`Self::new`], with an operator's egress rules.
    ///
    /// # Errors
    /// [`BadFrontDoor`]
    pub fn with_egress(
        team: Arc<TeamFile>,
        client_secret: Option<String>,
        store: TeamStore,
        egress: &Egress,
    ) -> Result<Arc<Self>, BadFrontDoor> {
        let redirect_uri = RedirectUrl::from_url(team.url.join("sign-in/back")?);
        let provider = team.sign_in.clone().map(|config| Provider::new(config, client_secret, redirect_uri, egress));
        Ok(Arc::new(Self {
            cookies: Cookies::for_team(&team.url),
            provider: provider.transpose()?,
            clients: Clients::new(store.clone(), &team.url, egress, random_text::<32>(NO_PREFIX)?)?,
            refusals: Arc::new(Refusals::new(store.clone())),
            registration_limit: RateLimiter::direct(Quota::per_minute(REGISTRATIONS_PER_MINUTE)),
            store,
            team,
        }))
    }

    /// Returns the name of the cookie with the session of a browser, whose value is a token of [`Purpose::Browser`]:
    /// `__Host-toolrack`, or `toolrack` where the team is on this machine and has no TLS.
    #[must_use]
    pub fn session_cookie(&self) -> &'static str {
        self.cookies.session_name()
    }

    /// Returns the value of the session cookie in these headers. `None` if there is none, or if there are two with
    /// different values.
    #[must_use]
    pub fn session_in<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        cookie(headers, self.cookies.session_name())
    }

    /// Returns the URL under which people and clients reach the team.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.team.url
    }

    /// Returns whether users can sign in at this front door.
    #[must_use]
    pub fn signs_in(&self) -> bool {
        self.provider.is_some()
    }

    /// Returns whether the browser says that a page of this team sent the request. A request that only the session
    /// cookie authenticates may change something only if this is `true`. A program that is no browser could send a
    /// wrong `Origin`, but does not have the cookie.
    #[must_use]
    pub fn is_from_own_page(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(ORIGIN) && is_from_origin(headers, &self.team.url)
    }

    /// Returns the authorization servers whose tokens are valid for the MCP endpoint: this one, if users can sign in,
    /// and the trusted issuers.
    pub(crate) fn authorization_servers(&self) -> Vec<&str> {
        let own_issuer = self.signs_in().then(|| self.issuer());
        own_issuer.into_iter().chain(self.team.issuers.iter().map(|trusted| without_slash(&trusted.issuer))).collect()
    }

    /// Returns the value of `WWW-Authenticate` for a request to an MCP endpoint without a valid token (RFC 9728, 5.1;
    /// RFC 6750, 3). `has_bad_token` is `true` if the request had a token that is not valid.
    #[must_use]
    pub fn challenge(&self, endpoint: Endpoint<'_>, has_bad_token: bool) -> String {
        let error = if has_bad_token { "error=\"invalid_token\", " } else { "" };
        if self.authorization_servers().is_empty() {
            return format!("Bearer {error}realm=\"toolrack\"");
        }
        let metadata = self.address_of(&format!(".well-known/oauth-protected-resource{endpoint}"));
        format!("Bearer {error}resource_metadata=\"{metadata}\", scope=\"{SCOPE}\"")
    }

    /// Returns the recorder of refusals. Other endpoints of the team use the same recorder, so that its limits apply to
    /// all of them.
    #[must_use]
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }

    /// Returns the issuer of the tokens (RFC 8414): the address of the team, without a slash at its end.
    pub(crate) fn issuer(&self) -> &str {
        self.team.url.as_str().trim_end_matches('/')
    }

    /// Returns the URL of an endpoint, which clients name as the resource of a token (RFC 8707).
    pub(crate) fn resource(&self, endpoint: Endpoint<'_>) -> String {
        format!("{}{endpoint}", self.issuer())
    }

    /// Returns the endpoint whose URL is `resource`, if there is one.
    pub(crate) fn endpoint_of<'r>(&self, resource: &'r str) -> Option<Endpoint<'r>> {
        Endpoint::at(resource.strip_prefix(self.issuer())?)
    }

    /// Returns the endpoint that `parameters` name as the resource. Without such a parameter, returns `/mcp`.
    ///
    /// # Errors
    /// When they name several endpoints, or a resource that is no endpoint of this team (RFC 8707, 2.2).
    pub(crate) fn endpoint_in<'p>(&self, parameters: &'p Parameters) -> Result<Endpoint<'p>, &'static str> {
        let mut named_endpoints = parameters.all("resource").map(|resource| self.endpoint_of(resource));
        match named_endpoints.next() {
            None => Ok(Endpoint::ALL),
            Some(Some(endpoint)) if named_endpoints.all(|other| other == Some(endpoint)) => Ok(endpoint),
            Some(_) => Err("the parameter `resource` must name exactly one MCP endpoint of this server"),
        }
    }

    /// Returns the URL of `path` at the team's address. `path` has no slash at its beginning.
    pub(crate) fn address_of(&self, path: &str) -> String {
        format!("{}/{path}", self.issuer())
    }

    /// Returns the session of the browser that sent these headers. `None` if the browser has no valid session.
    pub(crate) async fn browser_session(&self, headers: &HeaderMap) -> Result<Option<BrowserSession>, StoreError> {
        let Some(cookie) = self.session_in(headers).filter(|cookie| looks_like_token(cookie)) else { return Ok(None) };
        let token = self.store.team_token(TokenHash::of(cookie)).await?;
        // The team file may have lost the member's tenant since the sign-in.
        let is_valid_session =
            |token: &TeamToken| token.purpose == Purpose::Browser && self.team.tenant(token.member.tenant()).is_some();
        Ok(token
            .filter(is_valid_session)
            .map(|token| BrowserSession { cookie: Zeroizing::new(cookie.to_owned()), member: token.member }))
    }
}

/// The only scope: to use the tools of the team in the name of a user.
pub(crate) const SCOPE: &str = "mcp";

/// Returns `member` as a caller for the audit log. `client` is the OAuth client through which the member acts; `None`
/// for a browser.
pub(crate) fn caller_of(member: &Principal, client: Option<&str>) -> Caller {
    let caller = Caller::of(member.clone(), Way::Daemon);
    match client {
        Some(client) => caller.with_client(client),
        None => caller,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use toolrack_store::Store;

    use super::*;

    const SIGN_IN: &str = "[sign_in]\nissuer = \"https://login.example\"\nclient_id = \"toolrack\"\n";

    async fn door(url: &str, more: &str) -> (TempDir, Arc<FrontDoor>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        let file = format!("url = \"{url}\"\n{more}[[tenants]]\nid = \"acme\"\n");
        let team = Arc::new(TeamFile::parse(&file, "/team".as_ref()).unwrap());
        let door = FrontDoor::new(team, None, store).unwrap();
        (folder, door)
    }

    #[tokio::test]
    async fn a_challenge_leads_to_the_metadata_of_its_own_endpoint_where_tokens_can_be_had() {
        let (_folder, with_sign_in) = door("https://tools.example", SIGN_IN).await;
        let metadata = "https://tools.example/.well-known/oauth-protected-resource";
        assert_eq!(
            with_sign_in.challenge(Endpoint::ALL, false),
            format!("Bearer resource_metadata=\"{metadata}/mcp\", scope=\"mcp\"")
        );
        assert_eq!(
            with_sign_in.challenge(Endpoint::of(Some("review")), true),
            format!("Bearer error=\"invalid_token\", resource_metadata=\"{metadata}/p/review/mcp\", scope=\"mcp\"")
        );
        let (_folder, without) = door("https://tools.example", "").await;
        assert_eq!(without.challenge(Endpoint::ALL, false), "Bearer realm=\"toolrack\"");
        assert_eq!(without.challenge(Endpoint::ALL, true), "Bearer error=\"invalid_token\", realm=\"toolrack\"");
    }

    #[tokio::test]
    async fn a_trusted_issuer_is_an_authorization_server_beside_the_teams_own() {
        let issuer = "[[issuers]]\nissuer = \"https://tokens.example/\"\ntenants = [\"acme\"]\n";
        let (_folder, alone) = door("https://tools.example", issuer).await;
        assert_eq!(alone.authorization_servers(), ["https://tokens.example"]);
        assert!(!alone.signs_in());
        let (_folder, both) = door("https://tools.example", &(SIGN_IN.to_owned() + issuer)).await;
        assert_eq!(both.authorization_servers(), ["https://tools.example", "https://tokens.example"]);
    }

    #[tokio::test]
    async fn a_resource_is_one_endpoint_of_this_team_in_one_spelling() {
        let (_folder, door) = door("https://tools.example", SIGN_IN).await;
        let named = |query: &str| {
            let parameters = Parameters::read(query).unwrap();
            door.endpoint_in(&parameters).map(|endpoint| endpoint.to_string())
        };
        let own = "resource=https://tools.example/mcp";
        assert_eq!(named(""), Ok("/mcp".to_owned()));
        assert_eq!(named("resource="), Ok("/mcp".to_owned()));
        assert_eq!(named(own), Ok("/mcp".to_owned()));
        assert_eq!(named("resource=https://tools.example/p/review/mcp"), Ok("/p/review/mcp".to_owned()));
        assert_eq!(named(&format!("{own}&{own}")), Ok("/mcp".to_owned()));
        for other in [
            "resource=https://tools.example",
            "resource=https://tools.example/",
            "resource=https://tools.example/mcp/",
            "resource=https://tools.example/mcp?a=b",
            "resource=https://tools.example.evil.example/mcp",
            "resource=HTTPS://tools.example/mcp",
            "resource=http://tools.example/mcp",
            "resource=/mcp",
            &format!("{own}&resource=https://tools.example/p/review/mcp"),
            &format!("{own}&resource=https://other.example/mcp"),
        ] {
            assert!(named(other).is_err(), "{other}");
        }
    }

    #[tokio::test]
    async fn a_request_without_an_origin_did_not_come_from_a_page_of_the_team() {
        let (_folder, door) = door("https://tools.example", SIGN_IN).await;
        let with = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            door.is_from_own_page(&HeaderMap::from_iter(pairs))
        };
        assert!(with(&[("origin", "https://tools.example")]));
        assert!(with(&[("origin", "https://tools.example"), ("sec-fetch-site", "same-origin")]));
        assert!(!with(&[]) && !with(&[("sec-fetch-site", "same-origin")]));
        assert!(!with(&[("origin", "https://tools.example"), ("sec-fetch-site", "same-site")]));
        assert!(!with(&[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")]));
    }

    #[tokio::test]
    async fn a_cookie_signs_in_only_if_its_tenant_exists() {
        let (_folder, door) = door("http://127.0.0.1:4000", "").await;
        let by = Caller::local(Way::Daemon);
        let signed_in_as = async |tenant: &str, purpose: Purpose| {
            let member = Principal::new(toolrack_host::principal::Kind::Person, tenant, "i", tenant).unwrap();
            door.store.put_member(&member, &by).await.unwrap();
            let secret = crate::tokens::Secret::new(purpose).unwrap();
            let owner = toolrack_store::MemberIdentity { issuer: "i", subject: tenant };
            let token = toolrack_store::NewToken::new(secret.hash(), purpose);
            door.store.keep_token(owner, &token, &by).await.unwrap();
            let cookie = format!("{}={}", door.session_cookie(), secret.reveal());
            let headers = HeaderMap::from_iter([(http::header::COOKIE, cookie.parse().unwrap())]);
            door.browser_session(&headers).await.unwrap().map(|session| session.member.subject().to_owned())
        };
        assert_eq!(signed_in_as("acme", Purpose::Browser).await.as_deref(), Some("acme"));
        assert_eq!(signed_in_as("acme", Purpose::Personal).await, None, "a token is not a cookie");
        assert_eq!(signed_in_as("gone", Purpose::Browser).await, None, "the team file has no such tenant any more");
    }
}
