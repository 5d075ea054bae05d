//! Reads the `WWW-Authenticate` headers with which a server refuses a request. They say where to sign in, and which
//! scopes the token lacks.

use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

/// Returns the header with which a sign-in starts: the first that names metadata, else the first with the scheme
/// `Bearer`, else the first.
pub(crate) fn primary_header(headers: &[String]) -> Option<&str> {
    let names_metadata = headers.iter().find(|header| header.contains("resource_metadata"));
    let is_bearer = |header: &&String| header.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    names_metadata.or_else(|| headers.iter().find(is_bearer)).or(headers.first()).map(String::as_str)
}

/// Returns whether a server accepts only tokens that are bound to a key: all its challenges have the scheme `DPoP`.
pub(crate) fn requires_bound_tokens(headers: &[String]) -> bool {
    let is_dpop = |header: &String| header.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("dpop"));
    !headers.is_empty() && headers.iter().all(is_dpop)
}

/// Returns the scopes that the server reports as missing.
pub(crate) fn missing_scopes(headers: &[String], url: &Url) -> Vec<String> {
    let challenges = headers.iter().map(|header| WWWAuthenticateParams::parse(header, url));
    let scope_list = challenges.filter(WWWAuthenticateParams::is_insufficient_scope).find_map(|params| params.scope);
    scope_list.unwrap_or_default().split_whitespace().filter(|scope| is_scope(scope)).map(str::to_owned).collect()
}

/// Returns whether `scope` has the syntax of a scope (RFC 6749, 3.3).
pub(crate) fn is_scope(scope: &str) -> bool {
    !scope.is_empty() && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Returns `scopes`, followed by those of `additional_scopes` that are not among them.
pub(crate) fn union(scopes: &[String], additional_scopes: &[String]) -> Vec<String> {
    let mut union = scopes.to_vec();
    for scope in additional_scopes {
        if !union.contains(scope) {
            union.push(scope.clone());
        }
    }
    union
}

#[cfg(test)]
mod tests;
