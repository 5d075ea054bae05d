//! The provider that signs people in: its metadata, its keys, and the requests to it (OpenID Connect Core 1.0 and
//! Discovery 1.0).

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
    claims::{Places, claims},
    fetch::{Http, Unreachable},
    file::SignInProvider,
    members::Claims,
    remembered::Remembered,
    signed::{self, Expected, Keys, Said, Unproved, is_issuer, text_of},
};

/// The most bytes of an answer of the provider.
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
    back: RedirectUrl,
    http: Http,
    metadata: Arc<Remembered<Metadata>>,
    keys: Keys,
}

/// The secrets of one sign-in.
pub(crate) struct Attempt {
    /// The browser brings it back.
    pub(crate) state: String,
    /// The provider puts it into the ID token.
    pub(crate) nonce: String,
    /// Proves to the provider that the code comes from the program that began the sign-in (PKCE).
    pub(crate) verifier: String,
}

/// Why the provider signed no one in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSignedIn {
    /// The provider is down, or does not follow OpenID Connect.
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    /// The provider refused, or its answer proves nothing.
    #[error("{0}")]
    Refused(String),
}

impl From<Unproved> for NotSignedIn {
    fn from(error: Unproved) -> Self {
        match error {
            Unproved::Forged(why) => Self::Refused(format!("the identity that the provider sent: {why}")),
            Unproved::Unreachable(error) => Self::Unreachable(error),
        }
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct WithIdToken {
    id_token: Option<String>,
}

impl ExtraTokenFields for WithIdToken {}

type Tokens = StandardTokenResponse<WithIdToken, BasicTokenType>;

/// A client of `oauth2` whose answers have an ID token.
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
    /// Creates the provider of `config`, whose secret is resolved already. The provider sends browsers back to `back`.
    pub(crate) fn new(
        config: SignInProvider,
        secret: Option<String>,
        back: RedirectUrl,
        egress: &Egress,
    ) -> reqwest::Result<Self> {
        let http = Http::new(egress.configured(), MAX_BYTES)?;
        let metadata = Arc::new(discovery(http.clone(), config.issuer.clone(), egress.clone()));
        let for_keys = Arc::clone(&metadata);
        let keys = Keys::at(http.clone(), move || {
            let metadata = Arc::clone(&for_keys);
            async move { Ok(metadata.get().await?.jwks_uri.clone()) }.boxed()
        });
        Ok(Self { config, secret, back, http, metadata, keys })
    }

    /// Its issuer, as its metadata name it.
    pub(crate) fn issuer(&self) -> &Url {
        &self.config.issuer
    }

    /// The page of the provider where a person signs in. `afresh` asks it to let the person choose another account.
    pub(crate) async fn page(&self, attempt: &Attempt, afresh: bool) -> Result<Url, Unreachable> {
        let client = self.client(&*self.metadata.get().await?);
        let verifier = PkceCodeVerifier::new(attempt.verifier.clone());
        let scopes = std::iter::once("openid").chain(self.config.scopes.iter().map(String::as_str));
        let state = attempt.state.clone();
        let mut request = client
            .authorize_url(|| CsrfToken::new(state))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .add_scopes(scopes.map(|scope| Scope::new(scope.to_owned())))
            .add_extra_param("nonce", &attempt.nonce);
        if afresh {
            request = request.add_extra_param("prompt", "login");
        }
        Ok(request.url().0)
    }

    /// Whether an answer with this `iss` parameter comes from this provider (RFC 9207). The provider may leave the
    /// parameter out, unless its metadata promises it.
    pub(crate) async fn sent(&self, iss: Option<&str>) -> Result<bool, Unreachable> {
        match iss {
            Some(iss) => Ok(is_issuer(&self.config.issuer, iss)),
            None => Ok(!self.metadata.get().await?.authorization_response_iss_parameter_supported),
        }
    }

    /// Exchanges the code with which a browser came back, and reads who signed in.
    pub(crate) async fn person(&self, code: String, attempt: &Attempt) -> Result<Claims, NotSignedIn> {
        let metadata = self.metadata.get().await?;
        let tokens = self.exchange(&metadata, code, attempt).await?;
        let Some(token) = &tokens.extra_fields().id_token else {
            return Err(NotSignedIn::Refused("the provider sent no identity".to_owned()));
        };
        let expected = Expected { issuer: &self.config.issuer, audience: &self.config.client_id, types: &["", "jwt"] };
        let (mut said, _) = signed::read(token, &self.keys, expected).await?;
        self.check(&said, attempt)?;
        self.complete(&mut said, &metadata, tokens.access_token().secret()).await?;
        let places = Places {
            issuer: &self.config.issuer,
            groups: &self.config.groups_claim,
            tenant: self.config.tenant_claim.as_deref(),
        };
        Ok(claims(&said, places))
    }

    /// Checks what only ID tokens must have (OpenID Connect Core, 3.1.3.7).
    fn check(&self, said: &Said, attempt: &Attempt) -> Result<(), NotSignedIn> {
        let refused = |why: &str| Err(NotSignedIn::Refused(why.to_owned()));
        let nonce = text_of(said, "nonce").unwrap_or_default();
        if !bool::from(nonce.as_bytes().ct_eq(attempt.nonce.as_bytes())) {
            return refused("the identity that the provider sent is that of another sign-in");
        }
        let has_several = said.get("aud").and_then(serde_json::Value::as_array).is_some_and(|all| all.len() > 1);
        let azp = text_of(said, "azp");
        if azp.is_some_and(|azp| azp != self.config.client_id) || (has_several && azp.is_none()) {
            return refused("the identity that the provider sent is for another program");
        }
        if !said.contains_key("iat") {
            return refused("the identity that the provider sent does not say when it was made");
        }
        Ok(())
    }

    /// Adds the claims of the userinfo endpoint (OpenID Connect Core, 5.3), if the ID token lacks one that is needed.
    async fn complete(&self, said: &mut Said, metadata: &Metadata, token: &str) -> Result<(), NotSignedIn> {
        let wanted =
            ["email", self.config.groups_claim.as_str()].into_iter().chain(self.config.tenant_claim.as_deref());
        let lacks = wanted.into_iter().any(|claim| !said.contains_key(claim));
        let Some(place) = metadata.userinfo_endpoint.as_ref().filter(|_| lacks) else { return Ok(()) };
        let more: Said = self.http.json_with(place, Some(token)).await?;
        if text_of(&more, "sub") != text_of(said, "sub") {
            return Err(NotSignedIn::Refused(
                "the provider describes another person than the one who signed in".into(),
            ));
        }
        for (claim, value) in more {
            said.entry(claim).or_insert(value);
        }
        Ok(())
    }

    async fn exchange(&self, metadata: &Metadata, code: String, attempt: &Attempt) -> Result<Tokens, NotSignedIn> {
        let failed = |why: String| Unreachable::new(&metadata.token_endpoint, why);
        let client = self.client(metadata);
        let request = client
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier.clone()));
        request.request_async(&self.http).await.map_err(|error| match error {
            RequestTokenError::Request(error) => NotSignedIn::Unreachable(error),
            RequestTokenError::ServerResponse(answer) => refused_code(&answer),
            RequestTokenError::Parse(..) => failed("gave an answer that cannot be understood".to_owned()).into(),
            RequestTokenError::Other(why) => failed(why).into(),
        })
    }

    fn client(&self, metadata: &Metadata) -> Client {
        let mut client = oauth2::Client::new(ClientId::new(self.config.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(metadata.authorization_endpoint.clone()))
            .set_token_uri(TokenUrl::from_url(metadata.token_endpoint.clone()))
            .set_redirect_uri(self.back.clone());
        if let Some(secret) = &self.secret {
            client = client.set_client_secret(ClientSecret::new(secret.clone()));
        }
        // A provider that names no method takes `client_secret_basic` (RFC 8414, 2).
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let takes_basic = methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic");
        client.set_auth_type(if takes_basic { AuthType::BasicAuth } else { AuthType::RequestBody })
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = Unreachable;
    type Future = BoxFuture<'c, Result<oauth2::HttpResponse, Unreachable>>;

    fn call(&'c self, request: oauth2::HttpRequest) -> Self::Future {
        self.send(request).boxed()
    }
}

/// The error for a code that the provider refuses. When it refuses the client itself, the configuration is wrong.
fn refused_code(answer: &BasicErrorResponse) -> NotSignedIn {
    let more = answer.error_description().map(|more| format!(" ({})", text::for_line(&text::clip(more, 200))));
    let code = text::for_line(&text::clip(answer.error().as_ref(), 64)).into_owned();
    let more = more.unwrap_or_default();
    match answer.error() {
        BasicErrorResponseType::InvalidClient | BasicErrorResponseType::UnauthorizedClient => NotSignedIn::Refused(
            format!("the provider does not accept this program: {code}{more}; the operator must correct `[sign_in]`"),
        ),
        _ => NotSignedIn::Refused(format!("the provider refused the sign-in: {code}{more}")),
    }
}

/// Fetches the metadata of a provider, and checks that they are its own.
fn discovery(http: Http, issuer: Url, egress: Egress) -> Remembered<Metadata> {
    Remembered::new(move || {
        let (http, issuer, egress) = (http.clone(), issuer.clone(), egress.clone());
        async move {
            let place = format!("{}/.well-known/openid-configuration", issuer.as_str().trim_end_matches('/'));
            let place = place.parse().map_err(|_| Unreachable::new(&issuer, "has an address that cannot be used"))?;
            let metadata: Metadata = http.json(&place).await?;
            if !is_issuer(&issuer, &metadata.issuer) {
                let other = text::for_line(&text::clip(&metadata.issuer, 200)).into_owned();
                return Err(Unreachable::new(&issuer, format!("says that it is another issuer: {other}")));
            }
            let guard = egress.configured();
            let places = [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
            for place in places.into_iter().chain(&metadata.userinfo_endpoint) {
                guard
                    .check_for_secrets(place, &issuer)
                    .map_err(|refused| Unreachable::new(&issuer, format!("names an address: {refused}")))?;
            }
            Ok(Arc::new(metadata))
        }
        .boxed()
    })
}
