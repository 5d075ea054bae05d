//! Signs people in with a browser, at the team's OpenID Connect provider. Each sign-in has a code with PKCE, a nonce,
//! and a state that ties it to the browser in which it began.

mod attempts;

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use chrono::{TimeDelta, Utc};
use http::{
    HeaderMap, StatusCode,
    header::{SET_COOKIE, USER_AGENT},
};
use toolrack_host::{Principal, principal::Kind, text};
use toolrack_store::{MemberIdentity, NewToken, Purpose, StoreError, TokenFilter, TokenHash, audit::DoorRefusal};
use url::form_urlencoded;

use self::attempts::{Browser, ReturnedAttempt};
use crate::{
    browser::{cookie, is_from_origin, return_path},
    door::{FrontDoor, caller_of},
    fetch::Unreachable,
    members::NotAMember,
    page::{notice, see_other},
    parameters::Parameters,
    provider::{NotSignedIn, Provider},
    random::NoRandom,
    tokens::{Secret, looks_like_token},
};

/// How long the session of a browser is valid.
const SESSION_TIME: TimeDelta = TimeDelta::hours(12);
/// How long a person may take at the provider.
const SIGN_IN_TIME: TimeDelta = TimeDelta::minutes(10);
/// How many sessions in browsers one person may have. Beyond this number, a new session replaces the oldest.
const MAX_SESSIONS: usize = 50;
/// The maximum size of a browser's name, in bytes. The name is the label of the session; a longer one is cut.
const MAX_LABEL_BYTES: usize = 120;

/// Why a person is not signed in.
enum SignInFailure {
    /// The team has no provider.
    NoProvider,
    /// The input was refused: a stable code, and the reason.
    Refused(&'static str, String),
    /// The provider is down, or does not follow the protocol.
    ProviderUnusable(Unreachable),
    /// The person belongs to no tenant, or to several. The text names the person.
    NotAMember(NotAMember, String),
    /// The daemon itself failed, for this reason.
    Internal(String),
}

impl From<Unreachable> for SignInFailure {
    fn from(error: Unreachable) -> Self {
        Self::ProviderUnusable(error)
    }
}

impl From<NotSignedIn> for SignInFailure {
    fn from(error: NotSignedIn) -> Self {
        match error {
            NotSignedIn::ProviderUnusable(error) => Self::ProviderUnusable(error),
            NotSignedIn::Refused(why) => Self::Refused("sign_in_refused", why),
        }
    }
}

impl From<StoreError> for SignInFailure {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the front door of the team cannot use the database");
        Self::Internal("the server cannot use its database".to_owned())
    }
}

impl From<NoRandom> for SignInFailure {
    fn from(error: NoRandom) -> Self {
        Self::Internal(error.to_string())
    }
}

/// `GET /sign-in?to=PATH`: sends the browser to the provider. `to` is the path of this origin to which the browser goes
/// after the sign-in. `again` asks the provider to let the person choose another account.
pub(crate) async fn begin(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, query: RawQuery) -> Response {
    match send_to_provider(&door, &headers, &query.0.unwrap_or_default()).await {
        Ok(response) => response,
        Err(failure) => failure_page(&door, failure).await,
    }
}

/// Begins a sign-in, and returns the response that sends the browser to the provider.
async fn send_to_provider(door: &FrontDoor, headers: &HeaderMap, query: &str) -> Result<Response, SignInFailure> {
    let provider = door.provider.as_ref().ok_or(SignInFailure::NoProvider)?;
    let parameters = read_parameters(query)?;
    let requested_path = parameters.get("to").unwrap_or("/");
    let Some(return_path) = return_path(&door.team.url, requested_path) else {
        let why = "the address after the sign-in does not belong to this server".to_owned();
        return Err(SignInFailure::Refused("open_redirect", why));
    };
    let browser = Browser::from_cookie(cookie(headers, door.cookies.sign_in_name()))?;
    let attempt = browser.begin(&return_path)?;
    let url = provider.authorization_url(&attempt, parameters.get("again").is_some()).await?;
    let mut response = see_other(url.as_str());
    set_cookie(door, &mut response, door.cookies.sign_in_name(), browser.reveal(), SIGN_IN_TIME);
    Ok(response)
}

/// `GET /sign-in/back`: the browser comes back from the provider, with a code or an error.
pub(crate) async fn callback(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, query: RawQuery) -> Response {
    match finish_sign_in(&door, &headers, &query.0.unwrap_or_default()).await {
        Ok(response) => response,
        Err(failure) => failure_page(&door, failure).await,
    }
}

