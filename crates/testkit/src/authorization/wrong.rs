//! The faults of an authorization server.

use std::time::Duration;

use serde_json::{Value, json};

/// One fault. Of several of one kind the first counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Wrong {
    /// These members are in its metadata instead; `null` takes one away.
    Metadata(Value),
    /// These members are in the metadata of the MCP server instead (RFC 9728).
    ResourceMetadata(Value),
    /// Metadata of either kind comes after this long.
    SlowMetadata(Duration),
    /// Metadata of either kind has a member of this many bytes.
    HugeMetadata(usize),
    /// Metadata of either kind is this text.
    NoJson(&'static str),
    /// Requests for its metadata are redirected there.
    MovedMetadata(String),
    /// Clients get this `iss` back; `None`: none, although it is promised (RFC 9207).
    Iss(Option<String>),
    /// Clients get this `state` back.
    State(&'static str),
    /// The person refuses: clients get this error back.
    Refuses(&'static str),
    /// `authorize` redirects there.
    SentTo(String),
    /// Access tokens are good for this many requests.
    Expires(u32),
    /// Tokens are said to be good for this many seconds.
    Lives(u64),
    /// The token endpoint answers after this long.
    SlowTokens(Duration),
    /// The token endpoint acts on requests, but answers only once its faults are changed.
    HoldsTokens,
    /// The token endpoint answers with this OAuth error.
    TokenError(&'static str),
    /// Tokens come without a refresh token.
    NoRefresh,
    /// Refresh tokens stay as they are.
    NoRotation,
    /// No client can register.
    NoRegistration,
    /// Calls of tools want this scope as well.
    WantsScope(&'static str),
    /// Tokens are of this type.
    TokenType(&'static str),
    /// Proofs must hold this nonce; a client that sends another gets it in the error (RFC 9449, 8 and 9).
    WantsNonce(String),
    /// The same, but no proof ever holds the right one.
    NoNonceFits(String),
    /// The MCP server wants another nonce in each proof, and names the next with each answer.
    ChangesNonce,
    /// The MCP server takes only tokens that are bound to a key.
    OnlyBound,
}

impl Wrong {
    /// Its metadata names another issuer (RFC 8414, 3.3).
    #[must_use]
    pub fn issuer(issuer: &str) -> Self {
        Self::Metadata(json!({ "issuer": issuer }))
    }

    /// It does not declare PKCE, which a client then must not rely on.
    #[must_use]
    pub fn no_pkce() -> Self {
        Self::Metadata(json!({ "code_challenge_methods_supported": null }))
    }

    /// A person is to be sent to this URL, such as `file:///bin/sh` or `javascript:alert(1)`.
    #[must_use]
    pub fn sends_people_to(url: &str) -> Self {
        Self::Metadata(json!({ "authorization_endpoint": url }))
    }

    /// The MCP server says that it is another resource.
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
