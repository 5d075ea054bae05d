//! Serves `/oauth/authorize`, where a client asks for a code and a user answers (OAuth 2.1, 4.1).

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use toolrack_host::Principal;
use toolrack_store::{MemberIdentity, NewGrant, StoreError, TokenHash, audit::DoorRefusal};
use url::form_urlencoded;

use super::{
    consent::{Form, consent_page},
    request::{
        ClientError, ConsentRequest, DocumentSource, PageError, ReplyTarget, consent_request, find_reply_target,
    },
};
use crate::{
    browser::{is_from_origin, return_path},
    door::{BrowserSession, FrontDoor, caller_of},
    page::{notice, see_other},
    parameters::Parameters,
    random::{NO_PREFIX, random_text},
};

/// The maximum size of the query of a request, in bytes.
const MAX_QUERY: usize = 4_000;

/// Why the client gets no authorization code.
enum NoCode {
    /// A page shows the error, because the client must not get an answer.
    PageError(PageError),
    /// The user must sign in first.
    SignIn,
    /// The client gets the error by a redirect, because a user (this member) has signed in.
    ClientError(ClientError, Principal),
}

impl From<PageError> for NoCode {
    fn from(page_error: PageError) -> Self {
        Self::PageError(page_error)
    }
}

impl From<StoreError> for NoCode {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the front door of the team cannot use the database");
        let why = "the server cannot use its database: try again later".to_owned();
        Self::PageError(PageError { code: "server_error", why, is_server_error: true })
    }
}

/// The error of a bad request, which a page shows.
fn bad_request(code: &'static str, why: &str) -> NoCode {
    NoCode::PageError(PageError { code, why: why.to_owned(), is_server_error: false })
}

/// `GET /oauth/authorize`: shows the user which client asks for what.
///
/// A page shows errors, unless the client may get the answer at the address that it names *and* the user has signed in.
/// So a link to this page alone never redirects a browser (RFC 9700, 4.11.2).
pub(crate) async fn show(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, query: RawQuery) -> Response {
    let query = query.0.unwrap_or_default();
    match read_request(&door, &headers, &query).await {
        Ok((request, session)) => consent_page(&door, &request, &session, &Form::new(&query)),
        Err(no_code) => no_code_response(&door, no_code, &query).await,
    }
}

/// `POST /oauth/authorize`: the answer of the user.
pub(crate) async fn answer(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, body: Bytes) -> Response {
    // A body that cannot be read counts as a form without parameters. Its seal is missing, so it is refused below.
    let form = std::str::from_utf8(&body).ok().and_then(Parameters::read).unwrap_or_default();
    match carry_out_answer(&door, &headers, &form).await {
        Ok(response) => response,
        Err(no_code) => no_code_response(&door, no_code, form.get("request").unwrap_or_default()).await,
    }
}

/// Returns the checked request of the client, and the member who is signed in.
async fn read_request(
    door: &FrontDoor,
    headers: &HeaderMap,
    query: &str,
) -> Result<(ConsentRequest, BrowserSession), NoCode> {
    // A longer query would not fit into the address to which the sign-in returns, nor into a field of the form.
    let Some(parameters) = Parameters::read(query).filter(|_| query.len() <= MAX_QUERY) else {
        return Err(bad_request("invalid_request", "the request is longer than 4,000 bytes"));
    };
    // The document of the client is fetched only once the user has signed in.
    let target_in_memory = find_reply_target(&door.clients, &parameters, DocumentSource::Memory).await?;
    let Some(session) = door.browser_session(headers).await? else { return Err(NoCode::SignIn) };
    let reply_target = match target_in_memory {
        Some(target) => Some(target),
        None => find_reply_target(&door.clients, &parameters, DocumentSource::MemoryOrNetwork).await?,
    };
    let Some(reply_target) = reply_target else { return Err(bad_request("invalid_client", "there is no such client")) };
    match consent_request(door, reply_target, &parameters) {
        Ok(request) if is_for_member(door, &request, &session.member) => Ok((request, session)),
        Ok(request) => {
            let why = "this person is no member of the tenant whose endpoint the parameter resource names";
            Err(NoCode::ClientError(
                ClientError { reply_target: request.reply_target, code: "invalid_target", why },
                session.member,
            ))
        }
        Err(client_error) => Err(NoCode::ClientError(client_error, session.member)),
    }
}

/// Whether the client asks for an endpoint of the member's tenant, or of all tenants.
fn is_for_member(door: &FrontDoor, request: &ConsentRequest, member: &Principal) -> bool {
    door.endpoint_of(&request.resource).is_some_and(|endpoint| endpoint.is_for(member.tenant()))
}

