//! Reads and writes the cookies of browsers, and checks the origins of forms and the addresses to which a page may
//! lead.

use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, ORIGIN},
};
use url::Url;

/// The maximum size of the address to which the front door sends a browser after its sign-in, in bytes.
pub(crate) const MAX_RETURN_PATH: usize = 4 * 1024;

/// The cookies of one origin.
#[derive(Clone, Debug)]
pub(crate) struct Cookies {
    /// Whether the origin has TLS. Only a team on this machine may have no TLS; browsers then accept no cookie with the
    /// prefix `__Host-`.
    has_tls: bool,
}

impl Cookies {
    pub(crate) fn for_team(url: &Url) -> Self {
        Self { has_tls: url.scheme() == "https" }
    }

    /// The name of the cookie with the session of a browser.
    pub(crate) fn session_name(&self) -> &'static str {
        if self.has_tls { "__Host-toolrack" } else { "toolrack" }
    }

    /// The name of the cookie that ties a sign-in to the browser in which it began.
    pub(crate) fn sign_in_name(&self) -> &'static str {
        if self.has_tls { "__Host-toolrack-sign-in" } else { "toolrack-sign-in" }
    }

    /// Returns the header that sets the cookie `name` for this many seconds; 0 removes the cookie. Scripts cannot read
    /// it, and requests from other sites carry it only when the user follows a link.
    pub(crate) fn set_cookie_header(&self, name: &str, value: &str, seconds: i64) -> Option<HeaderValue> {
        let secure = if self.has_tls { "; Secure" } else { "" };
        let header = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::from_str(&header).ok()
    }
}

/// The value of the cookie `name`. If a request has two different values, another site has set one, so both are
/// ignored.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let header_values = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let pairs = header_values.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    let first_value = values.next()?;
    values.all(|other_value| other_value == first_value).then_some(first_value)
}

/// Returns whether a form comes from a page of the origin of `url`, according to the browser (`Origin`,
/// `Sec-Fetch-Site`). A request without these headers passes: it comes from a program that is not a browser, and such a
/// program has no cookies of a user.
pub(crate) fn is_from_origin(headers: &HeaderMap, url: &Url) -> bool {
    let is_absent_or = |name: &str, expected: &str| headers.get(name).is_none_or(|value| value == expected);
    is_absent_or(ORIGIN.as_str(), &url.origin().ascii_serialization()) && is_absent_or("sec-fetch-site", "same-origin")
}

/// Returns the path and query of `requested_path`, the address to which a browser goes after its sign-in. Returns
/// `None` if the address has another origin than `url`, or leads to the sign-in itself.
pub(crate) fn return_path(url: &Url, requested_path: &str) -> Option<String> {
    // Browsers read a backslash as a slash, and the text after two slashes as a host.
    let is_plain_text = requested_path.len() <= MAX_RETURN_PATH
        && requested_path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if !is_plain_text || !requested_path.starts_with('/') || requested_path.starts_with("//") {
        return None;
    }
    let target = url.join(requested_path).ok().filter(|target| target.origin() == url.origin())?;
    if target.path().starts_with("//") || target.path().starts_with("/sign-") {
        return None;
    }
    Some(target[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> Url {
        "https://tools.example".parse().unwrap()
    }

    #[test]
    fn a_browser_is_sent_only_to_this_origin() {
        for (to, way) in [
            ("/", "/"),
            ("/a/b?c=d", "/a/b?c=d"),
            ("/a/../b", "/b"),
            ("/?to=https://evil.example", "/?to=https://evil.example"),
        ] {
            assert_eq!(return_path(&url(), to).as_deref(), Some(way), "{to}");
        }
        for to in [
            "",
            "a",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/a\\b",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/\n/evil.example",
            " /a",
            "/a b",
            "/.//evil.example",
            "/..//evil.example",
            "/sign-in?to=/",
            "/x/../sign-out",
            &format!("/{}", "a".repeat(MAX_RETURN_PATH)),
        ] {
            assert_eq!(return_path(&url(), to), None, "{to:?}");
        }
    }

    #[test]
    fn cookies_are_bound_to_the_host_where_there_is_tls() {
        let cookies = Cookies::for_team(&url());
        let cookie = cookies.set_cookie_header(cookies.session_name(), "x", 9).unwrap();
        assert_eq!(cookie, "__Host-toolrack=x; Path=/; Max-Age=9; HttpOnly; SameSite=Lax; Secure");
        let local = Cookies::for_team(&"http://127.0.0.1:4000".parse().unwrap());
        assert_eq!(
            local.set_cookie_header(local.session_name(), "x", 9).unwrap(),
            "toolrack=x; Path=/; Max-Age=9; HttpOnly; SameSite=Lax"
        );
    }

    #[test]
    fn two_different_cookies_of_one_name_are_none() {
        let read = |line: &str| {
            let headers = HeaderMap::from_iter([(COOKIE, line.parse().unwrap())]);
            cookie(&headers, "toolrack").map(ToOwned::to_owned)
        };
        assert_eq!(read("a=b; toolrack=x;c=d").as_deref(), Some("x"));
        assert_eq!(read("toolrack=x; toolrack=x").as_deref(), Some("x"));
        assert_eq!(read("toolrack=x; toolrack=y"), None);
        assert_eq!(read("xtoolrack=x"), None);
    }

    #[test]
    fn a_form_of_another_page_is_not_from_here() {
        let from = |name: &'static str, value: &str| {
            is_from_origin(&HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]), &url())
        };
        assert!(from("origin", "https://tools.example") && from("sec-fetch-site", "same-origin"));
        for origin in
            ["null", "http://tools.example", "https://tools.example:8443", "https://tools.example.evil.example"]
        {
            assert!(!from("origin", origin), "{origin}");
        }
        assert!(!from("sec-fetch-site", "cross-site") && !from("sec-fetch-site", "same-site"));
    }
}
