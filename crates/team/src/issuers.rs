//! Checks the access tokens of issuers that the team trusts. Such a token is a signed statement (JWT, RFC 9068).

use std::{fmt, sync::Arc};

use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use serde::Deserialize;
use serde_json::Value;
use toolrack_host::{Principal, egress::Egress, principal::Kind, text};
use toolrack_store::audit::DoorRefusal;
use url::Url;

use crate::{
    cached_value::CachedValue,
    claims::{ClaimNames, claims},
    endpoint::Endpoint,
    fetch::{Http, Unreachable},
    file::{TeamFile, TrustedIssuer},
    members::NotAMember,
    refusals::Refusals,
    signed::{self, JwtClaims, Keys, LEEWAY, StatementError, StatementRequirements, ends_at, is_issuer, text_of},
};

/// The maximum size of an answer of an issuer, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Claims that only ID tokens and logout tokens have.
const NOT_IN_ACCESS_TOKENS: [&str; 5] = ["nonce", "at_hash", "c_hash", "s_hash", "events"];
/// An access token has at least one of these claims (RFC 9068, 2.2). Some issuers write `scp` in place of `scope`.
const IN_ACCESS_TOKENS: [&str; 3] = ["scope", "scp", "client_id"];

/// The issuers that a team trusts.
pub struct Issuers {
    team: Arc<TeamFile>,
    issuers: Vec<Issuer>,
    refusals: Arc<Refusals>,
}

struct Issuer {
    config: TrustedIssuer,
    keys: Keys,
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.issuers.iter().map(|issuer| issuer.config.issuer.as_str())).finish()
    }
}

/// The principal whom a signed token proves, and until when.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProvedPrincipal {
    /// The person or service.
    pub principal: Principal,
    /// When the token ends: a minute later than the token says, because clocks may differ.
    pub ends_at: DateTime<Utc>,
    /// The profile, if the token is valid only for the MCP endpoint of that profile.
    pub profile: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: Url,
}

