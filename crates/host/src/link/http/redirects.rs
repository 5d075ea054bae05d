//! Decides which redirects are followed, and describes the refused ones in errors.

use reqwest::redirect::{Action, Attempt};
use url::Url;

use crate::{egress::place, link::error::LinkError};

/// The most redirects to follow, all within one origin.
const MAX_REDIRECTS: usize = 10;

/// Follows 307 and 308 within one origin. Any other redirect would lose the method, or leak headers.
pub(super) fn follow(attempt: Attempt<'_>) -> Action {
    let same_origin = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    let follows = keeps_method(attempt.status().as_u16()) && same_origin && attempt.previous().len() <= MAX_REDIRECTS;
    if follows { attempt.follow() } else { attempt.stop() }
}

fn keeps_method(status: u16) -> bool {
    matches!(status, 307 | 308)
}

/// Returns the error for a redirect that was not followed. `configured` is the URL in the server's configuration.
pub(super) fn refused_error(status: u16, target: Option<&Url>, configured: &Url) -> LinkError {
    const PUT_IF_TRUSTED: &str = "if you trust that place, put its url into";
    let (why, next) = match target {
        None => ("its `Location` names no url", "check the url in"),
        Some(target) if target.origin() != configured.origin() => {
            ("the headers of the entry may not reach another origin than that of its url", PUT_IF_TRUSTED)
        }
        Some(_) if !keeps_method(status) => (
            "a redirect other than 307 and 308 loses the method and the body",
            "put the url to which it redirects into",
        ),
        Some(_) => ("there were more than 10 in a row", "the fault is in the server, or in the url in"),
    };
    LinkError::Redirect { status, to: target.map_or_else(|| "nowhere".into(), place), why, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_redirect_has_its_own_reason() {
        let own = Url::parse("https://a.example/mcp").unwrap();
        for (status, to, words) in [
            (
                302,
                Some("https://a.example/other?key=secret"),
                "(HTTP 302) to https://a.example, which is not followed: a redirect other than",
            ),
            (
                307,
                Some("https://a.example/mcp"),
                "(HTTP 307) to https://a.example, which is not followed: there were more than 10 in a row",
            ),
            (
                308,
                Some("https://b.example/secret"),
                "(HTTP 308) to https://b.example, which is not followed: the headers of",
            ),
            // Compare the reason without the status, which may differ.
            (301, Some("http://a.example/mcp"), "to http://a.example, which is not followed: the headers of"),
            (
                301,
                Some("file:///etc/passwd"),
                "to an address of the scheme `file`, which is not followed: the headers of",
            ),
            (307, None, "to nowhere, which is not followed: its `Location` names no url"),
        ] {
            let error = refused_error(status, to.map(|to| Url::parse(to).unwrap()).as_ref(), &own).to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{status} {to:?}: {error}");
        }
        // The limit in the text is that of the code.
        let looped = refused_error(307, Some(&own), &own).to_string();
        assert!(looped.contains(&format!("more than {MAX_REDIRECTS} in a row")), "{looped}");
    }
}
