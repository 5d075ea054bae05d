//! Makes the pages for users. They have no scripts, and no other page can frame them.

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

/// The Content-Security-Policy of a page whose forms lead only to this origin. The policy allows the style by its hash.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

/// Makes a page. `form_sources` are the sources (CSP) to which its forms may lead in addition to this origin. A browser
/// also checks the redirects after a form against them.
pub(crate) fn page(status: StatusCode, title: &str, body: &Markup, form_sources: &str) -> Response {
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
    let mut response = (status, page.into_string()).into_response();
    let headers = response.headers_mut();
    let fixed_headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        // With `no-referrer`, a browser would send `null` as the `Origin` of this page's forms.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed_headers {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The policy ends with `form-action`, to which further sources can be added.
    let policy = if form_sources.is_empty() { POLICY.clone() } else { format!("{} {form_sources}", *POLICY) };
    // `form_sources` comes from checked addresses. If the policy is invalid nevertheless, the page gets a stricter one.
    let policy = HeaderValue::from_str(&policy)
        .unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}

/// A short page that describes an error and the next step.
pub(crate) fn notice(status: StatusCode, title: &str, lines: &[&str]) -> Response {
    let body = html! { @for line in lines { p { (line) } } };
    let no_form_sources = "";
    page(status, title, &body, no_form_sources)
}

/// Redirects a browser to `address`, with a GET.
pub(crate) fn see_other(address: &str) -> Response {
    let Ok(address) = HeaderValue::from_str(address) else {
        return notice(StatusCode::BAD_REQUEST, "No such page", &["The next address cannot be written."]);
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, address);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn body(answer: Response) -> String {
        String::from_utf8(to_bytes(answer.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    fn header(answer: &Response, name: HeaderName) -> &str {
        answer.headers()[name].to_str().unwrap()
    }

    #[tokio::test]
    async fn a_notice_shows_foreign_text_as_text() {
        let answer = notice(StatusCode::FORBIDDEN, "<b>Title</b>", &["<script>alert(1)</script>", "a & b"]);
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let page = body(answer).await;
        assert!(page.contains("<title>&lt;b&gt;Title&lt;/b&gt; – Toolrack</title>"), "{page}");
        assert!(page.contains("<p>&lt;script&gt;alert(1)&lt;/script&gt;</p><p>a &amp; b</p>"), "{page}");
    }

    #[tokio::test]
    async fn the_style_of_a_page_is_the_one_that_its_policy_allows() {
        let answer = notice(StatusCode::OK, "Title", &[]);
        let policy = header(&answer, CONTENT_SECURITY_POLICY).to_owned();
        let page = body(answer).await;
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        assert!(policy.contains(&format!("'sha256-{}'", STANDARD.encode(Sha256::digest(style)))), "{policy}");
    }

    #[test]
    fn forms_lead_only_where_the_page_says_and_a_policy_that_cannot_be_sent_allows_nothing() {
        let policy = |forms: &str| {
            let answer = page(StatusCode::OK, "Title", &html! {}, forms);
            header(&answer, CONTENT_SECURITY_POLICY).to_owned()
        };
        assert!(policy("").ends_with("form-action 'self'"));
        assert!(policy("https: com.example.app:").ends_with("form-action 'self' https: com.example.app:"));
        assert_eq!(policy("https:\r\nSet-Cookie: x"), "default-src 'none'; frame-ancestors 'none'");
    }

    #[test]
    fn a_redirect_tells_the_next_page_nothing_and_cannot_add_a_header() {
        let answer = see_other("/servers?a=b");
        assert_eq!((answer.status(), header(&answer, LOCATION)), (StatusCode::SEE_OTHER, "/servers?a=b"));
        assert_eq!((header(&answer, REFERRER_POLICY), header(&answer, CACHE_CONTROL)), ("no-referrer", "no-store"));
        let refused = see_other("/\r\nSet-Cookie: x");
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert!(refused.headers().get(LOCATION).is_none());
    }
}
