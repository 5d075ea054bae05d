//! Errors of signing in.

use std::borrow::Cow;

use toolrack_host::{egress::Refused, text};

use crate::{browser::BrowserError, store::TokenStoreError};

/// The maximum number of bytes of a server's text in an error.
const MAX_QUOTE_BYTES: usize = 300;

/// An error of signing in, or of staying signed in.
///
/// `Display` is one safe line without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The authorization server of the MCP server cannot be discovered.
    #[error("cannot find out how to sign in there: {why}")]
    Discovery {
        /// The problem, escaped.
        why: String,
    },
    /// The authorization server does not declare support for PKCE with S256, which MCP demands.
    #[error("its authorization server does not offer PKCE with S256, without which a code could be stolen")]
    NoPkce,
    /// The server or its metadata name a URL that must not be used.
    #[error("its {what} is not used: {why}")]
    Unsafe {
        /// What the URL is: `authorization endpoint`, …
        what: &'static str,
        /// The reason, escaped.
        why: String,
    },
    /// The server accepts only tokens that are bound to a key, and its entry in the configuration does not ask for such
    /// tokens.
    #[error("the server accepts only tokens that are bound to a key (DPoP): set `oauth.dpop` to true in its entry")]
    NotBound,
    /// There is no client to sign in with and none can be registered, or the authorization server refuses the client.
    #[error("this program is not a client of its authorization server: {why}")]
    NoClient {
        /// The problem, escaped.
        why: String,
    },
    /// The user or the authorization server refused.
    #[error("the authorization server refused: {error}{}", DescriptionSuffix(.description))]
    Refused {
        /// The `error` field of the answer, escaped: `access_denied`, …
        error: String,
        /// The `error_description` field of the answer, escaped.
        description: String,
    },
    /// The browser was redirected to a URL that does not belong to this sign-in.
    #[error("the redirect of the browser cannot be used: {why}")]
    Callback {
        /// The problem.
        why: String,
    },
    /// The answer came from another authorization server than the expected one.
    #[error("the answer is from the issuer `{received}` instead of `{expected}`; nothing was sent to either")]
    WrongIssuer {
        /// The issuer to which the request went, escaped.
        expected: String,
        /// The issuer that answered, escaped; empty if it did not name itself although its metadata promises that.
        received: String,
    },
    /// The authorization server issued no token, or none that can be used.
    #[error("the authorization server issued no usable token: {why}")]
    NoToken {
        /// The problem, escaped.
        why: String,
    },
    /// The authorization server no longer accepts the refresh token: the user has to sign in again.
    #[error("the sign-in has ended: the authorization server no longer accepts the refresh token")]
    Ended,
    /// The authorization server cannot be reached, or fails. A later attempt may work.
    #[error("{why}")]
    Unavailable {
        /// The problem, escaped.
        why: String,
    },
    /// The egress rules do not allow a request.
    #[error("{0}")]
    Egress(Box<Refused>),
    /// The browser was not redirected back.
    #[error("{0}")]
    Browser(BrowserError),
    /// Tokens cannot be stored or read.
    #[error("{0}")]
    Store(TokenStoreError),
    /// The `oauth` of the server's entry cannot be used.
    #[error("{why}")]
    Config {
        /// The problem.
        why: String,
    },
}

/// Displays a comma and the description after an error, or nothing if the description is empty.
struct DescriptionSuffix<'a>(&'a str);

impl std::fmt::Display for DescriptionSuffix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            "" => Ok(()),
            description => write!(f, ", {description}"),
        }
    }
}

impl AuthError {
    /// Returns a stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Discovery { .. } => "SIGN_IN_UNKNOWN",
            Self::NoPkce => "SIGN_IN_WITHOUT_PKCE",
            Self::Unsafe { .. } => "SIGN_IN_UNSAFE_URL",
            Self::NotBound => "SIGN_IN_NEEDS_DPOP",
            Self::NoClient { .. } => "SIGN_IN_NO_CLIENT",
            Self::Refused { .. } => "SIGN_IN_REFUSED",
            Self::Callback { .. } => "SIGN_IN_BAD_CALLBACK",
            Self::WrongIssuer { .. } => "SIGN_IN_WRONG_ISSUER",
            Self::NoToken { .. } => "SIGN_IN_NO_TOKEN",
            Self::Ended => "SIGN_IN_ENDED",
            Self::Unavailable { .. } => "SIGN_IN_UNAVAILABLE",
            Self::Egress(_) => Refused::CODE,
            Self::Browser(error) => error.code(),
            Self::Store(_) => "TOKEN_STORE",
            Self::Config { .. } => "UNRESOLVED_VALUE",
        }
    }

    /// Returns the next step for the user, if the error itself does not name it.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Egress(refused) => return Some(refused.hint().into()),
            Self::NoClient { .. } => {
                "register a client there by hand and give the entry its `oauth.client_id` (and `oauth.client_secret`)"
            }
            Self::Discovery { .. } | Self::NoPkce | Self::Unsafe { .. } => {
                "if the server accepts a key instead, give its entry an `Authorization` header"
            }
            Self::WrongIssuer { .. } | Self::Callback { .. } => "close that browser window, and sign in again",
            Self::NoToken { .. } => "check `oauth` in the server's entry, and try again",
            Self::Ended => "sign in again",
            Self::Unavailable { .. } => "try again later",
            Self::NotBound | Self::Refused { .. } | Self::Browser(_) | Self::Store(_) | Self::Config { .. } => {
                return None;
            }
        };
        Some(hint.into())
    }
}

impl From<TokenStoreError> for AuthError {
    fn from(error: TokenStoreError) -> Self {
        Self::Store(error)
    }
}

impl From<BrowserError> for AuthError {
    fn from(error: BrowserError) -> Self {
        Self::Browser(error)
    }
}

/// Returns a server's text for an error: one safe line, cut to [`MAX_QUOTE_BYTES`].
pub(crate) fn quote(server_text: &str) -> String {
    text::for_line(&text::clip(server_text.trim(), MAX_QUOTE_BYTES)).into_owned()
}

/// Like [`quote`], but with `***` in place of each of `secrets`, because a server can repeat a secret that it got.
pub(crate) fn quote_without(server_text: &str, secrets: &[&str]) -> String {
    let mut server_text = server_text.to_owned();
    // Many texts contain a shorter secret by chance.
    for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
        server_text = server_text.replace(secret, "***");
    }
    quote(&server_text)
}

#[cfg(test)]
mod tests;
