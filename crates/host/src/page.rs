//! Checks pages that a server, or an authorization server, asks a user to open in a browser.
//!
//! Every such page must pass this check first, wherever it is shown or opened afterwards.

use url::Url;

/// The reason why a page is not shown to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPage {
    /// The URL is a file, a script, a command, or of another scheme that is not a page.
    #[error("it is neither http nor https")]
    Scheme,
    /// The URL has no host.
    #[error("it names no host")]
    NoHost,
    /// The URL has a name or a password before its host, which a user could mistake for the host:
    /// `https://good.example@evil.example/` is a page of `evil.example`.
    #[error("the text before its @ is not its host, but could be mistaken for it")]
    Userinfo,
}

/// Checks `page` before a user is asked to open it.
///
/// # Errors
/// [`BadPage`], with the reason why it must not be shown.
pub fn judge(page: &Url) -> Result<(), BadPage> {
    if !matches!(page.scheme(), "http" | "https") {
        Err(BadPage::Scheme)
    } else if page.host_str().is_none_or(str::is_empty) {
        Err(BadPage::NoHost)
    } else if !page.username().is_empty() || page.password().is_some() {
        Err(BadPage::Userinfo)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_a_name_before_its_host_is_refused() {
        let judged = |page: &str| judge(&Url::parse(page).unwrap());
        for page in [
            "https://good.example@evil.example/",
            "https://good.example:443@evil.example/",
            "https://:x@evil.example/",
            "https://good.example%2F@evil.example/",
        ] {
            assert_eq!(judged(page), Err(BadPage::Userinfo), "{page}");
        }
        assert_eq!(judged("https://good.example\\@evil.example/"), Ok(()), "a browser goes to good.example, too");
        for page in ["file:///etc/passwd", "javascript:alert(1)", "data:,x", "mailto:a@b.example", "ssh://host/"] {
            assert_eq!(judged(page), Err(BadPage::Scheme), "{page}");
        }
        for page in ["https://good.example/?to=a@b.example", "https://good.example/@me", "http://127.0.0.1:80/"] {
            assert_eq!(judged(page), Ok(()), "{page}");
        }
    }
}
