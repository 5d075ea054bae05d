//! Reads the `WWW-Authenticate` headers with which a server refuses a request: where to sign in, and what is missing.

use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

/// Returns the header that a sign-in starts from: the one that names metadata, else the first `Bearer` one, else the
/// first.
pub(crate) fn primary_header(values: &[String]) -> Option<&str> {
    let names_metadata = values.iter().find(|value| value.contains("resource_metadata"));
    let is_bearer = |value: &&String| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    names_metadata.or_else(|| values.iter().find(is_bearer)).or(values.first()).map(String::as_str)
}

/// Returns whether a server accepts only tokens that are bound to a key.
pub(crate) fn requires_bound_tokens(values: &[String]) -> bool {
    let is_dpop = |value: &String| value.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("dpop"));
    !values.is_empty() && values.iter().all(is_dpop)
}

/// Returns the scopes that the server reports as missing.
pub(crate) fn missing_scopes(values: &[String], url: &Url) -> Vec<String> {
    let parsed = values.iter().map(|value| WWWAuthenticateParams::parse(value, url));
    let missing = parsed.filter(WWWAuthenticateParams::is_insufficient_scope).find_map(|params| params.scope);
    missing.unwrap_or_default().split_whitespace().filter(|scope| is_scope(scope)).map(str::to_owned).collect()
}

/// Returns whether `scope` has the syntax of a scope (RFC 6749, 3.3).
pub(crate) fn is_scope(scope: &str) -> bool {
    !scope.is_empty() && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Returns `scopes`, followed by the scopes of `more` that it lacks.
pub(crate) fn union(scopes: &[String], more: &[String]) -> Vec<String> {
    let mut union = scopes.to_vec();
    for scope in more {
        if !union.contains(scope) {
            union.push(scope.clone());
        }
    }
    union
}

#[cfg(test)]
mod tests;
