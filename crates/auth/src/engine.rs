//! Sends the requests of a sign-in to an authorization server, through `rmcp`: discovery, registration, the exchange of
//! a code for tokens, and their renewal.
//!
//! A client is this program as an authorization server knows it. The user configures the client, a document on the web
//! describes it, or a sign-in registers it. `OAuth` is the section `oauth` of the MCP server's configuration.

use std::{iter, sync::Arc, time::Duration};

use rmcp::transport::auth::{
    AuthError as RmcpError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    CredentialStore as _, InMemoryCredentialStore, OAuthClientConfig,
    ProtectedResourceMetadataInvalidReason as InvalidReason, StoredCredentials,
};
use tokio::time::timeout;
use toolrack_host::{spec::OAuth, text::root_cause};
use url::Url;

use crate::{
    challenge::union,
    credentials::{Client, Credentials, Tokens},
    dpop::ProofKey,
    error::{AuthError, quote, quote_without},
    guarded_http::{GuardedHttp, HttpError},
    token_request::{ClientAssertion, RequestSigner, is_client_refusal},
};

/// The timeout of one operation, with all its requests.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(45);
/// The `client_name` of a dynamic registration (RFC 7591).
const CLIENT_NAME: &str = "Toolrack";
/// The scope that asks for a refresh token (OpenID Connect Core, 11).
const OFFLINE_ACCESS: &str = "offline_access";

/// A discovered authorization server, with the means to send requests to it.
pub(crate) struct AuthorizationServer {
    /// The part of `rmcp` that performs the OAuth requests.
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    http: Arc<GuardedHttp>,
    /// The MCP server whose authorization server this is.
    server: Url,
    /// The issuer, or the URL of the token endpoint if the metadata name no issuer.
    pub(crate) issuer: String,
    /// Whether the server supports PKCE with S256, which protects the code of a sign-in.
    has_pkce: bool,
}

/// The page on which the user signs in, and the state that checks the redirect from it.
pub(crate) struct AuthorizationRequest {
    authorization_server: AuthorizationServer,
    client: Client,
    /// The requested scopes.
    scopes: Vec<String>,
    /// The resource of the tokens (RFC 8707), as the page requests it.
    resource: String,
    /// The key to which the tokens will be bound; `None` for bearer tokens.
    key: Option<ProofKey>,
    /// Whether an earlier sign-in registered the client. The authorization server may have forgotten the client since.
    pub(crate) reuses_client: bool,
    pub(crate) authorization_url: Url,
}

/// Runs an operation with [`OPERATION_TIMEOUT`] as its timeout.
pub(crate) async fn with_operation_timeout<T>(
    operation: impl Future<Output = Result<T, AuthError>>,
) -> Result<T, AuthError> {
    let timed_out = || AuthError::Unavailable {
        why: format!("the authorization server did not answer within {} s", OPERATION_TIMEOUT.as_secs()),
    };
    timeout(OPERATION_TIMEOUT, operation).await.unwrap_or_else(|_| Err(timed_out()))
}

impl AuthorizationServer {
    /// Discovers the authorization server of `server`, starting from `challenge` if the server has refused a request.
    pub(crate) async fn discover(
        http: Arc<GuardedHttp>,
        server: &Url,
        challenge: Option<&str>,
    ) -> Result<Self, AuthError> {
        let manager = AuthorizationManager::new_with_oauth_http_client(server.clone(), http.clone());
        let mut manager = manager.await.map_err(|error| discovery_error(&error))?;
        let discovery =
            manager.resolve_metadata_from_challenge(challenge).await.map_err(|error| discovery_error(&error))?;
        let metadata = discovery.metadata;
        // An authorization server without PKCE leaves the field out (RFC 8414), and MCP tells clients to refuse such a
        // server. For MCP 2025-03-26, a server may have no metadata at all, so a missing field proves nothing there.
        let pkce_methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
        let has_pkce = pkce_methods.iter().any(|method| method == "S256")
            || discovery.source == AuthorizationMetadataSource::LegacyEndpointFallback;
        let issuer = match &metadata.issuer {
            Some(issuer) => issuer.clone(),
            None => metadata.token_endpoint.clone(),
        };
        manager.set_metadata(metadata.clone());
        let authorization_server = Self { manager, metadata, http, server: server.clone(), issuer, has_pkce };
        // Refuses an unsafe endpoint early. The URL is parsed again when it is used.
        authorization_server.checked_endpoint("token endpoint", &authorization_server.metadata.token_endpoint)?;
        Ok(authorization_server)
    }

