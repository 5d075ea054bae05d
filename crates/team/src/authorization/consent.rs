//! Makes the page that asks the user whether a client may act in their name. The form of the page has a seal: a code
//! (HMAC) that ties the form to the client's request and to one browser.

use axum::response::Response;
use chrono::Utc;
use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::StatusCode;
use maud::html;
use sha2::Sha256;

use super::request::ConsentRequest;
use crate::{
    clients::{Target, target_of},
    door::{BrowserSession, FrontDoor},
    endpoint::Endpoint,
    page::page,
    provider::Provider,
};

/// How long the user may take to answer a page, in seconds.
const ANSWER_TIME: i64 = 30 * 60;

/// The form of the page.
pub(super) struct Form<'a> {
    /// The query of the client's request.
    pub(super) query: &'a str,
    /// The time until which the form is valid, in seconds since 1970.
    pub(super) expires_at: i64,
}

impl<'a> Form<'a> {
    /// Returns a form that is valid for [`ANSWER_TIME`] from now on.
    pub(super) fn new(query: &'a str) -> Self {
        Self { query, expires_at: Utc::now().timestamp().saturating_add(ANSWER_TIME) }
    }

    /// Whether the form is still valid, and `seal` is its seal for this request and this browser.
    pub(super) fn is_sealed_by(&self, seal: &str, request: &ConsentRequest, session: &BrowserSession) -> bool {
        let Ok(seal) = HEXLOWER_PERMISSIVE.decode(seal.as_bytes()) else { return false };
        let is_in_time = self.expires_at >= Utc::now().timestamp();
        is_in_time && self.mac(request, session).is_some_and(|mac| mac.verify_slice(&seal).is_ok())
    }

    /// Returns the seal of the form, as the page contains it.
    fn seal(&self, request: &ConsentRequest, session: &BrowserSession) -> String {
        let mac = self.mac(request, session).map(|mac| mac.finalize().into_bytes());
        // There is always a MAC, because HMAC accepts keys of every length.
        mac.map(|mac| HEXLOWER_PERMISSIVE.encode(&mac)).unwrap_or_default()
    }

    /// Computes the seal over the client's request and the time limit. The length of each part comes before the part,
    /// so that no byte can move from one part to the next. The key is the secret in the cookie of the browser in which
    /// the user is signed in; pages of other sites cannot read it.
    fn mac(&self, request: &ConsentRequest, session: &BrowserSession) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(session.cookie.as_bytes()).ok()?;
        let client = &request.reply_target.client;
        let expires_at = self.expires_at.to_string();
        // "consent" keeps this seal apart from any other use of the key.
        for part in [
            "consent",
            &expires_at,
            self.query,
            &client.id,
            &client.name,
            &request.reply_target.redirect_uri,
            &request.scope,
        ] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        Some(mac)
    }
}

/// Returns the page that asks the user whether the client may act in their name.
pub(super) fn consent_page(
    door: &FrontDoor,
    request: &ConsentRequest,
    session: &BrowserSession,
    form: &Form<'_>,
) -> Response {
    let client = &request.reply_target.client;
    let (destination, warning) = describe_destination(&request.reply_target.redirect_uri);
    let body = html! {
        p { "A client that calls itself " strong { "“" (client.name) "”" } " wants to use the tools of this team in your name." }
        dl {
            dt { "You are" } dd { (session.member.name()) }
            dt { "Tenant" } dd { (session.member.tenant()) }
            // The issuer is the address of the team.
            dt { "Team" } dd { (door.issuer()) }
            dt { "Answer goes to" } dd { (destination) }
            @if let Some(host) = client.document_host() { dt { "Described by" } dd { (host) } }
            dt { "It may" } dd { (describe_permission(door, request)) " (" (request.scope) "), until you end this" }
        }
        p { (warning) " The client chose its name itself. Allow this only if you began it just now." }
        form method="post" action="/oauth/authorize" {
            input type="hidden" name="request" value=(form.query);
            input type="hidden" name="ends" value=(form.expires_at);
            input type="hidden" name="seal" value=(form.seal(request, session));
            div.buttons {
                button.main type="submit" name="answer" value="allow" { "Allow" }
                button type="submit" name="answer" value="deny" { "Deny" }
            }
        }
        form method="post" action="/sign-out" {
            input type="hidden" name="to" value=(format!("/oauth/authorize?{}", form.query));
            p.small { "Not " (session.member.name()) "? " button.plain type="submit" { "Sign in as another user" } }
        }
    };
    page(StatusCode::OK, "Allow this client?", &body, &form_sources(door, &request.reply_target.redirect_uri))
}

/// Describes the tools that the client may call.
fn describe_permission(door: &FrontDoor, request: &ConsentRequest) -> String {
    match door.endpoint_of(&request.resource).and_then(Endpoint::profile) {
        Some(profile) => format!("call the tools of the profile “{profile}” that you may call"),
        None => "call every tool that you may call".to_owned(),
    }
}

/// Describes where the answer goes, with a warning about that destination.
fn describe_destination(redirect_uri: &str) -> (String, &'static str) {
    match target_of(redirect_uri) {
        Target::Site(host) => (host, "You are sent to that web site, which can then use your tools."),
        Target::ThisMachine => {
            let host = local_host(redirect_uri);
            (format!("a program on your own machine ({host})"), "A program on your machine waits for the answer.")
        }
        Target::Program(scheme) => {
            (format!("the program that opens addresses with {scheme}:"), "A program on your machine gets the answer.")
        }
    }
}