/// Checks that the answer belongs to a page that this server has shown in this browser, and carries it out.
async fn carry_out_answer(door: &FrontDoor, headers: &HeaderMap, form: &Parameters) -> Result<Response, NoCode> {
    if !is_from_origin(headers, &door.team.url) {
        return Err(bad_request("cross_site", "the answer did not come from the page of this server"));
    }
    let query = form.get("request").unwrap_or_default();
    let (request, session) = read_request(door, headers, query).await?;
    // Without `ends`, the form has expired in 1970; without `seal`, its seal is wrong.
    let sent_form = Form { query, expires_at: form.get("ends").and_then(|ends| ends.parse().ok()).unwrap_or_default() };
    if !sent_form.is_sealed_by(form.get("seal").unwrap_or_default(), &request, &session) {
        let why = "the answer does not belong to a page that was shown in this browser within the last 30 minutes, \
            or the client has changed meanwhile";
        return Err(bad_request("wrong_seal", why));
    }
    if form.get("answer") != Some("allow") {
        let client_error =
            ClientError { reply_target: request.reply_target, code: "access_denied", why: "the person refused" };
        return Ok(redirect_with_error(door, &client_error));
    }
    allow(door, &request, &session).await
}

/// Sends the browser to the client with a code.
async fn allow(door: &FrontDoor, request: &ConsentRequest, session: &BrowserSession) -> Result<Response, NoCode> {
    let code = match random_text::<32>(NO_PREFIX) {
        Ok(code) => code,
        Err(error) => {
            return Err(PageError { code: "server_error", why: error.to_string(), is_server_error: true }.into());
        }
    };
    let (member, client) = (&session.member, &request.reply_target.client);
    let grant = NewGrant {
        owner: MemberIdentity { issuer: member.issuer(), subject: member.subject() },
        client: &client.id,
        client_name: &client.name,
        redirect_uri: &request.reply_target.redirect_uri,
        challenge: &request.challenge,
        resource: &request.resource,
        scope: &request.scope,
        code: TokenHash::of(&code),
    };
    door.clients.store_if_sealed(client).await?;
    if !door.store.begin_grant(&grant, &caller_of(member, Some(&client.name))).await? {
        return Err(NoCode::SignIn);
    }
    Ok(see_other(&reply_address(door, &request.reply_target, &[("code", &code)])))
}

/// Returns the response to a browser that gets neither the page nor the code.
async fn no_code_response(door: &FrontDoor, no_code: NoCode, query: &str) -> Response {
    match no_code {
        NoCode::SignIn => {
            let Some(path) = return_path(&door.team.url, &format!("/oauth/authorize?{query}")) else {
                let why = "the request of the client is too long, or has characters that no address has".to_owned();
                return error_page(door, PageError { code: "invalid_request", why, is_server_error: false }).await;
            };
            let encoded_path: String = form_urlencoded::byte_serialize(path.as_bytes()).collect();
            see_other(&format!("/sign-in?to={encoded_path}"))
        }
        NoCode::PageError(page_error) => error_page(door, page_error).await,
        NoCode::ClientError(client_error, member) => {
            let refusal = DoorRefusal {
                door: "authorize",
                code: client_error.code,
                why: client_error.why,
                client: Some(&client_error.reply_target.client.name),
                by: Some(&member),
                ..DoorRefusal::default()
            };
            door.refusals.record(refusal).await;
            redirect_with_error(door, &client_error)
        }
    }
}

/// Returns a page that says why the client cannot be connected. Records the refusal in the audit log, unless the daemon
/// itself failed.
async fn error_page(door: &FrontDoor, page_error: PageError) -> Response {
    let status = match page_error.code {
        _ if page_error.is_server_error => StatusCode::INTERNAL_SERVER_ERROR,
        "cross_site" | "wrong_seal" => StatusCode::FORBIDDEN,
        "temporarily_unavailable" => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    if !page_error.is_server_error {
        let refusal =
            DoorRefusal { door: "authorize", code: page_error.code, why: &page_error.why, ..DoorRefusal::default() };
        door.refusals.record(refusal).await;
    }
    let error = format!("{}: {}.", page_error.code, page_error.why);
    let advice = "No client got anything. Begin again from the client that sent you here; if that does not help, tell \
        the operator of this team what you read above.";
    notice(status, "This client cannot be connected", &[&error, advice])
}

/// Sends the browser to the client with an error (RFC 6749, 4.1.2.1).
fn redirect_with_error(door: &FrontDoor, client_error: &ClientError) -> Response {
    see_other(&reply_address(
        door,
        &client_error.reply_target,
        &[("error", client_error.code), ("error_description", client_error.why)],
    ))
}

/// Returns the redirect URI of the client, to which these parameters are added: `answer`, the state that the client
/// sent, and the issuer (RFC 9207). The redirect URI itself stays as the client wrote it, byte by byte.
fn reply_address(door: &FrontDoor, reply_target: &ReplyTarget, answer: &[(&str, &str)]) -> String {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.extend_pairs(answer);
    if let Some(state) = &reply_target.state {
        parameters.append_pair("state", state);
    }
    parameters.append_pair("iss", door.issuer());
    let separator = if reply_target.redirect_uri.contains('?') { '&' } else { '?' };
    format!("{}{separator}{}", reply_target.redirect_uri, parameters.finish())
}
