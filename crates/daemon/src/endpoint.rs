//! The paths of the MCP endpoints: `/mcp`, and `/p/NAME/mcp` for a profile (a named selection of tools).

use std::collections::HashMap;

use axum::{
    extract::{Path, Request},
    http::Uri,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use url::form_urlencoded;

use crate::error::ApiError;

/// The route of the endpoint with all tools.
pub(crate) const ALL_TOOLS_ROUTE: &str = "/mcp";

/// The route of the endpoints of profiles.
pub(crate) const PROFILE_ROUTE: &str = "/p/{profile}/mcp";

/// Moves the name of the profile from the path into the query, where the gateway (the server behind these endpoints)
/// reads it.
pub(crate) async fn move_profile_to_query(
    Path(parts): Path<HashMap<String, String>>,
    mut request: Request,
    next: Next,
) -> Response {
    // `PROFILE_ROUTE` always has this parameter.
    let name = parts.get("profile").map(String::as_str).unwrap_or_default();
    match gateway_uri(name, request.uri().query()) {
        Some(uri) => *request.uri_mut() = uri,
        None => return ApiError::not_found("there is no such profile").into_response(),
    }
    next.run(request).await
}

/// The URI by which the gateway knows the endpoint of the profile `name`. `query`, the client's own query, stays behind
/// the name.
fn gateway_uri(name: &str, query: Option<&str>) -> Option<Uri> {
    let profile_param = form_urlencoded::Serializer::new(String::new()).append_pair("profile", name).finish();
    let client_query = query.map(|client_query| format!("&{client_query}")).unwrap_or_default();
    format!("/?{profile_param}{client_query}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_in_the_path_overrides_the_query() {
        assert_eq!(gateway_uri("review", None).unwrap(), "/?profile=review");
        assert_eq!(gateway_uri("review", Some("tools=a/b")).unwrap(), "/?profile=review&tools=a/b");
        assert_eq!(gateway_uri("a&profile=b", None).unwrap(), "/?profile=a%26profile%3Db");
    }
}
