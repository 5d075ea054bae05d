//! Reads signed statements (JWT, RFC 7519) of providers, and fetches the keys that verify them (RFC 7517). A statement
//! is an ID token of the provider that signs users in, or an access token of an issuer that the team trusts.

use std::{collections::HashSet, sync::Arc};

use futures::FutureExt as _;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use toolrack_host::text;
use url::Url;

use crate::{
    cached_value::CachedValue,
    fetch::{Http, Unreachable},
};

/// The maximum size of a statement, in bytes.
pub(crate) const MAX_BYTES: usize = 16 * 1024;
/// The maximum number of keys of one provider.
const MAX_KEYS: usize = 100;
/// How far the clocks of this machine and of a provider may differ, in seconds.
pub(crate) const LEEWAY: u64 = 60;

/// The claims of a statement.
pub(crate) type JwtClaims = Map<String, Value>;

/// The error for a statement that proves nothing. Safe to print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StatementError {
    /// The statement proves nothing, for this reason, in which "it" is the statement: "it has ended".
    #[error("{0}")]
    Invalid(String),
    /// The keys cannot be fetched, so that the statement cannot be checked.
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
}

impl StatementError {
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

/// The keys of a provider.
pub(crate) struct Keys(CachedValue<Vec<Jwk>>);

impl Keys {
    /// Creates the keys at the address that `url` returns. They are fetched on first use.
    pub(crate) fn fetched_from(
        http: Http,
        url: impl Fn() -> futures::future::BoxFuture<'static, Result<Url, Unreachable>> + Send + Sync + 'static,
    ) -> Self {
        Self(CachedValue::new(move || {
            let (http, url) = (http.clone(), url());
            async move { Ok(Arc::new(read_keys(http.json::<KeySet>(&url.await?).await?))) }.boxed()
        }))
    }

    /// Finds the key for a statement whose header has this key id (`kid`) and this algorithm. If the key is unknown,
    /// fetches the keys again, but not if the last request was a moment ago.
    async fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Option<Jwk>, Unreachable> {
        let keys = self.0.get().await?;
        if let Some(key) = find_key(&keys, kid, algorithm) {
            return Ok(Some(key));
        }
        let newer_keys = self.0.newer_than(&keys).await?;
        Ok(newer_keys.and_then(|newer_keys| find_key(&newer_keys, kid, algorithm)))
    }
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Reads a set of keys. Leaves out keys of kinds that this version does not know.
fn read_keys(set: KeySet) -> Vec<Jwk> {
    set.keys.into_iter().take(MAX_KEYS).filter_map(|key| serde_json::from_value(key).ok()).collect()
}

/// Returns the key with this id for this algorithm. Without an id, returns the only key for the algorithm.
fn find_key(keys: &[Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
    let mut usable = keys.iter().filter(|key| key_allows(key, algorithm));
    match kid {
        Some(kid) => usable.find(|key| key.common.key_id.as_deref() == Some(kid)).cloned(),
        None => usable.next().filter(|_| usable.next().is_none()).cloned(),
    }
}

/// Returns whether a key may verify a signature of this algorithm. Only the key decides, never the statement: the
/// algorithm must fit keys of this kind. If the key names an algorithm, only that algorithm is allowed. A shared secret
/// verifies nothing.
fn key_allows(key: &Jwk, algorithm: Algorithm) -> bool {
    let is_for_signatures =
        key.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let may_verify = key.common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    // Both texts have the names of RFC 7518, such as `ES256`.
    let has_algorithm = key.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
    let fits_kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => matches!(
            algorithm,
            Algorithm::RS256
                | Algorithm::RS384
                | Algorithm::RS512
                | Algorithm::PS256
                | Algorithm::PS384
                | Algorithm::PS512
        ),
        AlgorithmParameters::EllipticCurve(parameters) => match parameters.curve {
            EllipticCurve::P256 => algorithm == Algorithm::ES256,
            EllipticCurve::P384 => algorithm == Algorithm::ES384,
            _ => false,
        },
        AlgorithmParameters::OctetKeyPair(parameters) => {
            parameters.curve == EllipticCurve::Ed25519 && algorithm == Algorithm::EdDSA
        }
        _ => false,
    };
    is_for_signatures && may_verify && has_algorithm && fits_kind
}

/// The requirements for a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatementRequirements<'a> {
    /// The provider that signed the statement.
    pub(crate) issuer: &'a Url,
    /// The program that the statement is for.
    pub(crate) audience: &'a str,
    /// The values that its `typ` may have (RFC 8725, 3.11), without `application/` and in lower case. An empty text
    /// stands for a statement without `typ`.
    pub(crate) types: &'a [&'a str],
}

/// Returns whether `issuer` is `url`, as a provider may write it: `https://login.example` and `https://login.example/`
/// are the same.
pub(crate) fn is_issuer(url: &Url, issuer: &str) -> bool {
    issuer == url.as_str() || (url.path() == "/" && issuer == without_slash(url))
}