/// Checks the answer of the provider, stores the member, and begins a session of the browser.
async fn finish_sign_in(door: &FrontDoor, headers: &HeaderMap, query: &str) -> Result<Response, SignInFailure> {
    let provider = door.provider.as_ref().ok_or(SignInFailure::NoProvider)?;
    let parameters = read_parameters(query)?;
    let returned_attempt = attempt_of_browser(door, headers, &parameters)?;
    if !provider.is_own_answer(parameters.get("iss")).await? {
        let why = "the answer comes from another provider than the one to which the browser was sent".to_owned();
        return Err(SignInFailure::Refused("wrong_issuer", why));
    }
    if let Some(error) = parameters.get("error") {
        let description = parameters.get("error_description").unwrap_or_default();
        let why = format!("the provider says: {error} {description}");
        let why = text::for_line(&text::clip(why.trim(), 300)).into_owned();
        return Err(SignInFailure::Refused("sign_in_refused", why));
    }
    let Some(code) = parameters.get("code") else {
        return Err(SignInFailure::Refused(
            "invalid_request",
            "the provider sent neither a code nor an error".to_owned(),
        ));
    };
    let claims = provider.claims_of_user(code.to_owned(), &returned_attempt.attempt).await?;
    // `None`: the provider that signs people in may vouch for members of every tenant.
    let member = door.team.principal(Kind::Person, &claims, None).map_err(|error| {
        let person = claims.verified_email.as_deref().or(claims.name.as_deref()).unwrap_or(&claims.subject);
        SignInFailure::NotAMember(error, text::for_line(&text::clip(person, 200)).into_owned())
    })?;
    let session = begin_session(door, headers, &member).await?;
    let mut response = see_other(&returned_attempt.return_path);
    set_cookie(door, &mut response, door.cookies.session_name(), session.reveal(), SESSION_TIME);
    Ok(response)
}

