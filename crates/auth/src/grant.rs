//! The grants that need no browser: client credentials, JWT bearer (workload identity), and enterprise-managed
//! authorization. In the last one, the identity provider of an enterprise exchanges a user's ID token for an ID-JAG.
//! The authorization server accepts this token as the user's agreement.
//!
//! `rmcp` supports only client credentials, and only with a secret. A grant needs only one or two requests with a form,
//! so this crate sends them itself.

use http::{Method, Request, StatusCode, header};
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::Value;
use toolrack_host::spec::{Grant, IdentityProvider, OAuth};
use url::{Url, form_urlencoded::Serializer};

use crate::{
    credentials::{Client, Credentials, Tokens},
    engine::{AuthorizationServer, check_endpoint},
    error::{AuthError, quote_without},
    guarded_http::{GuardedHttp, GuardedHttpMaker},
    revoke::basic_authorization,
};

/// The grant type of RFC 7523, 2.1.
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The grant type of RFC 8693, 2.1.
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The type of the token that the client sends to get an ID-JAG.
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// The type of the token that the identity provider issues for the ID token.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The maximum number of bytes in an ID-JAG.
const MAX_ID_JAG_BYTES: usize = 64 * 1024;

/// A request to a token endpoint.
struct Form<'a> {
    fields: Vec<(&'static str, String)>,
    client_id: Option<&'a str>,
    client_secret: Option<&'a str>,
    /// Whether the client secret goes into the form. If not, it goes into an `Authorization` header.
    secret_in_form: bool,
    /// Secrets that an error must not repeat: a server can quote them in its answer.
    secrets: Vec<&'a str>,
}

impl<'a> Form<'a> {
    /// Creates a form with a grant type, for the client of `oauth`.
    fn new(grant: &str, oauth: &'a OAuth) -> Self {
        let secrets = [&oauth.client_secret, &oauth.assertion.text];
        Self {
            fields: vec![("grant_type", grant.to_owned())],
            client_id: oauth.client_id.as_deref(),
            client_secret: oauth.client_secret.as_deref(),
            secret_in_form: false,
            secrets: secrets.into_iter().flatten().map(String::as_str).collect(),
        }
    }

    /// Adds a field, unless its value is empty.
    fn with_field(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.fields.push((name, value));
        }
        self
    }

    /// Returns the HTTP request that posts this form.
    fn request(&self, endpoint: &Url) -> Result<Request<Vec<u8>>, http::Error> {
        let mut encoder = Serializer::new(String::new());
        encoder.extend_pairs(&self.fields);
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(endpoint.as_str())
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        match (self.client_id, self.client_secret) {
            (Some(client_id), Some(secret)) if !self.secret_in_form => {
                request = request.header(header::AUTHORIZATION, basic_authorization(client_id, secret));
            }
            (Some(client_id), secret) => {
                encoder.append_pair("client_id", client_id);
                encoder.extend_pairs(secret.map(|secret| ("client_secret", secret)));
            }
            (None, _) => {}
        }
        request.body(encoder.finish().into_bytes())
    }

    /// Sends the form, and parses the response as a JSON object. `receiver` names the receiver in an error.
    async fn send(&self, http: &GuardedHttp, endpoint: &Url, receiver: &str) -> Result<Value, AuthError> {
        let unavailable = |why: String| AuthError::Unavailable { why: format!("{receiver}: {why}") };
        let request = self.request(endpoint).map_err(|error| unavailable(error.to_string()))?;
        let response = http.send(request).await.map_err(|error| unavailable(error.to_string()))?;
        let status = response.status();
        // A body that is not JSON becomes `null`, which is no object.
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if status.is_success() && body.is_object() {
            return Ok(body);
        }
        Err(self.response_error(status, &body, receiver))
    }

    /// Returns the error for a response that is no success. `receiver` names the receiver of the form.
    fn response_error(&self, status: StatusCode, body: &Value, receiver: &str) -> AuthError {
        let field = |name: &str| body[name].as_str().map(|text| quote_without(text, &self.secrets));
        let why = match (field("error"), field("error_description")) {
            (Some(error), Some(description)) => format!("{error}, {description}"),
            (Some(error), None) => error,
            _ => format!("HTTP {}, with a body that cannot be read", status.as_u16()),
        };
        let is_temporary =
            status.is_server_error() || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        if is_temporary {
            return AuthError::Unavailable { why: format!("{receiver}: {why}") };
        }
        AuthError::NoToken { why: format!("{receiver} answered: {why}") }
    }
}

/// Returns whether an authorization server accepts client secrets only in the form (`client_secret_post`).
pub(crate) fn takes_secrets_in_forms(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let accepts =
        |name: &str| methods.is_some_and(|methods| methods.iter().any(|method| method.as_str() == Some(name)));
    accepts("client_secret_post") && !accepts("client_secret_basic")
}

