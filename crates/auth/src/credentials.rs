//! The stored credentials of a sign-in: the tokens, the client that got them, and the authorization server (the issuer)
//! that issued them.

use http::HeaderValue;
use rmcp::transport::auth::{AuthorizationMetadata, OAuthTokenResponse};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{clock::now, dpop::ProofKey, error::AuthError};

/// A token is renewed this many seconds before it expires, and a short-lived token in the last fifth of its life.
const RENEW_BEFORE_EXPIRY: u64 = 60;
/// The maximum number of bytes of a token: a request carries the token in a header.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The credentials of a sign-in at one issuer.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Credentials {
    /// The authorization server. The credentials are never sent to another one.
    pub(crate) issuer: String,
    /// The resource of the tokens (RFC 8707), as it was sent to the authorization server.
    pub(crate) resource: String,
    /// The client that got the tokens.
    pub(crate) client: Client,
    /// `None` when the server has ended the sign-in. The registration of the client stays valid.
    pub(crate) tokens: Option<Tokens>,
    /// The scopes that the last sign-in requested.
    #[serde(rename = "asked")]
    pub(crate) requested: Vec<String>,
    /// The key that the tokens are bound to; `None` for bearer tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<ProofKey>,
    /// The metadata of the authorization server, so that a refresh need not fetch it again.
    pub(crate) metadata: AuthorizationMetadata,
}

/// The client as an authorization server knows it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    /// The secret of a dynamically registered client; the secret of a configured client is not stored.
    pub(crate) secret: Option<String>,
    pub(crate) redirect_uri: String,
    /// Whether this is a dynamic registration, which is valid only for `redirect_uri`.
    pub(crate) registered: bool,
    /// Whether a later sign-in has begun with this registration and has not succeeded so far. The authorization server
    /// may have forgotten the client, and tells only the user. So the next sign-in registers a new client.
    #[serde(default)]
    pub(crate) in_doubt: bool,
}

/// The tokens of one answer of a token endpoint.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    /// The scopes that were granted.
    pub(crate) scopes: Vec<String>,
    /// When this program received the access token, in seconds since 1970.
    pub(crate) received: u64,
    /// The expiry of the access token, in seconds since 1970; `None` if the server does not name it.
    pub(crate) expires: Option<u64>,
}

impl Credentials {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // Damaged bytes, or bytes of another version, count as no credentials: the user signs in again.
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Cannot fail: the fields are texts, numbers and maps with text keys.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the access token.
    pub(crate) fn access(&self) -> Option<&str> {
        self.tokens.as_ref().map(|tokens| tokens.access.as_str())
    }

    /// Returns the `Authorization` header with the access token.
    pub(crate) fn authorization_header(&self) -> Option<HeaderValue> {
        let scheme = if self.key.is_some() { "DPoP" } else { "Bearer" };
        let mut value = HeaderValue::try_from(format!("{scheme} {}", self.access()?)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Returns all secrets in the credentials.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let tokens = self.tokens.iter().flat_map(|tokens| [Some(&tokens.access), tokens.refresh.as_ref()]);
        let texts = tokens.chain([self.client.secret.as_ref()]).flatten().map(String::as_str);
        texts.chain(self.key.as_ref().map(ProofKey::secret)).collect()
    }
}

impl Tokens {
    /// Reads the tokens that a token endpoint returned to `rmcp`, like [`Self::from_answer`].
    pub(crate) fn from_rmcp(
        response: &OAuthTokenResponse,
        requested_scopes: &[String],
        is_bound: bool,
    ) -> Result<Self, AuthError> {
        let response_json = serde_json::to_value(response);
        let response_json =
            response_json.map_err(|_| AuthError::NoToken { why: "the answer cannot be read".to_owned() })?;
        Self::from_answer(&response_json, requested_scopes, is_bound)
    }

    /// Reads the tokens that a token endpoint returned. If the answer names no `scope`, the tokens have the
    /// `requested_scopes` (RFC 6749, 5.1). With `is_bound`, the tokens must be bound to a key (RFC 9449, 5). Without
    /// it, bound tokens are an error.
    pub(crate) fn from_answer(
        response: &Value,
        requested_scopes: &[String],
        is_bound: bool,
    ) -> Result<Self, AuthError> {
        let no_token_error = |why: &str| AuthError::NoToken { why: why.to_owned() };
        let text_field = |name: &str| response.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let access_token =
            text_field("access_token").ok_or_else(|| no_token_error("the answer contains no access token"))?.to_owned();
        let has_type =
            |kind: &str| text_field("token_type").is_some_and(|token_type| token_type.eq_ignore_ascii_case(kind));
        if is_bound && !has_type("dpop") {
            return Err(no_token_error(
                "the token is not bound to a key, although the server or `oauth.dpop` of the entry requires that",
            ));
        }
        if !is_bound && !has_type("bearer") {
            return Err(no_token_error(
                "the token is not a bearer token; for tokens that are bound to a key, set `oauth.dpop`",
            ));
        }
        let refresh_token = text_field("refresh_token").map(str::to_owned);
        if access_token.len().max(refresh_token.as_ref().map_or(0, String::len)) > MAX_TOKEN_BYTES {
            return Err(no_token_error("the token is too long"));
        }
        if HeaderValue::try_from(&access_token).is_err() {
            return Err(no_token_error("the token has characters that are not allowed in a header"));
        }
        let received_at = now();
        Ok(Self {
            access: access_token,
            refresh: refresh_token,
            scopes: text_field("scope").map_or_else(
                || requested_scopes.to_vec(),
                |scopes| scopes.split_ascii_whitespace().map(str::to_owned).collect(),
            ),
            received: received_at,
            expires: response
                .get("expires_in")
                .and_then(Value::as_u64)
                .map(|seconds| received_at.saturating_add(seconds)),
        })
    }

    /// Returns whether to renew the access token now: shortly before it expires, or if there is no refresh token, only
    /// when it has expired.
    pub(crate) fn is_stale(&self, now: u64) -> bool {
        if self.refresh.is_some() { self.expires_soon(now) } else { self.has_expired(now) }
    }

    /// Returns whether the access token expires within the time that [`RENEW_BEFORE_EXPIRY`] describes.
    fn expires_soon(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| {
            let margin = RENEW_BEFORE_EXPIRY.min(expires.saturating_sub(self.received) / 5);
            now.saturating_add(margin) >= expires
        })
    }

    pub(crate) fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

#[cfg(test)]
mod tests;
