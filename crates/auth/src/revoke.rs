//! Revokes tokens at their authorization server (RFC 7009).

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, Request, header};
use toolrack_host::spec::OAuth;
use url::{Url, form_urlencoded::Serializer};

use crate::{
    credentials::Credentials, engine::check_endpoint, error::AuthError, guarded_http::GuardedHttp,
    token_request::ClientAssertion,
};

/// Revokes the refresh token, and then the access token, which some servers do not revoke together with the refresh
/// token. Returns `false` if the server has no revocation endpoint, or if there are no tokens.
pub(crate) async fn revoke(
    http: Arc<GuardedHttp>,
    server: &Url,
    credentials: &Credentials,
    oauth: &OAuth,
) -> Result<bool, AuthError> {
    let fields = &credentials.metadata.additional_fields;
    let (Some(endpoint), Some(tokens)) =
        (fields.get("revocation_endpoint").and_then(serde_json::Value::as_str), &credentials.tokens)
    else {
        return Ok(false);
    };
    let endpoint = check_endpoint(&http, server, "revocation endpoint", endpoint)?;
    // Does not use `takes_secrets_in_forms`, because a server can list other methods for revocation.
    let methods = fields
        .get("revocation_endpoint_auth_methods_supported")
        .or_else(|| fields.get("token_endpoint_auth_methods_supported"))
        .and_then(serde_json::Value::as_array);
    let accepts =
        |name: &str| methods.is_some_and(|methods| methods.iter().any(|method| method.as_str() == Some(name)));
    let secret_in_form = accepts("client_secret_post") && !accepts("client_secret_basic");
    let client = &credentials.client;
    let secret = client.secret.as_deref().or(oauth.client_secret.as_deref());
    let assertion = ClientAssertion::of(oauth, &credentials.issuer, &credentials.metadata)?;
    let tokens_with_hints =
        [tokens.refresh.as_deref().map(|token| (token, "refresh_token")), Some((&tokens.access, "access_token"))];
    let mut first_failure = None;
    for (token, type_hint) in tokens_with_hints.into_iter().flatten() {
        let revocation_error =
            |why: String| AuthError::Unavailable { why: format!("the tokens could not be revoked: {why}") };
        // The block drops the form before the first `.await`, because the form is not `Send`.
        let request = {
            let mut form = Serializer::new(String::new());
            form.append_pair("token", token).append_pair("token_type_hint", type_hint);
            let mut request = Request::builder()
                .method(Method::POST)
                .uri(endpoint.as_str())
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            match secret {
                Some(secret) if !secret_in_form => {
                    request = request.header(header::AUTHORIZATION, basic_authorization(&client.id, secret))
                }
                Some(secret) => {
                    form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
                }
                None => {
                    form.append_pair("client_id", &client.id);
                    assertion.as_ref().map(|assertion| assertion.add_to(&mut form)).transpose()?;
                }
            }
            request.body(form.finish().into_bytes()).map_err(|error| revocation_error(error.to_string()))?
        };
        let status = http.send(request).await.map_err(|error| revocation_error(error.to_string()))?.status();
        if !status.is_success() {
            // A server that does not revoke this token may still revoke the other (RFC 7009, 2.2.1).
            let error = revocation_error(format!("the server answered HTTP {}", status.as_u16()));
            first_failure.get_or_insert(error);
        }
    }
    first_failure.map_or(Ok(true), Err)
}

/// Returns the `Authorization` header for HTTP Basic in OAuth's variant, which form-encodes both parts first (RFC 6749,
/// 2.3.1).
pub(crate) fn basic_authorization(id: &str, secret: &str) -> String {
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(id), encode(secret))))
}
