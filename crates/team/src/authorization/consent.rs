//! The page that asks a person, and the seal that ties its form to what it showed and to the browser that it was shown in.

use axum::response::Response;
use chrono::Utc;
use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::StatusCode;
use maud::html;
use sha2::Sha256;

use super::request::ConsentRequest;
use crate::{
    clients::{Target, target},
    door::{FrontDoor, SignedIn},
    endpoint::Endpoint,
    page::page,
    provider::Provider,
};

/// How long a page can be answered, in seconds.
const ANSWER_TIME: i64 = 30 * 60;

/// A form of the page.
pub(super) struct Form<'a> {
    /// The query with which the client asked.
    pub(super) query: &'a str,
    /// Until when it counts, in seconds since 1970.
    pub(super) ends: i64,
}

impl<'a> Form<'a> {
    pub(super) fn now(query: &'a str) -> Self {
        Self { query, ends: Utc::now().timestamp().saturating_add(ANSWER_TIME) }
    }

    /// Whether it still counts, and `seal` is that of this form for this client, in this browser.
    pub(super) fn is_sealed_by(&self, seal: &str, asked: &ConsentRequest, person: &SignedIn) -> bool {
        let Ok(seal) = HEXLOWER_PERMISSIVE.decode(seal.as_bytes()) else { return false };
        let in_time = self.ends >= Utc::now().timestamp();
        in_time && self.mac(asked, person).is_some_and(|mac| mac.verify_slice(&seal).is_ok())
    }

    fn seal(&self, asked: &ConsentRequest, person: &SignedIn) -> String {
        let mac = self.mac(asked, person).map(|mac| mac.finalize().into_bytes());
        mac.map(|mac| HEXLOWER_PERMISSIVE.encode(&mac)).unwrap_or_default()
    }

    /// The key is the secret in the browser's cookie, which no other page can read. All that the page shows is sealed.
    fn mac(&self, asked: &ConsentRequest, person: &SignedIn) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(person.cookie.as_bytes()).ok()?;
        let client = &asked.to.client;
        let ends = self.ends.to_string();
        for part in ["consent", &ends, self.query, &client.id, &client.name, &asked.to.redirect_uri, &asked.scope] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        Some(mac)
    }
}

/// The page that asks whether the client may act in the name of the person.
pub(super) fn ask(door: &FrontDoor, asked: &ConsentRequest, person: &SignedIn, form: &Form<'_>) -> Response {
    let client = &asked.to.client;
    let (answer_to, warning) = destination(&asked.to.redirect_uri);
    let body = html! {
        p { "A client that calls itself " strong { "“" (client.name) "”" } " wants to use the tools of this team in your name." }
        dl {
            dt { "You are" } dd { (person.member.name()) }
            dt { "Tenant" } dd { (person.member.tenant()) }
            dt { "Team" } dd { (door.issuer()) }
            dt { "Answer goes to" } dd { (answer_to) }
            @if let Some(host) = client.published_by() { dt { "Described by" } dd { (host) } }
            dt { "It may" } dd { (tools(door, asked)) ", until you end this (" (asked.scope) ")" }
        }
        p { (warning) " The client chose its name itself. Allow this only if you began it just now." }
        form method="post" action="/oauth/authorize" {
            input type="hidden" name="request" value=(form.query);
            input type="hidden" name="ends" value=(form.ends);
            input type="hidden" name="seal" value=(form.seal(asked, person));
            div.buttons {
                button.main type="submit" name="answer" value="allow" { "Allow" }
                button type="submit" name="answer" value="deny" { "Deny" }
            }
        }
        form method="post" action="/sign-out" {
            input type="hidden" name="to" value=(format!("/oauth/authorize?{}", form.query));
            p.small { "Not " (person.member.name()) "? " button.plain type="submit" { "Sign in as another person" } }
        }
    };
    page(StatusCode::OK, "Allow this client?", &body, &forms(door, &asked.to.redirect_uri))
}

/// The tools that the client may call, for people.
fn tools(door: &FrontDoor, asked: &ConsentRequest) -> String {
    match door.endpoint_of(&asked.resource).and_then(Endpoint::profile) {
        Some(profile) => format!("call the tools of the profile “{profile}” that you may call"),
        None => "call every tool that you may call".to_owned(),
    }
}

/// Where the answer goes, for people, and what that means.
fn destination(redirect_uri: &str) -> (String, &'static str) {
    match target(redirect_uri) {
        Target::Site(host) => (host, "You are sent to that web site, which can then use your tools."),
        Target::ThisMachine => {
            let host = redirect_uri.split('/').nth(2).unwrap_or_default();
            (format!("a program on your own machine ({host})"), "A program on your machine waits for the answer.")
        }
        Target::Program(scheme) => {
            (format!("the program that opens addresses with {scheme}:"), "A program on your machine gets the answer.")
        }
    }
}

/// Where the forms may lead, redirects behind them included: to the client, to the site to which the client's own leads
/// on, and to the provider, at which another person signs in.
fn forms(door: &FrontDoor, redirect_uri: &str) -> String {
    let client = match target(redirect_uri) {
        Target::Site(_) => String::new(),
        // Sources cannot name IPv6 addresses (CSP 3, 2.3.1).
        Target::ThisMachine if redirect_uri.contains('[') => " http:".to_owned(),
        Target::ThisMachine => {
            let host = redirect_uri.split('/').nth(2).unwrap_or_default();
            let host = host.split(['?', '#', ';', ',']).next().unwrap_or_default();
            format!(" http://{host}")
        }
        Target::Program(scheme) => format!(" {scheme}:"),
    };
    let issuer = door.provider.as_ref().map(Provider::issuer).filter(|issuer| issuer.scheme() == "http");
    let provider = issuer.map(|issuer| format!(" {}", issuer.origin().ascii_serialization()));
    format!("https:{client}{}", provider.unwrap_or_default())
}
