//! Talks to the provider that signs people in: fetches its metadata and its keys, and exchanges codes for tokens
//! (OpenID Connect Core 1.0 and Discovery 1.0).

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields,
    ExtraTokenFields, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    StandardErrorResponse, StandardTokenResponse, TokenResponse as _, TokenUrl,
    basic::{BasicErrorResponse, BasicErrorResponseType, BasicTokenType},
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use toolrack_host::{egress::Egress, text};
use url::Url;

use crate::{
    cached_value::CachedValue,
    claims::{ClaimNames, claims},
    fetch::{Http, Unreachable},
    file::SignInProvider,
    members::Claims,
    signed::{self, JwtClaims, Keys, StatementError, StatementRequirements, is_issuer, text_of},
};

/// The maximum size of an answer of the provider, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The metadata of a provider (OpenID Connect Discovery).
#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// The provider that signs people in.
pub(crate) struct Provider {
    config: SignInProvider,
    secret: Option<String>,
    /// The address to which the provider sends the browser back.
    redirect_uri: RedirectUrl,
    http: Http,
    metadata: Arc<CachedValue<Metadata>>,
    keys: Keys,
}

/// One sign-in that is under way: the secrets that tie the answers of the provider to it.
pub(crate) struct Attempt {
    /// The parameter `state` with which the browser must come back from the provider.
    pub(crate) state: String,
    /// The claim `nonce` that the ID token must have.
    pub(crate) nonce: String,
    /// Proves to the provider that the code comes from the program that began the sign-in (PKCE).
    pub(crate) verifier: String,
}

/// The reason why a sign-in at the provider failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSignedIn {
    /// The provider is down, or does not follow OpenID Connect.
    #[error("{0}")]
    ProviderUnusable(#[from] Unreachable),
    /// The provider refused the sign-in, or its answer does not prove who the user is.
    #[error("{0}")]
    Refused(String),
}

impl From<StatementError> for NotSignedIn {
    fn from(error: StatementError) -> Self {
        match error {
            StatementError::Invalid(why) => Self::Refused(format!("the identity that the provider sent: {why}")),
            StatementError::Unreachable(error) => Self::ProviderUnusable(error),
        }
    }
}

/// The field that OpenID Connect adds to the answer with tokens.
#[derive(Debug, Deserialize, Serialize)]
struct IdTokenField {
    id_token: Option<String>,
}

impl ExtraTokenFields for IdTokenField {}

type Tokens = StandardTokenResponse<IdTokenField, BasicTokenType>;

/// A client of `oauth2` whose answers have an ID token. Of its five endpoints, the first (authorization) and the last
/// (tokens) are set.
type Client = oauth2::Client<
    BasicErrorResponse,
    Tokens,
    oauth2::StandardTokenIntrospectionResponse<EmptyExtraTokenFields, BasicTokenType>,
    oauth2::StandardRevocableToken,
    StandardErrorResponse<oauth2::RevocationErrorResponseType>,
    oauth2::EndpointSet,
    oauth2::EndpointNotSet,
    oauth2::EndpointNotSet,
    oauth2::EndpointNotSet,
    oauth2::EndpointSet,
>;

impl Provider {
    /// Creates the provider of `config`. `secret` is the value of the placeholder in `config.client_secret`. The
    /// provider sends browsers back to `redirect_uri`. Fails when the HTTP client cannot be created.
    pub(crate) fn new(
        config: SignInProvider,
        secret: Option<String>,
        redirect_uri: RedirectUrl,
        egress: &Egress,
    ) -> reqwest::Result<Self> {
        // The operator configured the provider, so it may be wherever the egress rules allow.
        let http = Http::new(egress.guard_for_configured(), MAX_BYTES)?;
        let metadata = Arc::new(cached_metadata(http.clone(), config.issuer.clone(), egress.clone()));
        let key_metadata = Arc::clone(&metadata);
        let keys = Keys::fetched_from(http.clone(), move || {
            let metadata = Arc::clone(&key_metadata);
            async move { Ok(metadata.get().await?.jwks_uri.clone()) }.boxed()
        });
        Ok(Self { config, secret, redirect_uri, http, metadata, keys })
    }

    /// Returns the configured issuer. The provider's metadata must name the same.
    pub(crate) fn issuer(&self) -> &Url {
        &self.config.issuer
    }

    /// Returns the URL of the provider's page at which a user signs in. With `ask_again`, the provider asks even a user
    /// who is signed in there already, so that they can choose another account.
    pub(crate) async fn authorization_url(&self, attempt: &Attempt, ask_again: bool) -> Result<Url, Unreachable> {
        let client = self.client(&*self.metadata.get().await?);
        let verifier = PkceCodeVerifier::new(attempt.verifier.clone());
        let scopes = std::iter::once("openid").chain(self.config.scopes.iter().map(String::as_str));
        let state = attempt.state.clone();
        let mut request = client
            .authorize_url(|| CsrfToken::new(state))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .add_scopes(scopes.map(|scope| Scope::new(scope.to_owned())))
            .add_extra_param("nonce", &attempt.nonce);
        if ask_again {
            request = request.add_extra_param("prompt", "login");
        }
        Ok(request.url().0)
    }