impl AuthorizationServer {
    /// Gets a token with the grant of `oauth`. Requests `scopes`, or the scopes that the server names if `scopes` is
    /// empty.
    pub(crate) async fn token_without_user(
        self,
        oauth: &OAuth,
        scopes: &[String],
        http_maker: &GuardedHttpMaker,
    ) -> Result<Credentials, AuthError> {
        let scopes = self.scopes_without_user(scopes).await;
        let endpoint = self.token_endpoint()?;
        let key = self.new_key(oauth)?;
        self.sign_with(oauth, key.clone())?;
        let assertion = oauth.assertion.text.as_deref().unwrap_or_default();
        let form = match oauth.grant {
            Grant::JwtBearer => Form::new(JWT_BEARER, oauth).with_field("assertion", assertion),
            Grant::EnterpriseManaged => {
                let jag = self.id_jag(oauth, &scopes, http_maker).await?;
                Form::new(JWT_BEARER, oauth).with_field("assertion", jag)
            }
            // Callers send `AuthorizationCode`, which needs a user, through the browser, so it never gets here.
            Grant::ClientCredentials | Grant::AuthorizationCode => {
                if oauth.client_id.is_none() || (oauth.client_secret.is_none() && oauth.private_key.text.is_none()) {
                    let why = "the grant `client_credentials` needs `oauth.client_id`, and `oauth.client_secret` or \
                               `oauth.private_key_file`";
                    return Err(AuthError::NoClient { why: why.to_owned() });
                }
                Form::new("client_credentials", oauth)
            }
        };
        let mut form = form.with_field("scope", scopes.join(" ")).with_field("resource", self.server().as_str());
        form.secret_in_form = takes_secrets_in_forms(self.metadata());
        let answer = form.send(self.http(), &endpoint, "the authorization server").await?;
        // The next token comes from the same grant, so a refresh token is not needed.
        let tokens = Tokens { refresh: None, ..Tokens::from_answer(&answer, &scopes, key.is_some())? };
        let id = oauth.client_id.clone().unwrap_or_default();
        Ok(Credentials {
            issuer: self.issuer.clone(),
            resource: self.server().to_string(),
            client: Client { id, secret: None, redirect_uri: String::new(), registered: false, in_doubt: false },
            tokens: Some(tokens),
            requested: scopes,
            key,
            metadata: self.into_metadata(),
        })
    }

    /// Exchanges the ID token for an ID-JAG at the identity provider (draft-ietf-oauth-identity-assertion-authz-grant,
    /// 4.3).
    async fn id_jag(
        &self,
        oauth: &OAuth,
        scopes: &[String],
        http_maker: &GuardedHttpMaker,
    ) -> Result<String, AuthError> {
        let config_error = |why: &str| AuthError::Config { why: why.to_owned() };
        let identity_provider = oauth.idp.as_ref().ok_or_else(|| config_error("`oauth.idp` is missing"))?;
        let IdentityProvider { token_url, client_id, client_secret } = identity_provider;
        let url = Url::parse(token_url).map_err(|_| config_error("`oauth.idp.token_url` is not a URL"))?;
        // This URL may lead to a private address, because the user has configured it and no server has named it.
        let http = http_maker.http_for(&url)?;
        let endpoint = check_endpoint(&http, &url, "`oauth.idp.token_url`", token_url)?;
        let assertion = oauth.assertion.text.as_deref().unwrap_or_default();
        let mut form = Form::new(TOKEN_EXCHANGE, oauth)
            .with_field("requested_token_type", ID_JAG)
            .with_field("audience", self.issuer.as_str())
            .with_field("resource", self.server().as_str())
            .with_field("scope", scopes.join(" "))
            .with_field("subject_token", assertion)
            .with_field("subject_token_type", ID_TOKEN);
        // At the identity provider, this program is another client. The identity provider must not get the secret for
        // the authorization server.
        (form.client_id, form.client_secret) = (client_id.as_deref(), client_secret.as_deref());
        form.secrets.extend(client_secret.as_deref());
        let answer = form.send(&http, &endpoint, "the identity provider").await?;
        let no_token_error = |why: &str| AuthError::NoToken { why: format!("the identity provider gave {why}") };
        if answer["issued_token_type"] != ID_JAG {
            return Err(no_token_error("something other than an ID-JAG"));
        }
        let jag = answer["access_token"].as_str().filter(|jag| !jag.is_empty() && jag.len() <= MAX_ID_JAG_BYTES);
        jag.map(str::to_owned).ok_or_else(|| no_token_error("no ID-JAG"))
    }
}

#[cfg(test)]
mod tests;