/// Returns the URL of a provider in the form in which principals name their issuer: `https://login.example`, without a
/// slash at its end.
pub(crate) fn without_slash(url: &Url) -> &str {
    if url.path() == "/" { url.as_str().trim_end_matches('/') } else { url.as_str() }
}

/// Reads a statement that the provider with these keys signed. Returns its claims and its type.
///
/// Accepts only asymmetric signatures, of an algorithm that the key itself allows. Refuses headers with `crit`, which
/// demand extensions that this function does not know (RFC 7515, 4.1.11). The claims `iss`, `aud`, `exp` and `sub` must
/// be there. `exp`, `nbf` and `iat` may be off by 60 s.
pub(crate) async fn read(
    token: &str,
    keys: &Keys,
    expected: StatementRequirements<'_>,
) -> Result<(JwtClaims, String), StatementError> {
    if token.len() > MAX_BYTES {
        return Err(StatementError::invalid(format!("it is longer than {MAX_BYTES} bytes")));
    }
    let header = decode_header(token).map_err(|error| StatementError::invalid(describe(error.kind())))?;
    if header.crit.is_some() {
        return Err(StatementError::invalid("its header has `crit`, which this version does not support"));
    }
    let full_type = header.typ.as_deref().unwrap_or_default().to_ascii_lowercase();
    let short_type = full_type.strip_prefix("application/").unwrap_or(&full_type).to_owned();
    if !expected.types.contains(&&*short_type) {
        return Err(StatementError::invalid(format!("its type is `{}`", text::for_line(&text::clip(&short_type, 64)))));
    }
    let key = keys.find(header.kid.as_deref(), header.alg).await?;
    let Some(key) = key else {
        return Err(StatementError::invalid(format!("its issuer has no such key for {:?}", header.alg)));
    };
    let key = DecodingKey::from_jwk(&key).map_err(|error| StatementError::invalid(describe(error.kind())))?;
    let jwt = decode::<JwtClaims>(token, &key, &validation(header.alg, expected));
    let jwt = jwt.map_err(|error| StatementError::invalid(describe(error.kind())))?.claims;
    check_issued_at(&jwt)?;
    Ok((jwt, short_type))
}

/// Returns the checks that `jsonwebtoken` makes.
fn validation(algorithm: Algorithm, expected: StatementRequirements<'_>) -> Validation {
    let mut rules = Validation::new(algorithm);
    rules.leeway = LEEWAY;
    rules.validate_nbf = true;
    rules.required_spec_claims = ["exp", "iss", "aud", "sub"].map(str::to_owned).into();
    rules.aud = Some(HashSet::from([expected.audience.to_owned()]));
    // With and without the slash at the end, as `is_issuer` accepts it.
    let mut issuers = HashSet::from([without_slash(expected.issuer).to_owned()]);
    issuers.insert(expected.issuer.as_str().to_owned());
    rules.iss = Some(issuers);
    rules
}

/// Refuses a statement whose `iat` is in the future.
fn check_issued_at(jwt: &JwtClaims) -> Result<(), StatementError> {
    let Some(issued_at) = jwt.get("iat") else { return Ok(()) };
    let latest = chrono::Utc::now().timestamp().saturating_add(LEEWAY.cast_signed());
    let is_past = issued_at.as_f64().is_some_and(|issued_at| issued_at <= latest as f64);
    if is_past { Ok(()) } else { Err(StatementError::invalid("it was made in the future")) }
}

/// Returns the reason why a statement is refused, in which "it" is the statement.
fn describe(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::ExpiredSignature => "it has ended".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidAudience => "it is for another audience".to_owned(),
        ErrorKind::InvalidIssuer => "it is of another issuer".to_owned(),
        ErrorKind::InvalidSignature => "its signature is wrong".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("it has no `{claim}`"),
        _ => "it is not a signed statement".to_owned(),
    }
}

/// When a statement ends, in seconds since 1970.
pub(crate) fn ends_at(jwt: &JwtClaims) -> Option<i64> {
    let exp = jwt.get("exp")?;
    // A NumericDate may have a fraction (RFC 7519, 2).
    exp.as_i64().or_else(|| exp.as_f64().map(|seconds| seconds as i64))
}

