//! Makes the errors that clients get, with the exact codes of OAuth (RFC 6749, 5.2; RFC 7591, 3.2.2; RFC 8707, 2).

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header::RETRY_AFTER};
use serde_json::json;
use toolrack_host::Principal;
use toolrack_store::{StoreError, audit::DoorRefusal};

use super::metadata::with_client_headers;
use crate::{door::FrontDoor, random::NoRandom};

/// Why a client gets an error.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    code: &'static str,
    why: String,
    /// The name or id of the client, for the audit log.
    client: Option<String>,
    /// The member for whom the client acts.
    member: Option<Principal>,
    /// Whether the request was bad. Otherwise the daemon itself failed.
    is_refusal: bool,
}

impl Failure {
    /// Creates the error for bad input.
    pub(super) fn new(code: &'static str, why: impl Into<String>) -> Self {
        let status = match code {
            "invalid_client" => StatusCode::UNAUTHORIZED,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, code, why: why.into(), client: None, member: None, is_refusal: true }
    }

    /// Creates the error for too many requests.
    pub(super) fn too_many(why: impl Into<String>) -> Self {
        Self { status: StatusCode::TOO_MANY_REQUESTS, ..Self::new("temporarily_unavailable", why) }
    }

    /// Adds the client, which the audit log then names.
    pub(super) fn with_client(self, client: Option<&str>) -> Self {
        Self { client: client.map(ToOwned::to_owned), ..self }
    }

    /// Adds the member for whom the client acts, whom the audit log then names.
    pub(super) fn with_member(self, member: &Principal) -> Self {
        Self { member: Some(member.clone()), ..self }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the front door of the team cannot use the database");
        let why = "the server cannot use its database: try again later";
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, is_refusal: false, ..Self::new("server_error", why) }
    }
}

impl From<NoRandom> for Failure {
    fn from(error: NoRandom) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self { status, is_refusal: false, ..Self::new("server_error", error.to_string()) }
    }
}

/// Returns the response to a client. If the request was refused, records the refusal in the audit log under the word
/// `endpoint`.
pub(super) async fn respond(door: &FrontDoor, endpoint: &str, result: Result<Response, Failure>) -> Response {
    let failure = match result {
        Ok(response) => return with_client_headers(response),
        Err(failure) => failure,
    };
    if failure.is_refusal {
        let refusal = DoorRefusal {
            door: endpoint,
            code: failure.code,
            why: &failure.why,
            client: failure.client.as_deref(),
            by: failure.member.as_ref(),
            ..DoorRefusal::default()
        };
        door.refusals.record(refusal).await;
    }
    let body = json!({ "error": failure.code, "error_description": description(&failure.why) });
    let mut response = (failure.status, Json(body)).into_response();
    if failure.status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    }
    // The status 401 requires a challenge (RFC 6749, 5.2).
    if failure.code == "invalid_client" {
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
    }
    with_client_headers(response)
}

/// Makes an `error_description`: printable ASCII without `"` and `\` (RFC 6749, 5.2). Replaces other characters by `'`.
pub(super) fn description(why: &str) -> String {
    why.chars().map(|c| if matches!(c, ' '..='~') && !matches!(c, '"' | '\\') { c } else { '\'' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_only_characters_that_oauth_allows() {
        assert_eq!(description("the client said \"x\\y\""), "the client said 'x'y'");
        assert_eq!(description("é\u{202e}\n\u{7f}~ "), "''''~ ");
    }

    #[test]
    fn each_kind_of_failure_has_its_status_and_only_bad_input_is_a_refusal() {
        let (code, client) = (Failure::new("invalid_grant", "x"), Failure::new("invalid_client", "x"));
        assert_eq!((code.status.as_u16(), client.status.as_u16()), (400, 401));
        let busy = Failure::too_many("x");
        assert_eq!((busy.status.as_u16(), busy.code), (429, "temporarily_unavailable"));
        assert!(code.is_refusal && client.is_refusal && busy.is_refusal);
        let ours = Failure::from(NoRandom);
        assert_eq!((ours.status.as_u16(), ours.code, ours.is_refusal), (500, "server_error", false));
    }
}
