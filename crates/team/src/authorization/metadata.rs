//! Serves the metadata of the resource (RFC 9728) and of the authorization server (RFC 8414), which clients read first.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderName, HeaderValue, StatusCode, Uri,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS,
    },
};
use serde_json::json;

use crate::{
    door::{FrontDoor, SCOPE},
    endpoint::Endpoint,
};

/// `GET /.well-known/oauth-protected-resource`, and the same with the path of an MCP endpoint behind it.
pub(crate) async fn resource(State(door): State<Arc<FrontDoor>>, uri: Uri) -> Response {
    let path = uri.path().strip_prefix("/.well-known/oauth-protected-resource").filter(|path| !path.is_empty());
    let Some(endpoint) = path.map_or(Some(Endpoint::ALL), Endpoint::at) else {
        return with_client_headers(StatusCode::NOT_FOUND.into_response());
    };
    with_client_headers(
        Json(json!({
            "resource": door.resource(endpoint),
            "authorization_servers": door.authorization_servers(),
            "scopes_supported": [SCOPE],
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolrack",
        }))
        .into_response(),
    )
}

/// `GET /.well-known/oauth-authorization-server`.
pub(crate) async fn server(State(door): State<Arc<FrontDoor>>) -> Response {
    with_client_headers(
        Json(json!({
            "issuer": door.issuer(),
            "authorization_endpoint": door.address_of("oauth/authorize"),
            "token_endpoint": door.address_of("oauth/token"),
            "registration_endpoint": door.address_of("oauth/register"),
            "revocation_endpoint": door.address_of("oauth/revoke"),
            "scopes_supported": [SCOPE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        }))
        .into_response(),
    )
}

/// `OPTIONS` of the paths that clients in web pages use. These paths ignore cookies, so any page may use them.
pub(crate) async fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    let allowed_headers = HeaderValue::from_static("authorization, content-type, mcp-protocol-version");
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    with_client_headers(response)
}

/// Adds the headers that all responses to clients have: any web page may read the response, and no cache keeps it.
pub(super) fn with_client_headers(mut response: Response) -> Response {
    let fixed_headers: [(HeaderName, &str); 4] = [
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("pragma"), "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed_headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