    /// Parses and checks the URL of an endpoint to which secrets or the user may be sent. `endpoint_name` names the
    /// endpoint in an error.
    fn checked_endpoint(&self, endpoint_name: &'static str, url: &str) -> Result<Url, AuthError> {
        check_endpoint(&self.http, &self.server, endpoint_name, url)
    }

    pub(crate) fn into_metadata(self) -> AuthorizationMetadata {
        self.metadata
    }

    pub(crate) fn metadata(&self) -> &AuthorizationMetadata {
        &self.metadata
    }

    pub(crate) fn server(&self) -> &Url {
        &self.server
    }

    pub(crate) fn http(&self) -> &GuardedHttp {
        &self.http
    }

    pub(crate) fn token_endpoint(&self) -> Result<Url, AuthError> {
        self.checked_endpoint("token endpoint", &self.metadata.token_endpoint)
    }

    /// Adds a client assertion to all later token requests, if `oauth` has a private key, and a DPoP proof, if there is
    /// a `proof_key`.
    pub(crate) fn sign_with(&self, oauth: &OAuth, proof_key: Option<ProofKey>) -> Result<(), AuthError> {
        let assertion = ClientAssertion::of(oauth, &self.issuer, &self.metadata)?;
        self.http.sign_with(RequestSigner { endpoint: self.token_endpoint()?, assertion, proof_key });
        Ok(())
    }

    /// Returns whether the MCP server accepts only tokens that are bound to a key (`dpop_bound_access_tokens_required`,
    /// RFC 9728, 2).
    pub(crate) fn requires_bound_tokens(&self) -> bool {
        self.http.requires_bound_tokens()
    }

    /// Returns a new key to bind tokens to, if the server's entry in the configuration or the server itself wants DPoP.
    pub(crate) fn new_key(&self, oauth: &OAuth) -> Result<Option<ProofKey>, AuthError> {
        (oauth.dpop || self.requires_bound_tokens()).then(ProofKey::generate).transpose()
    }

    /// Returns the scopes to request with a grant that needs no user: `scopes`, or those that the server names if
    /// `scopes` is empty. Of those, leaves out `offline_access`, because such a grant needs no refresh token.
    pub(crate) async fn scopes_without_user(&self, scopes: &[String]) -> Vec<String> {
        if !scopes.is_empty() {
            return scopes.to_vec();
        }
        let mut scopes = self.manager.select_initial_scopes(&[]).await;
        scopes.retain(|scope| scope != OFFLINE_ACCESS);
        scopes
    }