/// Returns the sign-in to which the provider's answer belongs, if this browser began it. A sign-in that another browser
/// began is refused, because it could sign the person in with the account of an attacker.
fn attempt_of_browser(
    door: &FrontDoor,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<ReturnedAttempt, SignInFailure> {
    let refused = |why: &str| SignInFailure::Refused("wrong_browser", why.to_owned());
    let state = parameters.get("state").ok_or_else(|| refused("the answer of the provider has no state"))?;
    let cookie = cookie(headers, door.cookies.sign_in_name());
    let browser = cookie.and_then(Browser::read).ok_or_else(|| {
        refused(
            "this sign-in did not begin in this browser, or more than ten minutes ago, or the browser keeps no cookies",
        )
    })?;
    let returned_attempt =
        browser.find_attempt(state).ok_or_else(|| refused("this sign-in did not begin in this browser"))?;
    match return_path(&door.team.url, &returned_attempt.return_path) {
        Some(return_path) => Ok(ReturnedAttempt { return_path, ..returned_attempt }),
        None => Err(refused("the address after this sign-in does not belong to this server")),
    }
}

/// Stores the member as the provider describes them now, and begins a session. The new session replaces the session
/// that the browser had. The member's oldest sessions beyond [`MAX_SESSIONS`] end.
async fn begin_session(door: &FrontDoor, headers: &HeaderMap, member: &Principal) -> Result<Secret, SignInFailure> {
    // In a browser, members act without an OAuth client.
    let client = None;
    let caller = caller_of(member, client);
    door.store.put_signed_in(member, &caller).await?;
    let session = Secret::new(Purpose::Browser)?;
    let browser_name = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("a browser");
    let token = NewToken {
        label: text::for_line(&text::clip(browser_name, MAX_LABEL_BYTES)).into_owned(),
        ends_at: Utc::now().checked_add_signed(SESSION_TIME),
        ..NewToken::new(session.hash(), Purpose::Browser)
    };
    let owner = MemberIdentity { issuer: member.issuer(), subject: member.subject() };
    if door.store.keep_token(owner, &token, &caller).await?.is_none() {
        return Err(SignInFailure::Internal("this person was removed from the team a moment ago".to_owned()));
    }
    end_session(door, headers, member).await?;
    let mut sessions = door.store.team_tokens(TokenFilter::Of(owner)).await?;
    sessions.retain(|token| token.purpose == Purpose::Browser);
    let surplus_count = sessions.len().saturating_sub(MAX_SESSIONS);
    // The store returns the oldest tokens of a member first.
    for token in sessions.iter().take(surplus_count) {
        door.store.revoke_tokens(TokenFilter::Id(&token.id), &caller).await?;
    }
    Ok(session)
}

/// Ends the session that the browser has, if it has one.
async fn end_session(door: &FrontDoor, headers: &HeaderMap, member: &Principal) -> Result<(), StoreError> {
    if let Some(token) = door.session_in(headers).filter(|token| looks_like_token(token)) {
        let hash = TokenHash::of(token);
        // Only a token of a browser ends. If the cookie holds another token, that one stays valid.
        if door.store.team_token(hash).await?.is_some_and(|token| token.purpose == Purpose::Browser) {
            // In a browser, members act without an OAuth client.
            let client = None;
            door.store.revoke_tokens(TokenFilter::Hash(hash), &caller_of(member, client)).await?;
        }
    }
    Ok(())
}

/// `POST /sign-out`: ends the session of the browser. With `to`, the browser then goes to the sign-in, where the person
/// can choose another account, and after that to the path in `to`.
pub(crate) async fn sign_out(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, body: Bytes) -> Response {
    match sign_out_browser(&door, &headers, &body).await {
        Ok(response) => response,
        Err(failure) => failure_page(&door, failure).await,
    }
}

async fn sign_out_browser(door: &FrontDoor, headers: &HeaderMap, body: &[u8]) -> Result<Response, SignInFailure> {
    if !is_from_origin(headers, &door.team.url) {
        return Err(SignInFailure::Refused(
            "cross_site",
            "the form did not come from a page of this server".to_owned(),
        ));
    }
    if let Some(session) = door.browser_session(headers).await? {
        end_session(door, headers, &session.member).await?;
    }
    // A body that is no text counts as empty: signing out does not need it.
    let form = read_parameters(std::str::from_utf8(body).unwrap_or_default())?;
    let mut response = match form.get("to").and_then(|to| return_path(&door.team.url, to)) {
        Some(to) => {
            let encoded_path: String = form_urlencoded::byte_serialize(to.as_bytes()).collect();
            see_other(&format!("/sign-in?again=1&to={encoded_path}"))
        }
        None => see_other("/"),
    };
    set_cookie(door, &mut response, door.cookies.session_name(), "", TimeDelta::zero());
    Ok(response)
}

/// Reads the parameters of a query or a form. No parameter may occur twice.
fn read_parameters(text: &str) -> Result<Parameters, SignInFailure> {
    let wrong = |why: &str| SignInFailure::Refused("invalid_request", why.to_owned());
    let parameters = Parameters::read(text).ok_or_else(|| wrong("the request is longer than 16 KiB"))?;
    match parameters.repeated() {
        Some(_) => Err(wrong("a parameter occurs twice")),
        None => Ok(parameters),
    }
}

fn set_cookie(door: &FrontDoor, response: &mut Response, name: &str, value: &str, time: TimeDelta) {
    if let Some(cookie) = door.cookies.set_cookie_header(name, value, time.num_seconds()) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Returns a page that says why the person is not signed in, and what to do. A session that the browser may already
/// have stays valid.
async fn failure_page(door: &FrontDoor, failure: SignInFailure) -> Response {
    let retry_advice = "Nothing has changed. To try again, begin from the page or the program that sent you here.";
    let refusal = |code, why| DoorRefusal { door: "sign-in", code, why, ..DoorRefusal::default() };
    match failure {
        SignInFailure::Refused(code, why) => {
            door.refusals.record(refusal(code, &why)).await;
            let status = if code == "cross_site" { StatusCode::FORBIDDEN } else { StatusCode::BAD_REQUEST };
            notice(status, "You are not signed in", &[&format!("{why}."), retry_advice])
        }
        SignInFailure::NotAMember(error, person) => {
            let why = format!("{person}: {error}");
            door.refusals.record(refusal("not_a_member", &why)).await;
            let issuer = door.provider.as_ref().map(Provider::issuer).map_or("the provider", |issuer| issuer.as_str());
            let message = format!("You signed in at {issuer} as {person}, but {error}.");
            let advice =
                format!("Ask the operator of {} to add you to one tenant, and then sign in again.", door.issuer());
            notice(StatusCode::FORBIDDEN, "You are not a member", &[&message, &advice])
        }
        SignInFailure::ProviderUnusable(error) => {
            tracing::warn!(%error, "the provider that signs people in cannot be used");
            let why = format!("The provider that signs people in cannot be used: {error}.");
            let hint = "Try again in a minute. If that does not help, tell the operator of this team what you read above. \
                Browsers and clients that are signed in stay so.";
            notice(StatusCode::SERVICE_UNAVAILABLE, "You are not signed in", &[&why, hint])
        }
        SignInFailure::NoProvider => {
            let why = "This team has no provider that signs people in: its operator can name one in `[sign_in]` of the \
                team file. Until then, use a token.";
            notice(StatusCode::NOT_FOUND, "No one can sign in here", &[why])
        }
        SignInFailure::Internal(why) => {
            notice(StatusCode::INTERNAL_SERVER_ERROR, "You are not signed in", &[&format!("{why}."), retry_advice])
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;
    use toolrack_store::Store;

    use super::*;

    async fn door() -> (tempfile::TempDir, Arc<FrontDoor>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        let file = "url = \"http://127.0.0.1:4000\"\n[[tenants]]\nid = \"acme\"\n";
        let team = crate::TeamFile::parse(file, "/team".as_ref()).unwrap();
        (folder, FrontDoor::new(Arc::new(team), None, store).unwrap())
    }

    fn ann() -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap()
    }

    const ANN: MemberIdentity<'static> = MemberIdentity { issuer: "https://login.example", subject: "ann" };

    /// Signs Ann in, in the browser that sends `headers`.
    async fn sign_ann_in(door: &FrontDoor, headers: &HeaderMap) -> Secret {
        begin_session(door, headers, &ann()).await.unwrap_or_else(|_| panic!("Ann is not signed in"))
    }

    /// A personal token of Ann.
    async fn personal_token(door: &FrontDoor) -> Secret {
        let secret = Secret::new(Purpose::Personal).unwrap();
        let token = NewToken::new(secret.hash(), Purpose::Personal);
        door.store.keep_token(ANN, &token, &caller_of(&ann(), None)).await.unwrap();
        secret
    }

    fn cookie_of(door: &FrontDoor, secret: &str) -> HeaderMap {
        let cookie = format!("{}={secret}", door.session_cookie());
        HeaderMap::from_iter([(COOKIE, cookie.parse().unwrap())])
    }

    #[tokio::test]
    async fn only_the_oldest_browser_session_of_a_user_makes_room() {
        let (_folder, door) = door().await;
        let first = sign_ann_in(&door, &HeaderMap::new()).await;
        let personal = personal_token(&door).await;
        let second = sign_ann_in(&door, &HeaderMap::new()).await;
        for _ in 2..=MAX_SESSIONS {
            sign_ann_in(&door, &HeaderMap::new()).await;
        }
        let stored = async |secret: &Secret| door.store.team_token(secret.hash()).await.unwrap().is_some();
        assert!(!stored(&first).await && stored(&second).await && stored(&personal).await);
        let tokens = door.store.team_tokens(TokenFilter::Of(ANN)).await.unwrap();
        assert_eq!(tokens.iter().filter(|token| token.purpose == Purpose::Browser).count(), MAX_SESSIONS);
    }

    #[tokio::test]
    async fn a_new_session_replaces_the_one_of_its_browser_but_no_other_token_in_the_cookie() {
        let (_folder, door) = door().await;
        let first = sign_ann_in(&door, &HeaderMap::new()).await;
        let second = sign_ann_in(&door, &cookie_of(&door, first.reveal())).await;
        let stored = async |secret: &Secret| door.store.team_token(secret.hash()).await.unwrap().is_some();
        assert!(!stored(&first).await && stored(&second).await);
        // Another site cannot make a browser end a person's token by setting it as a cookie.
        let personal = personal_token(&door).await;
        sign_ann_in(&door, &cookie_of(&door, personal.reveal())).await;
        assert!(stored(&personal).await && stored(&second).await);
    }

    #[tokio::test]
    async fn a_session_is_named_after_its_browser_in_safe_and_few_words() {
        let (_folder, door) = door().await;
        let label = async |agent: &str| {
            let headers = HeaderMap::from_iter([(USER_AGENT, agent.parse().unwrap())]);
            let secret = sign_ann_in(&door, &headers).await;
            door.store.team_token(secret.hash()).await.unwrap().unwrap().label
        };
        assert_eq!(label("Firefox/140.0").await, "Firefox/140.0");
        assert!(label(&"x".repeat(5_000)).await.len() <= MAX_LABEL_BYTES + "…".len());
        let session = sign_ann_in(&door, &HeaderMap::new()).await;
        let token = door.store.team_token(session.hash()).await.unwrap().unwrap();
        assert_eq!(token.label, "a browser");
        let hours = token.ends_at.unwrap().signed_duration_since(token.made_at).num_hours();
        assert_eq!(hours, SESSION_TIME.num_hours());
    }
}