    /// Returns whether an answer with this `iss` parameter comes from this provider (RFC 9207). An answer without the
    /// parameter counts as the provider's, unless the provider's metadata promises the parameter.
    pub(crate) async fn is_own_answer(&self, iss: Option<&str>) -> Result<bool, Unreachable> {
        match iss {
            Some(iss) => Ok(is_issuer(&self.config.issuer, iss)),
            None => Ok(!self.metadata.get().await?.authorization_response_iss_parameter_supported),
        }
    }

    /// Exchanges the code that the browser brought back, and returns the claims of the user who signed in.
    pub(crate) async fn claims_of_user(&self, code: String, attempt: &Attempt) -> Result<Claims, NotSignedIn> {
        let metadata = self.metadata.get().await?;
        let tokens = self.exchange(&metadata, code, attempt).await?;
        let Some(token) = &tokens.extra_fields().id_token else {
            return Err(NotSignedIn::Refused("the provider sent no identity".to_owned()));
        };
        let expected = StatementRequirements {
            issuer: &self.config.issuer,
            audience: &self.config.client_id,
            // The empty type stands for an ID token without one.
            types: &["", "jwt"],
        };
        let (mut jwt, _) = signed::read(token, &self.keys, expected).await?;
        self.check_id_token(&jwt, attempt)?;
        self.add_userinfo(&mut jwt, &metadata, tokens.access_token().secret()).await?;
        let names = ClaimNames {
            issuer: &self.config.issuer,
            groups: &self.config.groups_claim,
            tenant: self.config.tenant_claim.as_deref(),
        };
        Ok(claims(&jwt, names))
    }

    /// Checks the claims `nonce`, `azp` and `iat` of an ID token (OpenID Connect Core, 3.1.3.7).
    fn check_id_token(&self, jwt: &JwtClaims, attempt: &Attempt) -> Result<(), NotSignedIn> {
        let refused = |why: &str| Err(NotSignedIn::Refused(why.to_owned()));
        // The nonce of an attempt is never empty, so a missing one differs from it.
        let nonce = text_of(jwt, "nonce").unwrap_or_default();
        if !bool::from(nonce.as_bytes().ct_eq(attempt.nonce.as_bytes())) {
            return refused("the identity that the provider sent belongs to another sign-in");
        }
        // With several audiences, `azp` says which of them is the client.
        let has_several_audiences =
            jwt.get("aud").and_then(serde_json::Value::as_array).is_some_and(|all| all.len() > 1);
        let azp = text_of(jwt, "azp");
        if azp.is_some_and(|azp| azp != self.config.client_id) || (has_several_audiences && azp.is_none()) {
            return refused("the identity that the provider sent is for another program");
        }
        if !jwt.contains_key("iat") {
            return refused("the identity that the provider sent does not say when it was made");
        }
        Ok(())
    }

    /// Adds the claims of the userinfo endpoint (OpenID Connect Core, 5.3), if the ID token lacks a claim that is
    /// needed.
    async fn add_userinfo(&self, jwt: &mut JwtClaims, metadata: &Metadata, token: &str) -> Result<(), NotSignedIn> {
        let needed_claims =
            ["email", self.config.groups_claim.as_str()].into_iter().chain(self.config.tenant_claim.as_deref());
        let lacks_claim = needed_claims.into_iter().any(|claim| !jwt.contains_key(claim));
        let Some(endpoint) = metadata.userinfo_endpoint.as_ref().filter(|_| lacks_claim) else { return Ok(()) };
        let userinfo: JwtClaims = self.http.json_with_token(endpoint, Some(token)).await?;
        if text_of(&userinfo, "sub") != text_of(jwt, "sub") {
            return Err(NotSignedIn::Refused(
                "the userinfo of the provider describes another user than the ID token".into(),
            ));
        }
        add_missing_claims(jwt, userinfo);
        Ok(())
    }