    /// Prepares the page on which the user signs in. It requests `scopes`, or the scopes that the server names if
    /// `scopes` is empty. If the `earlier_credentials` are from the same issuer, their registered client is used again.
    pub(crate) async fn authorization_request(
        mut self,
        oauth: &OAuth,
        scopes: &[String],
        redirect_uri: &str,
        earlier_credentials: Option<&Credentials>,
    ) -> Result<AuthorizationRequest, AuthError> {
        if !self.has_pkce {
            return Err(AuthError::NoPkce);
        }
        let key = self.new_key(oauth)?;
        self.sign_with(oauth, key.clone())?;
        // Refuses an unsafe endpoint before a client is registered. The URL that `rmcp` makes of it is checked below.
        self.checked_endpoint("authorization endpoint", &self.metadata.authorization_endpoint)?;
        let scopes = self.scopes(scopes).await;
        let client = self.client(oauth, &scopes, redirect_uri, earlier_credentials).await?;
        let reuses_client =
            client.registered && earlier_credentials.is_some_and(|earlier| earlier.client.id == client.id);
        let mut config = OAuthClientConfig::new(&client.id, redirect_uri).with_scopes(scopes.clone());
        let secret = if client.registered { client.secret.as_ref() } else { oauth.client_secret.as_ref() };
        if let Some(secret) = secret {
            config = config.with_client_secret(secret);
        }
        self.manager.configure_client(config).map_err(|error| discovery_error(&error))?;
        let requested: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = self.manager.get_authorization_url(&requested).await.map_err(|error| discovery_error(&error))?;
        let mut url = self.checked_endpoint("authorization endpoint", &url)?;
        if let Some(key) = &key {
            // Binds the authorization code to the key, so that no other client can use it (RFC 9449, 10).
            url.query_pairs_mut().append_pair("dpop_jkt", &key.thumbprint());
        }
        let resource = url.query_pairs().find(|(name, _)| name == "resource").map(|(_, value)| value.into_owned());
        let resource = resource.unwrap_or_else(|| self.server.to_string());
        let (authorization_server, authorization_url) = (self, url);
        Ok(AuthorizationRequest {
            authorization_server,
            client,
            scopes,
            resource,
            key,
            reuses_client,
            authorization_url,
        })
    }

    /// Returns the scopes to request, in MCP's order of preference: `configured`, else those of the challenge, else
    /// those of the resource's metadata. `offline_access` is added if the server supports it.
    async fn scopes(&self, configured: &[String]) -> Vec<String> {
        if configured.is_empty() {
            return self.manager.select_initial_scopes(&[]).await;
        }
        let supported = self.metadata.scopes_supported.as_deref().unwrap_or_default();
        let offline_access = supported.iter().filter(|scope| *scope == OFFLINE_ACCESS).cloned().collect::<Vec<_>>();
        union(configured, &offline_access)
    }

    /// Returns the client to sign in with, the first of these that there is:
    /// - the configured client;
    /// - the client that a metadata document describes, if the server reads such documents;
    /// - the client that an earlier sign-in registered, unless it is in doubt (a sign-in with it has not succeeded);
    /// - a newly registered client.
    async fn client(
        &mut self,
        oauth: &OAuth,
        scopes: &[String],
        redirect_uri: &str,
        earlier_credentials: Option<&Credentials>,
    ) -> Result<Client, AuthError> {
        let unregistered = |id: &str| Client {
            id: id.to_owned(),
            secret: None,
            redirect_uri: redirect_uri.to_owned(),
            registered: false,
            in_doubt: false,
        };
        if let Some(id) = &oauth.client_id {
            return Ok(unregistered(id));
        }
        let reads_documents = self.metadata.additional_fields.get("client_id_metadata_document_supported");
        if reads_documents.and_then(serde_json::Value::as_bool) == Some(true)
            && let Some(document) = &oauth.client_metadata_url
        {
            let is_usable = Url::parse(document).is_ok_and(|url| url.scheme() == "https" && url.path() != "/");
            if !is_usable {
                let why = "`oauth.client_metadata_url` must be an https URL with a path".to_owned();
                return Err(AuthError::NoClient { why });
            }
            return Ok(unregistered(document));
        }
        let can_be_used_again = |earlier_credentials: &&Credentials| {
            earlier_credentials.issuer == self.issuer
                && earlier_credentials.client.registered
                && !earlier_credentials.client.in_doubt
                && earlier_credentials.client.redirect_uri == redirect_uri
        };
        if let Some(earlier_credentials) = earlier_credentials.filter(can_be_used_again) {
            return Ok(earlier_credentials.client.clone());
        }
        self.register(scopes, redirect_uri).await
    }

    /// Registers a client (RFC 7591).
    async fn register(&mut self, scopes: &[String], redirect_uri: &str) -> Result<Client, AuthError> {
        let Some(endpoint) = self.metadata.registration_endpoint.clone() else {
            let why = "no client is configured, and none can be registered there".to_owned();
            return Err(AuthError::NoClient { why });
        };
        self.checked_endpoint("registration endpoint", &endpoint)?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registration = self.manager.register_client(CLIENT_NAME, redirect_uri, &scopes).await;
        let registration = registration.map_err(|error| AuthError::NoClient {
            why: message(&error, &[], self.http.no_response_reason().as_deref()),
        })?;
        Ok(Client {
            id: registration.client_id,
            secret: registration.client_secret,
            redirect_uri: redirect_uri.to_owned(),
            registered: true,
            in_doubt: false,
        })
    }
}

