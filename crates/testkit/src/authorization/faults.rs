//! The faults of the fake authorization server: what a test can have it do wrong.

use std::time::Duration;

use serde_json::{Value, json};

/// A fault of the authorization server ("it" below). Of several faults of the same kind, the first one counts.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthorizationFault {
    /// Its metadata has these members instead; `null` removes one.
    Metadata(Value),
    /// The metadata of the MCP server has these members instead (RFC 9728).
    ResourceMetadata(Value),
    /// It delays metadata of either kind by this time.
    SlowMetadata(Duration),
    /// Metadata of either kind has a member of this many bytes.
    HugeMetadata(usize),
    /// Metadata of either kind is this text.
    NoJson(&'static str),
    /// It redirects requests for its metadata to this URL.
    MovedMetadata(String),
    /// Its redirects have this `iss`. With `None` they have none, although its metadata promises one (RFC 9207).
    Iss(Option<String>),
    /// Its redirects carry this `state`.
    State(&'static str),
    /// The user refuses: its redirects carry this error.
    Refuses(&'static str),
    /// `authorize` redirects to this URL.
    SentTo(String),
    /// Access tokens expire after this many requests.
    Expires(u32),
    /// It claims that tokens are valid for this many seconds.
    Lives(u64),
    /// The token endpoint delays its answers by this time.
    SlowTokens(Duration),
    /// The token endpoint carries out requests, but does not answer them until the test removes this fault.
    HoldsTokens,
    /// The token endpoint answers with this OAuth error.
    TokenError(&'static str),
    /// It issues no refresh tokens.
    NoRefresh,
    /// It does not rotate refresh tokens.
    NoRotation,
    /// No client can register.
    NoRegistration,
    /// `authorize` shows no error page to a client that it does not know: it redirects with this error, or with a code.
    RedirectsUnknownClients(Option<&'static str>),
    /// It revokes access tokens, and refuses to revoke refresh tokens (RFC 7009, 2.2.1).
    RevokesNoRefreshTokens,
    /// Calls of tools need this scope as well.
    WantsScope(&'static str),
    /// Tokens are of this type.
    TokenType(&'static str),
    /// Proofs must contain this nonce. The error for any other proof names the nonce (RFC 9449, 8 and 9).
    WantsNonce(String),
    /// The server asks for this nonce, but refuses every proof.
    NoNonceFits(String),
    /// The MCP server wants a new nonce in each proof, and names the next with each answer.
    ChangesNonce,
    /// The MCP server accepts only tokens that are bound to a key.
    OnlyBound,
}

impl AuthorizationFault {
    /// Its metadata names another issuer (RFC 8414, 3.3).
    #[must_use]
    pub fn issuer(issuer: &str) -> Self {
        Self::Metadata(json!({ "issuer": issuer }))
    }

    /// It does not declare PKCE, so that a client must not rely on it.
    #[must_use]
    pub fn no_pkce() -> Self {
        Self::Metadata(json!({ "code_challenge_methods_supported": null }))
    }

    /// It sends users to this URL, such as `file:///bin/sh` or `javascript:alert(1)`.
    #[must_use]
    pub fn sends_users_to(url: &str) -> Self {
        Self::Metadata(json!({ "authorization_endpoint": url }))
    }

    /// The MCP server claims to be another resource.
    #[must_use]
    pub fn resource(url: &str) -> Self {
        Self::ResourceMetadata(json!({ "resource": url }))
    }

    /// The MCP server names another authorization server.
    #[must_use]
    pub fn authorization_server(url: &str) -> Self {
        Self::ResourceMetadata(json!({ "authorization_servers": [url] }))
    }
}
