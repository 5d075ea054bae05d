//! Checks the servers that members of a team add for themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolrack_host::{
    ServerSpec,
    egress::Egress,
    spec::{AddedBy, Http, PinMode, Share, Source, Transport},
};
use url::Url;

use crate::{
    interpolate::is_stored_secret_name,
    load::Scope,
    placeholder::{self, BareName, Piece},
};

/// The maximum number of bytes of an address.
const MAX_URL: usize = 2_000;
/// The maximum number of headers.
const MAX_HEADERS: usize = 16;
/// The maximum number of bytes in the name of a header. An error shows as many bytes of a longer name.
const MAX_NAME: usize = 64;
/// The maximum number of bytes in the value of a header.
const MAX_VALUE: usize = 8 * 1024;

/// A server that a member of a team adds for themselves: an address, and headers. It starts no program and reads no
/// file. Its only placeholders are values that the member gives, because a member must not get other values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnServer {
    /// The address of the MCP endpoint of the server, with `https`. `http` is read as well, but a connection refuses it
    /// unless the operator's rules for connections allow the host.
    pub url: String,
    /// Headers of its requests. `${user:NAME}` in a value stands for the value that the member gives as `NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Why a member cannot add a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadOwnServer {
    /// The address is not allowed.
    #[error("`url` must be an address with http or https, a host, no user and no fragment, of at most {MAX_URL} bytes")]
    Url,
    /// There are too many headers.
    #[error("a server can have at most {MAX_HEADERS} headers")]
    Headers,
    /// The name of a header is invalid.
    #[error("`{name}` is not the name of a header (RFC 9110, 5.1)")]
    Header {
        /// The name of the header, safe to print.
        name: String,
    },
    /// The value of a header is not allowed.
    #[error(
        "the value of `{name}` can have at most {MAX_VALUE} bytes of visible text, and no placeholder but `${{user:NAME}}`; \
         write `$$` for a `$`"
    )]
    Value {
        /// The name of the header, safe to print.
        name: String,
    },
}

impl OwnServer {
    /// Checks the entry, and returns the server for the member whose [key](toolrack_host::Principal::key) is `member`.
    /// `egress` confines its connections. `url` may name any host: each connection checks whether the host may be
    /// reached.
    ///
    /// # Errors
    /// [`BadOwnServer`] says which part of the entry is not allowed.
    pub fn spec(&self, member: &str, egress: &Egress) -> Result<ServerSpec, BadOwnServer> {
        let is_allowed = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
        };
        let url = Url::parse(&self.url).ok().filter(|url| self.url.len() <= MAX_URL && is_allowed(url));
        let url = url.ok_or(BadOwnServer::Url)?;
        if self.headers.len() > MAX_HEADERS {
            return Err(BadOwnServer::Headers);
        }
        self.headers.iter().try_for_each(|(name, value)| check_header(name, value))?;
        let http = Http {
            // The escape keeps a part of the address from being read as a placeholder.
            url: url.as_str().replace('$', "$$"),
            headers: self.headers.clone(),
            added_by: Some(AddedBy { member: member.to_owned(), egress: egress.clone() }),
            ..Http::default()
        };
        let source = Source { scope: Scope::Member.as_str().to_owned(), path: None };
        // Pin nothing: only an operator could approve a changed tool, and no operator has approved the server either.
        let (share, pins) = (Some(Share::User), Some(PinMode::Off));
        Ok(ServerSpec { share, pins, source, ..ServerSpec::new(Transport::Http(http)) })
    }
}

/// Checks the name and the value of one header.
fn check_header(name: &str, value: &str) -> Result<(), BadOwnServer> {
    let shown_name = || toolrack_host::text::for_line(&toolrack_host::text::clip(name, MAX_NAME)).into_owned();
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_token) {
        return Err(BadOwnServer::Header { name: shown_name() });
    }
    let is_visible = value.len() <= MAX_VALUE && value.chars().all(|c| !c.is_control());
    // In headers, a bare `$NAME` is a variable of the environment.
    let pieces = placeholder::pieces(value, BareName::Placeholder).ok().filter(|_| is_visible);
    let is_allowed = |piece: &Piece<'_>| match piece {
        // A literal text that looks like a placeholder is a mistake of the member.
        Piece::Literal(text) => !text.contains("${"),
        Piece::UserValue(name) => is_stored_secret_name(name),
        _ => false,
    };
    match pieces {
        Some(pieces) if pieces.iter().all(is_allowed) => Ok(()),
        _ => Err(BadOwnServer::Value { name: shown_name() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str, headers: &[(&str, &str)]) -> OwnServer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        OwnServer { url: url.to_owned(), headers: headers.collect() }
    }

    fn spec(url: &str, headers: &[(&str, &str)]) -> Result<ServerSpec, BadOwnServer> {
        server(url, headers).spec("a-member", &Egress::default())
    }

    #[test]
    fn a_member_adds_an_address_with_their_own_values() {
        let made = spec("https://mcp.example/a?b=c", &[("Authorization", "Bearer ${user:TOKEN}"), ("X-Price", "$$5")]);
        let made = made.unwrap();
        assert_eq!(made.share, Some(Share::User));
        let Transport::Http(http) = &made.transport else { panic!("it is not an address") };
        assert_eq!((&*http.url, http.headers.len()), ("https://mcp.example/a?b=c", 2));
        assert_eq!(http.added_by.as_ref().map(|added_by| &*added_by.member), Some("a-member"));
        let other =
            server("https://mcp.example/a?b=c", &[("Authorization", "Bearer ${user:TOKEN}"), ("X-Price", "$$5")]);
        let other = other.spec("another", &Egress::default()).unwrap();
        assert_ne!(other.fingerprint(), made.fingerprint(), "each member's server has its own stored state");
        assert_eq!(crate::user_values_in(&made).into_iter().collect::<Vec<_>>(), ["TOKEN"]);
    }

    #[test]
    fn a_member_names_no_secret_no_variable_and_no_file() {
        for value in [
            "${secret:TENANT_TOKEN}",
            "Bearer ${HOME}",
            "${env:HOME}",
            "$HOME",
            "${input:token}",
            "${user:A:-${secret:B}}",
            "${user:TOKEN",
            "${HOME:-x}",
            "a\r\nb: c",
            "\u{7f}",
        ] {
            assert!(matches!(spec("https://a.example", &[("X", value)]), Err(BadOwnServer::Value { .. })), "{value}");
        }
        for name in ["", "a b", "a:b", "a\nb", "ä"] {
            assert!(matches!(spec("https://a.example", &[(name, "x")]), Err(BadOwnServer::Header { .. })), "{name}");
        }
    }

    #[test]
    fn an_address_has_no_placeholder_and_no_password() {
        for url in [
            "",
            "a.example",
            "file:///etc/passwd",
            "https://u:p@a.example",
            "https://u@a.example",
            "https://a/#b",
            "ws://a",
        ] {
            assert_eq!(spec(url, &[]), Err(BadOwnServer::Url), "{url}");
        }
        let made = spec("https://a.example/${secret:X}/$HOME", &[]).unwrap();
        assert!(crate::secrets_in(&made).is_empty());
        let many: Vec<_> = (0..=MAX_HEADERS).map(|number| format!("X-{number}")).collect();
        let many: Vec<_> = many.iter().map(|name| (&**name, "x")).collect();
        assert_eq!(spec("https://a.example", &many), Err(BadOwnServer::Headers));
    }
}