impl Issuers {
    /// The issuers that `team` trusts. Their keys are fetched when a token first needs them, and only from addresses
    /// that `egress` allows.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(team: Arc<TeamFile>, egress: &Egress, refusals: Arc<Refusals>) -> Result<Self, reqwest::Error> {
        let issuer = |config: &TrustedIssuer| {
            // The operator configured the issuer, so it may be wherever the egress rules allow.
            let http = Http::new(egress.guard_for_configured(), MAX_BYTES)?;
            Ok(Issuer { config: config.clone(), keys: issuer_keys(http, config, egress) })
        };
        let issuers = team.issuers.iter().map(issuer).collect::<Result<_, reqwest::Error>>()?;
        Ok(Self { team, issuers, refusals })
    }

    /// Checks `token`. `None` if it proves nothing. Only the audit log has the reason; callers do not learn it.
    ///
    /// A valid token is at most 16 KiB long, has an asymmetric signature of an algorithm that the issuer's key allows,
    /// and has `iss`, `sub` and `exp`. Its `aud` is the configured audience, or by default the URL of this team's
    /// `/mcp` or of the endpoint of one profile. `exp`, `nbf` and `iat` may be off by 60 s. Its type is `at+jwt` (RFC
    /// 9068, 2.1). Issuers that do not know that type write `JWT` or nothing: such a token is accepted only with a
    /// claim of access tokens (`scope`, `scp` or `client_id`), and without any claim of an ID token or a logout token.
    /// A token that is bound to a key of its client (`cnf`: RFC 9449, RFC 8705) proves nothing here, because this
    /// server does not check whether the client has the key. If the subject of a token is its client, the token proves
    /// a service (RFC 9068, 5); all other tokens prove a person.
    ///
    /// Keys are valid for an hour after they were fetched. A token with an unknown key causes another fetch, at most
    /// every 30 s.
    ///
    /// # Errors
    /// [`Unreachable`] when the keys of its issuer cannot be fetched: whether the token proves anything is then
    /// unknown. Keys that were fetched less than a day ago are still used, without an error.
    pub async fn verify(&self, token: &str) -> Result<Option<ProvedPrincipal>, Unreachable> {
        let Some(unchecked) = unchecked_claims(token) else {
            self.refusals.record_unknown_token().await;
            return Ok(None);
        };
        let Some(issuer) = self.issuers.iter().find(|issuer| is_issuer(&issuer.config.issuer, &unchecked.issuer))
        else {
            self.record_refusal("unknown_issuer", "no issuer that this team trusts made the token", &unchecked.issuer)
                .await;
            return Ok(None);
        };
        match self.check_token(issuer, token, &unchecked).await {
            Ok(proved) => Ok(Some(proved)),
            Err(StatementError::Unreachable(error)) => Err(error),
            Err(StatementError::Invalid(why)) => {
                self.record_refusal("invalid_token", &why, &unchecked.issuer).await;
                Ok(None)
            }
        }
    }

    /// Checks the signature and the claims of a token that names `issuer`. The error says why the token proves nothing.
    async fn check_token(
        &self,
        issuer: &Issuer,
        token: &str,
        unchecked: &UncheckedClaims,
    ) -> Result<ProvedPrincipal, StatementError> {
        let config = &issuer.config;
        let (audience, endpoint) = self.audience(config, unchecked);
        // The empty type stands for a token without one.
        let expected =
            StatementRequirements { issuer: &config.issuer, audience: &audience, types: &["at+jwt", "jwt", ""] };
        let (jwt, token_type) = signed::read(token, &issuer.keys, expected).await?;
        if token_type != "at+jwt" && !has_access_claims(&jwt) {
            return Err(StatementError::invalid("it is not an access token"));
        }
        // A client with such a token has to prove in each request that it has a key (RFC 7800). Then a thief cannot use
        // the token. But the MCP endpoint does not check such proofs.
        if jwt.contains_key("cnf") {
            return Err(StatementError::invalid(
                "it is bound to a key of its client, and only bearer tokens are served here",
            ));
        }
        let names =
            ClaimNames { issuer: &config.issuer, groups: &config.groups_claim, tenant: config.tenant_claim.as_deref() };
        let client = text_of(&jwt, "client_id");
        let is_service = client.is_some() && client == text_of(&jwt, "sub");
        let kind = if is_service { Kind::Service } else { Kind::Person };
        let may_vouch = |tenant: &str| config.tenants.contains(tenant);
        let principal = self.team.principal(kind, &claims(&jwt, names), Some(&may_vouch)).map_err(not_a_member)?;
        if !endpoint.is_for(principal.tenant()) {
            return Err(StatementError::invalid("its audience is an endpoint of another tenant"));
        }
        let ends_at = ends_at(&jwt).and_then(|at| DateTime::from_timestamp(at.saturating_add(LEEWAY.cast_signed()), 0));
        let ends_at = ends_at.ok_or_else(|| StatementError::invalid("its end is not a time"))?;
        // `signed::read` accepts a token in its last second, too.
        if ends_at <= Utc::now() {
            return Err(StatementError::invalid("it has ended"));
        }
        Ok(ProvedPrincipal { principal, ends_at, profile: endpoint.profile().map(str::to_owned) })
    }

    /// Returns the audience that the token must have, and the MCP endpoint for which it is then valid. That is the
    /// endpoint that the token names. A token that names none, or several, must be for the endpoint with all tools.
    fn audience<'c>(&self, config: &TrustedIssuer, unchecked: &'c UncheckedClaims) -> (String, Endpoint<'c>) {
        if let Some(configured) = &config.audience {
            return (configured.clone(), Endpoint::ALL);
        }
        let base_url = self.team.url.as_str().trim_end_matches('/');
        let mut named_endpoints: Vec<_> =
            unchecked.audiences.iter().filter_map(|audience| Endpoint::at(audience.strip_prefix(base_url)?)).collect();
        // If all of them are the same endpoint, one is left.
        named_endpoints.dedup();
        let endpoint = match named_endpoints[..] {
            [endpoint] => endpoint,
            _ => Endpoint::ALL,
        };
        (format!("{base_url}{endpoint}"), endpoint)
    }

    /// Records in the audit log why a token proves nothing.
    async fn record_refusal(&self, code: &str, why: &str, issuer: &str) {
        let issuer = text::for_line(&text::clip(issuer, 200)).into_owned();
        let why = format!("a token of {issuer}: {why}");
        self.refusals.record(DoorRefusal { door: "mcp", code, why: &why, ..DoorRefusal::default() }).await;
    }
}