impl AuthorizationRequest {
    /// Returns the id of the client that signs in.
    pub(crate) fn client_id(&self) -> &str {
        &self.client.id
    }

    /// Exchanges a code for tokens. The code is in `redirect`, the URL to which the browser was redirected. `secret` is
    /// the secret of the configured client, which errors must not repeat. Returns [`AuthError::NoClient`] if the
    /// authorization server refuses a registered client.
    pub(crate) async fn exchange(self, redirect: &Url, secret: Option<&str>) -> Result<Credentials, AuthError> {
        let authorization_response = AuthorizationResponse::from_redirect(redirect)?;
        self.check_issuer(&authorization_response)?;
        if let Some(error) = authorization_response.error {
            let description = quote(&authorization_response.description.unwrap_or_default());
            let refusal = AuthError::Refused { error: quote(&error), description };
            if self.client.registered && is_client_refusal(&error) {
                return Err(AuthError::NoClient { why: refusal.to_string() });
            }
            return Err(refusal);
        }
        let code = authorization_response.code.ok_or_else(|| bad_redirect("it has no code"))?;
        let state = authorization_response.state.unwrap_or_default();
        let server = &self.authorization_server;
        let exchange =
            server.manager.exchange_code_for_token_with_issuer(&code, &state, authorization_response.issuer.as_deref());
        let registered_secret = self.client.secret.as_deref().unwrap_or_default();
        // A missing secret is an empty text, which `quote_without` ignores.
        let secrets = [code.as_str(), state.as_str(), registered_secret, secret.unwrap_or_default()];
        let response = exchange.await.map_err(|error| {
            let no_response_reason = server.http.no_response_reason();
            if self.client.registered && server.http.refuses_client() {
                return AuthError::NoClient { why: message(&error, &secrets, no_response_reason.as_deref()) };
            }
            token_error(&error, &secrets, no_response_reason.as_deref())
        })?;
        Ok(Credentials {
            issuer: self.authorization_server.issuer,
            resource: self.resource,
            client: self.client,
            tokens: Some(Tokens::from_rmcp(&response, &self.scopes, self.key.is_some())?),
            requested: self.scopes,
            key: self.key,
            metadata: self.authorization_server.metadata,
        })
    }

    /// Checks the `state` and the issuer of a response, before the caller uses it. This also holds for a response that
    /// is an error (RFC 9207, 2.4).
    fn check_issuer(&self, response: &AuthorizationResponse) -> Result<(), AuthError> {
        let sent_state =
            self.authorization_url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
        if sent_state.is_none() || sent_state != response.state {
            return Err(bad_redirect("it does not belong to the sign-in that is under way"));
        }
        let metadata = &self.authorization_server.metadata;
        let support_field = metadata.additional_fields.get("authorization_response_iss_parameter_supported");
        let promises_issuer = support_field.and_then(serde_json::Value::as_bool) == Some(true);
        let received_issuer = response.issuer.as_deref();
        let is_expected = match (received_issuer, &metadata.issuer) {
            (Some(received_issuer), Some(issuer)) => received_issuer == issuer,
            (Some(_), None) => false,
            (None, _) => !promises_issuer,
        };
        if is_expected {
            return Ok(());
        }
        Err(AuthError::WrongIssuer {
            expected: quote(&self.authorization_server.issuer),
            received: quote(received_issuer.unwrap_or_default()),
        })
    }
}

