//! Pages for people: rendered here, without scripts, in no frame of another page.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        X_FRAME_OPTIONS,
    },
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("page.css");

/// Everything but the addresses to which forms may lead. The style is allowed by its hash.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

/// Makes a page. `forms` are sources of the policy (CSP) to which its forms may lead beside this origin: a browser also
/// judges redirects behind a form by them.
pub(crate) fn page(status: StatusCode, title: &str, body: &Markup, forms: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – Toolrack" }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (body) } }
        }
    };
    let mut answer = (status, page.into_string()).into_response();
    let headers = answer.headers_mut();
    let fixed: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        // Not `no-referrer`, with which the `Origin` of a form of this page would be `null`.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = if forms.is_empty() { POLICY.clone() } else { format!("{} {forms}", *POLICY) };
    // Sources come from checked addresses; a policy that is none must not leave the page without one.
    let policy = HeaderValue::from_str(&policy)
        .unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    answer
}

/// A page that says in a few lines what is wrong and what to do.
pub(crate) fn notice(status: StatusCode, title: &str, lines: &[&str]) -> Response {
    let body = html! { @for line in lines { p { (line) } } };
    page(status, title, &body, "")
}

/// Sends a browser to `place`, with a GET.
pub(crate) fn see_other(place: &str) -> Response {
    let Ok(place) = HeaderValue::from_str(place) else {
        return notice(StatusCode::BAD_REQUEST, "No such page", &["The address to go on to cannot be written down."]);
    };
    let mut answer = StatusCode::SEE_OTHER.into_response();
    answer.headers_mut().insert(LOCATION, place);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}
