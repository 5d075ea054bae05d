//! Reads and checks what a client asks for with `/oauth/authorize`: a code for one MCP endpoint of the team. The
//! browser then brings the code to one of the client's redirect addresses.

use std::sync::Arc;

use crate::{
    clients::{Client, Clients, NoClient},
    door::{FrontDoor, SCOPE},
    parameters::Parameters,
};

/// The maximum size of `state`, in bytes.
const MAX_STATE: usize = 2 * 1024;
/// The number of characters of a PKCE challenge: 256 bits in base64url (RFC 7636, 4.2).
const CHALLENGE_LENGTH: usize = 43;

/// Where the answer to the client's request goes.
#[derive(Clone, Debug)]
pub(super) struct ReplyTarget {
    pub(super) client: Arc<Client>,
    /// One of the redirect URIs that the client has registered.
    pub(super) redirect_uri: String,
    /// The text that the client sent and wants back (OAuth 2.1, 4.1.1).
    pub(super) state: Option<String>,
}

/// A checked request, about which the consent page asks the user.
#[derive(Clone, Debug)]
pub(super) struct ConsentRequest {
    pub(super) reply_target: ReplyTarget,
    pub(super) scope: String,
    /// The PKCE challenge (RFC 7636).
    pub(super) challenge: String,
    /// The address of the MCP endpoint for which the client's tokens will be valid.
    pub(super) resource: String,
}

/// An error that a page shows to the person, because the address for the answer is not one of the client's.
#[derive(Debug)]
pub(super) struct PageError {
    pub(super) code: &'static str,
    pub(super) why: String,
    /// Whether the daemon itself failed. Otherwise the request was bad.
    pub(super) is_server_error: bool,
}

/// An error that the client gets.
#[derive(Debug)]
pub(super) struct ClientError {
    pub(super) reply_target: ReplyTarget,
    pub(super) code: &'static str,
    pub(super) why: &'static str,
}

fn page_error(code: &'static str, why: impl Into<String>) -> PageError {
    PageError { code, why: why.into(), is_server_error: false }
}

impl From<NoClient> for PageError {
    fn from(error: NoClient) -> Self {
        let why = error.to_string();
        match error {
            NoClient::Unknown => page_error("invalid_client", why),
            NoClient::Document(_) => page_error("invalid_client_metadata", why),
            NoClient::Busy => page_error("temporarily_unavailable", why),
            NoClient::Store(_) => PageError { is_server_error: true, ..page_error("server_error", why) },
        }
    }
}

/// Where the document of a client may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentSource {
    Memory,
    MemoryOrNetwork,
}

/// Finds the client, and checks that the redirect URI is one of its own. Returns `Ok(None)` if `source` is
/// [`DocumentSource::Memory`] and the document of the client has to be fetched.
pub(super) async fn find_reply_target(
    clients: &Clients,
    parameters: &Parameters,
    source: DocumentSource,
) -> Result<Option<ReplyTarget>, PageError> {
    if let Some(repeated @ ("client_id" | "redirect_uri" | "state")) = parameters.repeated() {
        return Err(page_error("invalid_request", format!("the parameter {repeated} occurs twice")));
    }
    let Some(id) = parameters.get("client_id") else {
        return Err(page_error("invalid_request", "the parameter client_id is missing"));
    };
    let client = match source {
        DocumentSource::Memory => clients.find_without_fetch(id).await?,
        DocumentSource::MemoryOrNetwork => Some(clients.find(id).await?),
    };
    let Some(client) = client else { return Ok(None) };
    let Some(redirect_uri) = client.redirect_uri(parameters.get("redirect_uri")) else {
        let why = "the parameter redirect_uri is not an address of this client";
        return Err(page_error("invalid_redirect_uri", why));
    };
    let state = parameters.get("state").map(ToOwned::to_owned);
    if state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
        return Err(page_error("invalid_request", "the parameter state is longer than 2 KiB"));
    }
    Ok(Some(ReplyTarget { client, redirect_uri, state }))
}

/// Reads the request of the client: for a code, with PKCE by S256.
pub(super) fn consent_request(
    door: &FrontDoor,
    reply_target: ReplyTarget,
    parameters: &Parameters,
) -> Result<ConsentRequest, ClientError> {
    let scope_challenge_and_resource = read_scope_and_challenge(parameters).and_then(|(scope, challenge)| {
        // The parameter `resource` (RFC 8707) names the MCP endpoint for which the tokens will be valid.
        let endpoint = door.endpoint_in(parameters).map_err(|why| ("invalid_target", why))?;
        Ok((scope, challenge, door.resource(endpoint)))
    });
    match scope_challenge_and_resource {
        Ok((scope, challenge, resource)) => Ok(ConsentRequest { reply_target, scope, challenge, resource }),
        Err((code, why)) => Err(ClientError { reply_target, code, why }),
    }
}

fn read_scope_and_challenge(parameters: &Parameters) -> Result<(String, String), (&'static str, &'static str)> {
    if parameters.repeated().is_some() {
        return Err(("invalid_request", "a parameter occurs twice"));
    }
    for (name, code) in [("request", "request_not_supported"), ("request_uri", "request_uri_not_supported")] {
        if parameters.get(name).is_some() {
            return Err((code, "requests as signed objects are not served here"));
        }
    }
    match parameters.get("response_type") {
        Some("code") => {}
        Some(_) => return Err(("unsupported_response_type", "only the response type code is served here")),
        None => return Err(("invalid_request", "the parameter response_type is missing")),
    }
    if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(("invalid_request", "only the response mode query is served here"));
    }
    let Some(challenge) = parameters.get("code_challenge") else {
        return Err(("invalid_request", "the parameter code_challenge is missing: PKCE is required"));
    };
    // A client that names no method means `plain` (RFC 7636, 4.3).
    if parameters.get("code_challenge_method") != Some("S256") {
        return Err(("invalid_request", "the parameter code_challenge_method must be S256"));
    }
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if challenge.len() != CHALLENGE_LENGTH || !challenge.bytes().all(is_base64url) {
        return Err((
            "invalid_request",
            "the parameter code_challenge is not a valid S256 challenge (43 characters of base64url)",
        ));
    }
    Ok((granted_scope(parameters.get("scope"))?, challenge.to_owned()))
}

/// Returns the scope that the client gets: the only one that exists. A client may also ask for other scopes; the answer
/// shows that it did not get them (RFC 6749, 3.3).
pub(super) fn granted_scope(requested: Option<&str>) -> Result<String, (&'static str, &'static str)> {
    match requested {
        Some(requested) if !requested.split(' ').any(|scope| scope == SCOPE) => {
            Err(("invalid_scope", "the only scope that is given here is mcp"))
        }
        _ => Ok(SCOPE.to_owned()),
    }
}