/// Returns the error for a token whose person or service is no member.
fn not_a_member(error: NotAMember) -> StatementError {
    StatementError::invalid(match error {
        NotAMember::NoTenant => "it does not belong to a tenant for which its issuer may vouch".to_owned(),
        other => other.to_string(),
    })
}

/// Whether a token without the type `at+jwt` is an access token.
fn has_access_claims(jwt: &JwtClaims) -> bool {
    IN_ACCESS_TOKENS.iter().any(|claim| jwt.contains_key(*claim))
        && !NOT_IN_ACCESS_TOKENS.iter().any(|claim| jwt.contains_key(*claim))
}

/// Claims of a token whose signature is not checked yet.
struct UncheckedClaims {
    issuer: String,
    audiences: Vec<String>,
}

/// Reads the claims of a token without checking its signature. `None` for a text that is not a signed statement (JWT).
fn unchecked_claims(token: &str) -> Option<UncheckedClaims> {
    if token.len() > signed::MAX_BYTES || token.split('.').count() != 3 {
        return None;
    }
    let jwt: JwtClaims = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
    let audiences = match jwt.get("aud") {
        Some(Value::String(audience)) => vec![audience.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(|audience| audience.as_str().map(ToOwned::to_owned)).collect(),
        _ => Vec::new(),
    };
    Some(UncheckedClaims { issuer: text_of(&jwt, "iss")?.to_owned(), audiences })
}

/// Returns the keys at the configured address, or at the address in the issuer's metadata (RFC 8414, or OpenID Connect
/// Discovery).
fn issuer_keys(http: Http, config: &TrustedIssuer, egress: &Egress) -> Keys {
    if let Some(url) = config.jwks_uri.clone() {
        return Keys::fetched_from(http, move || futures::future::ready(Ok(url.clone())).boxed());
    }
    let metadata = Arc::new(cached_metadata(http.clone(), config.issuer.clone(), egress.clone()));
    Keys::fetched_from(http, move || {
        let metadata = Arc::clone(&metadata);
        async move { Ok(metadata.get().await?.jwks_uri.clone()) }.boxed()
    })
}

/// Returns a cache that fetches the metadata of an issuer, and checks that they belong to the issuer.
fn cached_metadata(http: Http, issuer: Url, egress: Egress) -> CachedValue<Metadata> {
    CachedValue::new(move || {
        let (http, issuer, egress) = (http.clone(), issuer.clone(), egress.clone());
        async move {
            let metadata = fetch_metadata(&http, &issuer).await?;
            if !is_issuer(&issuer, &metadata.issuer) {
                return Err(Unreachable::new(&issuer, "says in its metadata that it is another issuer"));
            }
            let guard = egress.guard_for_configured();
            // With TLS, unless the issuer itself has none: other keys would make other tokens valid.
            guard.check_secret_destination(&metadata.jwks_uri, &issuer).map_err(|refused| {
                Unreachable::new(&issuer, format!("names an address in its metadata that cannot be used: {refused}"))
            })?;
            Ok(Arc::new(metadata))
        }
        .boxed()
    })
}

/// Fetches the metadata of an authorization server. If they cannot be fetched, fetches the metadata of an OpenID
/// provider.
async fn fetch_metadata(http: &Http, issuer: &Url) -> Result<Metadata, Unreachable> {
    let path = issuer.path().trim_end_matches('/');
    // RFC 8414 (3.1) puts `.well-known` before the path of the issuer, and OpenID Connect puts it behind the path.
    let mut url = issuer.clone();
    url.set_path(&format!("/.well-known/oauth-authorization-server{path}"));
    if let Ok(metadata) = http.json(&url).await {
        return Ok(metadata);
    }
    url.set_path(&format!("{path}/.well-known/openid-configuration"));
    http.json(&url).await
}