/// The text of a claim. `None` if there is none, or if it is empty or no text.
pub(crate) fn text_of<'a>(jwt: &'a JwtClaims, claim: &str) -> Option<&'a str> {
    jwt.get(claim)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALGORITHMS: [Algorithm; 12] = [
        Algorithm::HS256,
        Algorithm::HS384,
        Algorithm::HS512,
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::PS512,
        Algorithm::ES256,
        Algorithm::ES384,
        Algorithm::EdDSA,
    ];

    fn keys(keys: &Value) -> Vec<Jwk> {
        read_keys(serde_json::from_value(json!({ "keys": keys })).unwrap())
    }

    fn rsa(more: Value) -> Value {
        let mut key = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" });
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    }

    /// The algorithms whose signatures a key may verify.
    fn allowed(key: Value) -> Vec<Algorithm> {
        let key = keys(&json!([key])).pop().unwrap();
        ALGORITHMS.into_iter().filter(|algorithm| key_allows(&key, *algorithm)).collect()
    }

    #[test]
    fn a_key_verifies_only_algorithms_of_its_own_kind_and_a_shared_secret_none() {
        assert_eq!(allowed(rsa(json!({}))), ALGORITHMS[3..9]);
        let curve = |curve: &str| allowed(json!({ "kty": "EC", "crv": curve, "x": "AA", "y": "AA" }));
        assert_eq!((curve("P-256"), curve("P-384")), (vec![Algorithm::ES256], vec![Algorithm::ES384]));
        assert_eq!(curve("P-521"), []);
        assert_eq!(allowed(json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA" })), [Algorithm::EdDSA]);
        assert_eq!(allowed(json!({ "kty": "oct", "k": "AA" })), []);
        assert_eq!(allowed(json!({ "kty": "oct", "k": "AA", "alg": "HS256" })), []);
    }

    #[test]
    fn a_key_that_says_what_it_is_for_verifies_nothing_else() {
        assert_eq!(allowed(rsa(json!({ "alg": "RS256" }))), [Algorithm::RS256]);
        assert_eq!(allowed(rsa(json!({ "alg": "ES256" }))), []);
        assert_eq!(allowed(rsa(json!({ "use": "sig", "key_ops": ["verify"] }))).len(), 6);
        assert_eq!(allowed(rsa(json!({ "use": "enc" }))), []);
        assert_eq!(allowed(rsa(json!({ "key_ops": ["sign"] }))), []);
    }

    #[test]
    fn a_statement_without_a_key_id_is_read_only_if_one_key_alone_may_have_signed_it() {
        let found = |all: &Value, kid| find_key(&keys(all), kid, Algorithm::RS256).and_then(|key| key.common.key_id);
        let (one, two) = (rsa(json!({ "kid": "one" })), rsa(json!({ "kid": "two" })));
        let other_kind = json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "ed" });
        assert_eq!(found(&json!([other_kind, one]), None).as_deref(), Some("one"));
        assert_eq!(found(&json!([one, two]), None), None);
        assert_eq!(found(&json!([one, two]), Some("two")).as_deref(), Some("two"));
        assert_eq!(found(&json!([one, other_kind]), Some("ed")), None, "this key is for other algorithms");
        assert_eq!(found(&json!([one]), Some("three")), None);
    }

    #[test]
    fn keys_of_unknown_kinds_check_nothing_and_the_number_of_keys_is_bounded() {
        let known = keys(&json!([{ "kty": "of the future" }, 7, rsa(json!({ "kid": "one" }))]));
        let found = find_key(&known, None, Algorithm::RS256).and_then(|key| key.common.key_id);
        assert_eq!(found.as_deref(), Some("one"), "the only key that can check this algorithm");
        assert!(find_key(&keys(&json!([{ "kty": "of the future" }, 7])), None, Algorithm::RS256).is_none());
        assert_eq!(keys(&Value::from(vec![rsa(json!({})); MAX_KEYS + 1])).len(), MAX_KEYS);
    }

    #[test]
    fn an_issuer_may_leave_out_only_the_slash_of_an_address_without_a_path() {
        let (plain, with_path) = ("https://login.example/", "https://login.example/acme/");
        let is = |url: &str, issuer: &str| is_issuer(&url.parse().unwrap(), issuer);
        assert!(is(plain, plain) && is(plain, "https://login.example") && is(with_path, with_path));
        for other in ["https://login.example/acme", "https://login.example", "http://login.example/acme/", ""] {
            assert!(!is(with_path, other), "{other}");
        }
        assert!(!is(plain, "https://login.example//") && !is(plain, "HTTPS://login.example"));
    }

    #[test]
    fn claims_of_another_type_count_as_missing() {
        let claims = |value: Value| value.as_object().unwrap().clone();
        assert_eq!(ends_at(&claims(json!({ "exp": 1_700_000_000 }))), Some(1_700_000_000));
        assert_eq!(ends_at(&claims(json!({ "exp": 1_700_000_000.9 }))), Some(1_700_000_000));
        assert_eq!(ends_at(&claims(json!({ "exp": "1700000000" }))), None);
        let named = claims(json!({ "name": "Ann", "empty": "", "number": 7 }));
        let read = ["name", "empty", "number", "none"].map(|claim| text_of(&named, claim));
        assert_eq!(read, [Some("Ann"), None, None, None]);
    }

    #[test]
    fn a_statement_from_the_future_is_refused_beyond_the_leeway_of_clocks() {
        let now = chrono::Utc::now().timestamp();
        let check = |iat: Value| check_issued_at(json!({ "iat": iat }).as_object().unwrap()).is_ok();
        assert!(check_issued_at(&JwtClaims::new()).is_ok());
        assert!(check(json!(now - 1_000_000)) && check(json!(now + 30)) && check(json!(now as f64 + 0.5)));
        assert!(!check(json!(now + 300)) && !check(json!("now")));
    }
}