/// The answer of an authorization server: the query of the URL to which it redirected the browser.
#[derive(Default)]
struct AuthorizationResponse {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl AuthorizationResponse {
    /// Reads the query of the redirect. An error if it has a parameter twice, because the two values may differ.
    fn from_redirect(redirect: &Url) -> Result<Self, AuthError> {
        let mut response = Self::default();
        for (name, value) in redirect.query_pairs() {
            let field = match &*name {
                "code" => &mut response.code,
                "state" => &mut response.state,
                "iss" => &mut response.issuer,
                "error" => &mut response.error,
                "error_description" => &mut response.description,
                _ => continue,
            };
            if field.replace(value.into_owned()).is_some() {
                return Err(bad_redirect("it has a parameter twice"));
            }
        }
        Ok(response)
    }
}

/// Returns the error for a redirect that cannot be used.
fn bad_redirect(why: &str) -> AuthError {
    AuthError::Callback { why: why.to_owned() }
}

/// Renews the tokens of `credentials`. `oauth` has the configuration of the client. Returns [`AuthError::Ended`] if
/// there is no refresh token, or the authorization server refuses it. Returns [`AuthError::NoClient`] if the server
/// refuses the client.
pub(crate) async fn refresh(
    http: Arc<GuardedHttp>,
    server: &Url,
    credentials: &Credentials,
    oauth: &OAuth,
) -> Result<Credentials, AuthError> {
    let secret = oauth.client_secret.as_deref();
    let (Some(tokens), Ok(resource)) = (&credentials.tokens, Url::parse(&credentials.resource)) else {
        return Err(AuthError::Ended);
    };
    let Some(refresh_token) = &tokens.refresh else {
        return Err(AuthError::Ended);
    };
    let endpoint = check_endpoint(&http, server, "token endpoint", &credentials.metadata.token_endpoint)?;
    let assertion = ClientAssertion::of(oauth, &credentials.issuer, &credentials.metadata)?;
    http.sign_with(RequestSigner { endpoint, assertion, proof_key: credentials.key.clone() });
    let mut secrets = credentials.secrets();
    secrets.extend(secret);
    // `rmcp` sends the URL that its manager was created with as the `resource`.
    let manager = AuthorizationManager::new_with_oauth_http_client(resource, http.clone());
    let mut manager = manager.await.map_err(|error| discovery_error(&error))?;
    manager.set_metadata(credentials.metadata.clone());
    let client = &credentials.client;
    let mut config = OAuthClientConfig::new(&client.id, &client.redirect_uri);
    if let Some(secret) = client.secret.as_deref().or(secret) {
        config = config.with_client_secret(secret);
    }
    manager.configure_client(config).map_err(|error| discovery_error(&error))?;
    // `rmcp` renews the tokens that it finds in its credential store, so they are put there first. It uses only the
    // refresh token, so the type does not matter.
    let token_response = serde_json::json!({
        "access_token": tokens.access, "refresh_token": refresh_token, "token_type": "bearer",
    });
    let token_response = serde_json::from_value(token_response).ok();
    let store = InMemoryCredentialStore::new();
    let credentials_of_rmcp =
        StoredCredentials::new(client.id.clone(), token_response, tokens.scopes.clone(), Some(tokens.received));
    store.save(credentials_of_rmcp).await.map_err(|error| discovery_error(&error))?;
    manager.set_credential_store(store);
    let response = manager.refresh_token().await.map_err(|error| match error {
        RmcpError::TokenRefreshRejected(_) | RmcpError::AuthorizationRequired => AuthError::Ended,
        error => {
            let why = message(&error, &secrets, http.no_response_reason().as_deref());
            if http.refuses_client() { AuthError::NoClient { why } } else { AuthError::Unavailable { why } }
        }
    })?;
    let mut renewed = Tokens::from_rmcp(&response, &tokens.scopes, credentials.key.is_some())?;
    // If the response has no new refresh token, the old one stays valid (RFC 6749, 6).
    renewed.refresh = renewed.refresh.or_else(|| Some(refresh_token.clone()));
    Ok(Credentials { tokens: Some(renewed), ..credentials.clone() })
}

/// Parses and checks the URL of an endpoint to which secrets or the user may be sent. `server` is the MCP server whose
/// metadata led to the endpoint, and `endpoint_name` names the endpoint in an error.
pub(crate) fn check_endpoint(
    http: &GuardedHttp,
    server: &Url,
    endpoint_name: &'static str,
    url: &str,
) -> Result<Url, AuthError> {
    let unsafe_endpoint = |why: &str| AuthError::Unsafe { what: endpoint_name, why: why.to_owned() };
    let url = Url::parse(url).map_err(|_| unsafe_endpoint("it is not a URL"))?;
    http.guard.check_secret_destination(&url, server).map_err(|why| unsafe_endpoint(&why.to_string()))?;
    Ok(url)
}

/// Returns the error of a request to any endpoint but the token endpoint, for which there is [`token_error`].
fn discovery_error(error: &RmcpError) -> AuthError {
    let mut causes = iter::successors(std::error::Error::source(error), |cause| cause.source());
    let egress_refusal = causes.find_map(|cause| match cause.downcast_ref()? {
        HttpError::Refused(refusal) => Some(refusal.clone()),
        _ => None,
    });
    if let Some(refusal) = egress_refusal {
        return AuthError::Egress(Box::new(refusal));
    }
    // These requests carry no secrets. The reason why one got no response is not known here.
    let describe = |error: &RmcpError| message(error, &[], None);
    match error {
        RmcpError::PkceUnsupported => AuthError::NoPkce,
        RmcpError::DiscoveryRequestFailed { .. } | RmcpError::HttpError(_) => {
            AuthError::Unavailable { why: describe(error) }
        }
        RmcpError::ProtectedResourceMetadataInvalid { url, reason } => match reason.as_ref() {
            InvalidReason::ResourceMismatch { reference, permitted } => {
                let why = format!(
                    "the metadata of the resource, at {url}, belongs to `{permitted}`, and not to `{reference}`, the server to \
                     sign in to"
                );
                AuthError::Discovery { why: quote(&why) }
            }
            _ => AuthError::Discovery { why: describe(error) },
        },
        error => AuthError::Discovery { why: describe(error) },
    }
}

/// Returns the error of a request to the token endpoint.
fn token_error(error: &RmcpError, secrets: &[&str], no_response_reason: Option<&str>) -> AuthError {
    match error {
        RmcpError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            AuthError::WrongIssuer { expected: quote(expected_issuer), received: quote(received_issuer) }
        }
        RmcpError::AuthorizationServerMissingIssuer { expected_issuer } => {
            AuthError::WrongIssuer { expected: quote(expected_issuer), received: String::new() }
        }
        error => AuthError::NoToken { why: message(error, secrets, no_response_reason) },
    }
}