/// Returns the host and port of an address on the user's own machine.
fn local_host(redirect_uri: &str) -> &str {
    // The parts are `http:`, an empty one, and the host.
    let host = redirect_uri.split('/').nth(2).unwrap_or_default();
    // A `;` or `,` would end the source in a Content-Security-Policy.
    host.split(['?', '#', ';', ',']).next().unwrap_or_default()
}

/// Returns the sources of the directive `form-action` (CSP). Browsers also apply it to the redirects after the form.
/// Such a redirect leads to the client or to the provider. The client may send the browser on to any https site. At the
/// provider, another user can sign in.
fn form_sources(door: &FrontDoor, redirect_uri: &str) -> String {
    let client = match target_of(redirect_uri) {
        // `https:` is allowed below.
        Target::Site(_) => String::new(),
        // Sources cannot name IPv6 addresses (CSP 3, 2.3.1).
        Target::ThisMachine if redirect_uri.contains('[') => " http:".to_owned(),
        Target::ThisMachine => format!(" http://{}", local_host(redirect_uri)),
        Target::Program(scheme) => format!(" {scheme}:"),
    };
    let issuer = door.provider.as_ref().map(Provider::issuer).filter(|issuer| issuer.scheme() == "http");
    let provider = issuer.map(|issuer| format!(" {}", issuer.origin().ascii_serialization()));
    format!("https:{client}{}", provider.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolrack_host::{Principal, principal::Kind};
    use toolrack_store::RegisteredClient;

    use super::{super::request::ReplyTarget, *};

    fn consent_request(name: &str, redirect_uri: &str) -> ConsentRequest {
        let (id, redirect_uris) = ("trc_1".to_owned(), vec![redirect_uri.to_owned()]);
        let client = RegisteredClient { id, name: name.to_owned(), redirect_uris };
        ConsentRequest {
            reply_target: ReplyTarget {
                client: Arc::new(client.into()),
                redirect_uri: redirect_uri.to_owned(),
                state: None,
            },
            scope: "mcp".to_owned(),
            challenge: String::new(),
            resource: "https://tools.example/mcp".to_owned(),
        }
    }

    fn ann(cookie: &str) -> BrowserSession {
        let member = Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
        BrowserSession { cookie: cookie.to_owned().into(), member }
    }

    #[test]
    fn a_seal_is_for_one_page_one_client_and_one_browser_until_it_ends() {
        let (request, session) = (consent_request("A client", "https://client.example/back"), ann("cookie"));
        let form = Form::new("client_id=trc_1");
        let seal = form.seal(&request, &session);
        assert!(form.is_sealed_by(&seal, &request, &session));
        assert!(form.is_sealed_by(&seal.to_uppercase(), &request, &session), "hexadecimal digits have no case");
        assert!(!form.is_sealed_by(&seal, &request, &ann("another cookie")));
        assert!(!form.is_sealed_by(&seal, &consent_request("Renamed", "https://client.example/back"), &session));
        assert!(!form.is_sealed_by(&seal, &consent_request("A client", "https://evil.example/back"), &session));
        assert!(!Form { query: "client_id=trc_2", ..form }.is_sealed_by(&seal, &request, &session));
        for other in ["", "0", &seal[2..], &format!("{seal}00"), "é"] {
            assert!(!form.is_sealed_by(other, &request, &session), "{other}");
        }

        let old = Form { query: "client_id=trc_1", expires_at: Utc::now().timestamp() - 1 };
        let seal = old.seal(&request, &session);
        assert!(!old.is_sealed_by(&seal, &request, &session), "the form has expired");
    }

    #[test]
    fn a_byte_that_moves_from_one_part_of_a_page_to_the_next_breaks_the_seal() {
        let (request, session) = (consent_request("A client", "https://client.example/back"), ann("cookie"));
        let mut moved = consent_request("A client", "https://client.example/back");
        moved.scope = "cp".to_owned();
        let shorter = moved.reply_target.redirect_uri.clone() + "m";
        moved.reply_target.redirect_uri = shorter;
        let form = Form::new("x");
        assert!(!form.is_sealed_by(&form.seal(&request, &session), &moved, &session));
    }

    #[test]
    fn the_page_describes_the_destination_of_the_answer() {
        for (uri, place, warning) in [
            ("https://client.example/back", "client.example", "that web site"),
            ("https://client.example:8443/back", "client.example:8443", "that web site"),
            ("http://127.0.0.1:4000/back", "a program on your own machine (127.0.0.1:4000)", "waits for the answer"),
            ("http://[::1]:4000/back", "a program on your own machine ([::1]:4000)", "waits for the answer"),
            ("http://localhost?code=1", "a program on your own machine (localhost)", "waits for the answer"),
            ("cursor://x/back", "the program that opens addresses with cursor:", "gets the answer"),
        ] {
            let (shown, why) = describe_destination(uri);
            assert_eq!(shown, place);
            assert!(why.contains(warning), "{uri}: {why}");
        }
    }
}
