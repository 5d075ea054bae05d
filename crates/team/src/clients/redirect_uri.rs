//! Checks redirect URIs: the addresses to which the browser takes the answer for a client (OAuth 2.1, 2.3; RFC 8252, 7
//! and 8).

use url::{Host, Url};

/// The maximum size of a redirect URI, in bytes.
const MAX_URI: usize = 1024;

/// Schemes of common programs. RFC 8252 (7.1) demands schemes that are reversed domain names. These programs use
/// others, which are accepted nevertheless.
const KNOWN_SCHEMES: &[&str] = &[
    "claude",
    "cursor",
    "code-oss",
    "goose",
    "raycast",
    "vscode",
    "vscode-insiders",
    "vscodium",
    "warp",
    "windsurf",
    "zed",
];

/// The place to which a redirect URI leads, as the consent page describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The web site with this host, and with its port if it is not the usual one.
    Site(String),
    /// A program on the user's own machine.
    ThisMachine,
    /// The program that has registered this scheme.
    Program(String),
}

/// Checks whether answers for a client may go to `uri`: https, http on this machine, or the scheme of a program.
///
/// # Errors
/// The reason why not.
pub(crate) fn check(uri: &str) -> Result<(), &'static str> {
    if uri.len() > MAX_URI {
        return Err("a redirect URI is longer than 1024 bytes");
    }
    // Only characters that headers and pages need not escape.
    if !uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
        return Err("a redirect URI has characters that must be percent-encoded");
    }
    let Ok(url) = uri.parse::<Url>() else { return Err("a redirect URI cannot be parsed") };
    if uri.contains('#') {
        return Err("a redirect URI has a fragment");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a redirect URI has a user name or a password");
    }
    match url.scheme() {
        // Without slashes, a browser reads the rest as a path of the server that sends it there.
        "https" | "http" if !uri.starts_with("https://") && !uri.starts_with("http://") => {
            Err("a redirect URI begins with neither https:// nor http://")
        }
        "https" if url.has_host() => Ok(()),
        "http" if is_local(&url) => Ok(()),
        "https" | "http" => Err("a redirect URI is neither https nor on the user's own machine"),
        scheme if scheme.contains('.') || KNOWN_SCHEMES.contains(&scheme) => Ok(()),
        _ => Err("a redirect URI has a scheme that is not a reversed domain name, as `com.example.app`"),
    }
}

/// Returns whether the host of `url` is the machine of the user itself.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address == std::net::Ipv4Addr::LOCALHOST,
        Some(Host::Ipv6(address)) => address == std::net::Ipv6Addr::LOCALHOST,
        None => false,
    }
}

/// Returns whether `requested` equals the registered redirect URI of a client, byte by byte. On the user's own machine
/// the port may differ, because the system assigns it (RFC 8252, 7.3).
pub(super) fn is_registered_as(registered: &str, requested: &str) -> bool {
    if registered == requested {
        return true;
    }
    let (Ok(mut registered_url), Ok(mut requested_url)) = (registered.parse::<Url>(), requested.parse::<Url>()) else {
        return false;
    };
    let are_local = registered_url.scheme() == "http"
        && requested_url.scheme() == "http"
        && is_local(&registered_url)
        && is_local(&requested_url);
    if !are_local || check(requested).is_err() {
        return false;
    }
    let ports_are_removed = registered_url.set_port(None).is_ok() && requested_url.set_port(None).is_ok();
    ports_are_removed && registered_url == requested_url
}

/// Returns the place to which a redirect URI leads.
pub(crate) fn target_of(uri: &str) -> Target {
    match uri.parse::<Url>() {
        Ok(url) if url.scheme() == "http" && is_local(&url) => Target::ThisMachine,
        Ok(url) if url.scheme() == "https" => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            Target::Site(url.host_str().unwrap_or_default().to_owned() + &port)
        }
        Ok(url) => Target::Program(url.scheme().to_owned()),
        // Cannot happen: `check` accepts only URLs.
        Err(_) => Target::Program(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_go_only_to_https_this_machine_and_programs() {
        for uri in [
            "https://claude.ai/api/mcp/auth_callback",
            "https://client.example:8443/back?a=b",
            "http://127.0.0.1:4000/callback",
            "http://localhost/callback",
            "http://[::1]:4000/",
            "com.example.app:/back",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
        ] {
            assert_eq!(check(uri), Ok(()), "{uri}");
        }
        for uri in [
            "",
            "/back",
            "http://client.example/back",
            "http://127.0.0.2/",
            "http://127.0.0.1.evil.example/",
            "http://localhost.evil.example/",
            "http://user@127.0.0.1/",
            "https://user:word@client.example/",
            "https://client.example/#x",
            "https://client.example/#",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vbscript:x",
            "about:blank",
            "blob:https://x.example/1",
            "app:/back",
            "https://client.example/a b",
            "https://client.example/\r\nSet-Cookie:x",
            "https://",
            "https:client.example/back",
            "https:/client.example/back",
            "http:127.0.0.1/back",
            "HTTPS:client.example/back",
            "https://client.example/\"><script>",
            "https://client.exämple/",
            &format!("https://client.example/{}", "a".repeat(1024)),
        ] {
            assert!(check(uri).is_err(), "{uri}");
        }
    }

    #[test]
    fn only_the_port_on_this_machine_may_differ() {
        assert!(is_registered_as("http://127.0.0.1/back", "http://127.0.0.1:4000/back"));
        assert!(is_registered_as("http://localhost:1/back?x=1", "http://localhost:2/back?x=1"));
        assert!(is_registered_as("http://[::1]/", "http://[::1]:9/"));
        for (registered, requested) in [
            ("https://client.example/back", "https://client.example:8443/back"),
            ("https://client.example/back", "https://client.example/back/"),
            ("https://client.example/back", "https://client.example/back?x=1"),
            ("https://client.example/back", "https://client.example/other/../back"),
            ("https://client.example/back", "https://CLIENT.example/back"),
            ("http://127.0.0.1/back", "http://localhost/back"),
            ("http://127.0.0.1/back", "http://127.0.0.1:4000/other"),
            ("http://127.0.0.1/back", "http://127.0.0.1:4000/back#x"),
            ("http://127.0.0.1/back", "http://evil.example@127.0.0.1:4000/back"),
            ("http://127.0.0.1/back", "http://127.0.0.1.evil.example/back"),
            ("com.example.app:/back", "com.example.app:/other"),
        ] {
            assert!(!is_registered_as(registered, requested), "{registered} {requested}");
        }
    }
}