    /// Exchanges the code for tokens.
    async fn exchange(&self, metadata: &Metadata, code: String, attempt: &Attempt) -> Result<Tokens, NotSignedIn> {
        let unreachable = |why: String| Unreachable::new(&metadata.token_endpoint, why);
        let client = self.client(metadata);
        let request = client
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier.clone()));
        request.request_async(&self.http).await.map_err(|error| match error {
            RequestTokenError::Request(error) => NotSignedIn::ProviderUnusable(error),
            RequestTokenError::ServerResponse(answer) => code_exchange_error(&answer),
            RequestTokenError::Parse(..) => unreachable("sent an answer that cannot be read".to_owned()).into(),
            RequestTokenError::Other(why) => unreachable(why).into(),
        })
    }

    /// Returns Toolrack as a client of the provider.
    fn client(&self, metadata: &Metadata) -> Client {
        let mut client = oauth2::Client::new(ClientId::new(self.config.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(metadata.authorization_endpoint.clone()))
            .set_token_uri(TokenUrl::from_url(metadata.token_endpoint.clone()))
            .set_redirect_uri(self.redirect_uri.clone());
        if let Some(secret) = &self.secret {
            client = client.set_client_secret(ClientSecret::new(secret.clone()));
        }
        // A provider that names no method accepts `client_secret_basic` (RFC 8414, 2).
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let accepts_basic = methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic");
        client.set_auth_type(if accepts_basic { AuthType::BasicAuth } else { AuthType::RequestBody })
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = Unreachable;
    type Future = BoxFuture<'c, Result<oauth2::HttpResponse, Unreachable>>;

    fn call(&'c self, request: oauth2::HttpRequest) -> Self::Future {
        self.send(request).boxed()
    }
}

/// Adds the claims of `userinfo` that `id_token` lacks. The claim `email_verified` must come from the same source as
/// the address that it describes. If the two have different addresses, the address of `id_token` counts, and the
/// function ignores `email_verified` of `userinfo`. If only `userinfo` has an address, its `email_verified` replaces
/// the one of `id_token`.
fn add_missing_claims(id_token: &mut JwtClaims, mut userinfo: JwtClaims) {
    if let (Some(address), Some(other_address)) = (id_token.get("email"), userinfo.get("email"))
        && address != other_address
    {
        userinfo.shift_remove("email_verified");
    }
    if !id_token.contains_key("email") && userinfo.contains_key("email") && userinfo.contains_key("email_verified") {
        id_token.shift_remove("email_verified");
    }
    for (claim, value) in userinfo {
        id_token.entry(claim).or_insert(value);
    }
}

/// The error when the provider refuses a code. If it refuses the client itself, the configuration is wrong.
fn code_exchange_error(answer: &BasicErrorResponse) -> NotSignedIn {
    let description = answer.error_description().map(|more| format!(" ({})", text::for_line(&text::clip(more, 200))));
    let code = text::for_line(&text::clip(answer.error().as_ref(), 64)).into_owned();
    let description = description.unwrap_or_default();
    match answer.error() {
        BasicErrorResponseType::InvalidClient | BasicErrorResponseType::UnauthorizedClient => {
            NotSignedIn::Refused(format!(
                "the provider does not accept this program: {code}{description}; the operator must correct `[sign_in]`"
            ))
        }
        _ => NotSignedIn::Refused(format!("the provider refused the sign-in: {code}{description}")),
    }
}

/// Returns a cache that fetches the metadata of a provider, and checks that it belongs to the provider.
fn cached_metadata(http: Http, issuer: Url, egress: Egress) -> CachedValue<Metadata> {
    CachedValue::new(move || {
        let (http, issuer, egress) = (http.clone(), issuer.clone(), egress.clone());
        async move {
            let url = format!("{}/.well-known/openid-configuration", issuer.as_str().trim_end_matches('/'));
            let url: Url = url.parse().map_err(|_| Unreachable::new(&issuer, "has an address that cannot be used"))?;
            let metadata: Metadata = http.json(&url).await?;
            if !is_issuer(&issuer, &metadata.issuer) {
                let other_issuer = text::for_line(&text::clip(&metadata.issuer, 200)).into_owned();
                return Err(Unreachable::new(&issuer, format!("names another issuer in its metadata: {other_issuer}")));
            }
            let guard = egress.guard_for_configured();
            let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
            for endpoint in endpoints.into_iter().chain(&metadata.userinfo_endpoint) {
                // With TLS, unless the issuer itself has none: users, codes and tokens go to these addresses.
                guard.check_secret_destination(endpoint, &issuer).map_err(|refused| {
                    Unreachable::new(
                        &issuer,
                        format!("names an address in its metadata that cannot be used: {refused}"),
                    )
                })?;
            }
            Ok(Arc::new(metadata))
        }
        .boxed()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn userinfo_verifies_no_other_address_than_its_own() {
        let merged = |id_token: Value, userinfo: Value| {
            let mut claims = id_token.as_object().unwrap().clone();
            add_missing_claims(&mut claims, userinfo.as_object().unwrap().clone());
            Value::Object(claims)
        };
        let address = |email: &str| json!({ "email": email });
        let verified = |email: &str| json!({ "email": email, "email_verified": true });
        assert_eq!(merged(address("a@x.example"), verified("b@x.example")), address("a@x.example"));
        assert_eq!(merged(address("a@x.example"), verified("a@x.example")), verified("a@x.example"));
        assert_eq!(merged(address("a@x.example"), json!({ "email_verified": true })), verified("a@x.example"));
        assert_eq!(merged(json!({}), verified("b@x.example")), verified("b@x.example"));
        let unverified = json!({ "email": "b@x.example", "email_verified": false });
        assert_eq!(merged(json!({ "email_verified": true }), unverified.clone()), unverified);
        assert_eq!(merged(json!({ "email_verified": true }), address("b@x.example")), verified("b@x.example"));
        assert_eq!(merged(json!({ "groups": ["a"] }), json!({ "groups": ["b"] })), json!({ "groups": ["a"] }));
    }
}