/// The end of `rmcp`'s message about a request without a response. The message does not contain the cause.
const UNANSWERED: &str = "Request failed";

/// Returns the text of an error with its innermost cause, escaped and without `secrets`. `no_response_reason` is the
/// reason why the last request got no response; `None` if it got a response, or if the reason is not known.
fn message(error: &RmcpError, secrets: &[&str], no_response_reason: Option<&str>) -> String {
    let mut message = error.to_string();
    if let Some(start) = message.strip_suffix(UNANSWERED) {
        message = format!("{start}{}", no_response_reason.unwrap_or("its request got no answer"));
    }
    let cause = std::error::Error::source(error).map(root_cause);
    if let Some(cause) = cause.filter(|cause| !message.contains(cause)) {
        message = format!("{message}: {cause}");
    }
    quote_without(&message, secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_answer_fails_with_the_reason_of_its_client() {
        let failed = RmcpError::TokenExchangeFailed(UNANSWERED.to_owned());
        let why = message(&failed, &[], Some("it did not answer within 20 s"));
        assert!(why.ends_with(": it did not answer within 20 s") && !why.contains(UNANSWERED), "{why}");
        let why = message(&failed, &[], None);
        assert!(why.ends_with(": its request got no answer") && !why.contains(UNANSWERED), "{why}");
        let refused = RmcpError::TokenExchangeFailed("Server returned error response: invalid_grant".to_owned());
        assert!(message(&refused, &[], None).ends_with("invalid_grant"));
    }
}
