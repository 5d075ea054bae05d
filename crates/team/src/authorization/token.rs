//! Serves `POST /oauth/token`, with which a client gets tokens for a code, and new tokens for a refresh token (OAuth
//! 2.1, 4.1.3 and 4.3). The [`FrontDoor`] holds the endpoints of the team and the store.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use chrono::{TimeDelta, Utc};
use http::{
    HeaderMap,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use toolrack_store::{CodeUse, Grant, MemberIdentity, NewToken, Purpose, RefreshUse, TokenFilter, TokenHash};

use super::{
    failure::{Failure, respond},
    request::granted_scope,
};
use crate::{
    door::{FrontDoor, caller_of},
    endpoint::Endpoint,
    parameters::Parameters,
    random::RefreshToken,
    tokens::Secret,
};

/// How long an access token is valid.
const ACCESS_TOKEN_LIFETIME: TimeDelta = TimeDelta::hours(1);
/// The maximum number of access tokens of one grant that are valid at the same time. A client that has this many
/// must wait until one of them expires.
const MAX_ACCESS_TOKENS: usize = 8;
/// The allowed lengths of a PKCE verifier, in bytes (RFC 7636, 4.1).
const VERIFIER_LENGTHS: std::ops::RangeInclusive<usize> = 43..=128;

/// `POST /oauth/token`.
pub(crate) async fn token(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&door, "token", exchange(&door, &headers, &body).await).await
}

/// Reads the request, and exchanges the code or the refresh token in it for tokens.
async fn exchange(door: &FrontDoor, headers: &HeaderMap, body: &[u8]) -> Result<Response, Failure> {
    let form = read_form(headers, body)?;
    let client = required(&form, "client_id")?;
    let result = match form.get("grant_type") {
        Some("authorization_code") => exchange_code(door, &form, client).await,
        Some("refresh_token") => exchange_refresh_token(door, &form, client).await,
        Some(_) => Err(Failure::new("unsupported_grant_type", "only codes and refresh tokens are served here")),
        None => Err(Failure::new("invalid_request", "the parameter grant_type is missing")),
    };
    result.map_err(|failure| failure.with_client(Some(client)))
}

/// Reads the parameters of a public client. Fails if a parameter occurs twice, or if the header `Authorization` is
/// there.
pub(super) fn read_form(headers: &HeaderMap, body: &[u8]) -> Result<Parameters, Failure> {
    let invalid = |why: &str| Failure::new("invalid_request", why);
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(invalid("the request must be application/x-www-form-urlencoded"));
    }
    // A secret in the body is ignored, like every parameter that is not known here (RFC 6749, 3.2).
    if headers.contains_key(AUTHORIZATION) {
        let why = "only public clients are served here: send client_id as a parameter, without a secret";
        return Err(Failure::new("invalid_client", why));
    }
    let text = std::str::from_utf8(body).map_err(|_| invalid("the request is not UTF-8"))?;
    let form = Parameters::read(text).ok_or_else(|| invalid("the request is longer than 16 KiB"))?;
    if let Some(repeated) = form.repeated() {
        return Err(invalid(&format!("the parameter {} occurs twice", toolrack_host::text::for_line(repeated))));
    }
    Ok(form)
}

/// Returns the value of a parameter. Fails if it is missing.
pub(super) fn required<'a>(form: &'a Parameters, name: &str) -> Result<&'a str, Failure> {
    form.get(name).ok_or_else(|| Failure::new("invalid_request", format!("the parameter {name} is missing")))
}

/// Exchanges a code for tokens. A code that does not belong to this request was perhaps stolen: its grant ends, and
/// with it all tokens that were issued for the code.
async fn exchange_code(door: &FrontDoor, form: &Parameters, client: &str) -> Result<Response, Failure> {
    let (code, verifier) = (required(form, "code")?, required(form, "code_verifier")?);
    // Clients of OAuth 2.0 send `redirect_uri`. Clients of OAuth 2.1 do not, because PKCE ties the code to its request
    // (OAuth 2.1, 10.2).
    let redirect_uri = form.get("redirect_uri");
    let endpoint = requested_endpoint(door, form)?;
    let (grant, why) = match door.store.take_code(TokenHash::of(code)).await? {
        CodeUse::Good(grant) => {
            match code_mismatch(&grant, client, redirect_uri, verifier)
                .or_else(|| endpoint_mismatch(door, &grant, endpoint))
            {
                None => {
                    let refresh = RefreshToken::first()?;
                    // Stored first: if the grant ends before the next line runs, `end_grant` also revokes these tokens.
                    let tokens = issue_tokens(door, &grant, &refresh).await?;
                    let was_set = door.store.set_first_refresh(&grant.family, refresh.hash()).await?;
                    if was_set {
                        return Ok(tokens);
                    }
                    (grant, "the grant ended meanwhile")
                }
                Some(why) => (grant, why),
            }
        }
        CodeUse::Used(grant) => (grant, "the code was used before: all tokens that were issued for it are revoked"),
        _ => return Err(Failure::new("invalid_grant", "there is no such code, or it is older than 60 seconds")),
    };
    end_grant(door, &grant, why).await
}

/// Returns the reason why a code does not belong to the request. `None` if it does.
fn code_mismatch(grant: &Grant, client: &str, redirect_uri: Option<&str>, verifier: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    if grant.client != client {
        Some("the code was given to another client")
    } else if redirect_uri.is_some_and(|redirect_uri| grant.redirect_uri != redirect_uri) {
        Some("the code was sent to another redirect_uri")
    } else if !VERIFIER_LENGTHS.contains(&verifier.len()) || !verifier.bytes().all(is_allowed) {
        Some("the code_verifier must have 43 to 128 of the characters that PKCE allows")
    } else if !bool::from(challenge.as_bytes().ct_eq(grant.challenge.as_bytes())) {
        Some("the code_verifier does not belong to the code")
    } else {
        None
    }
}

/// Exchanges a refresh token for an access token and the next refresh token. A refresh token that was used before was
/// perhaps stolen, so the grant ends (OAuth 2.1, 4.3.1). This also hits a client that lost the answer and repeats its
/// request: the server cannot tell it from a thief.
async fn exchange_refresh_token(door: &FrontDoor, form: &Parameters, client: &str) -> Result<Response, Failure> {
    let unknown = || Failure::new("invalid_grant", "there is no such refresh token, or its grant has ended");
    let old_token = RefreshToken::read(required(form, "refresh_token")?).ok_or_else(unknown)?;
    let endpoint = requested_endpoint(door, form)?;
    // Only checks the scope: there is one scope, which the grant has.
    granted_scope(form.get("scope")).map_err(|(code, why)| Failure::new(code, why))?;
    let grant = match door.store.find_refresh(old_token.hash()).await? {
        RefreshUse::Good(grant) if grant.client == client => grant,
        RefreshUse::Good(grant) => {
            return end_grant(door, &grant, "the refresh token was given to another client").await;
        }
        RefreshUse::Used(grant) => return end_grant(door, &grant, REFRESH_TOKEN_REUSED).await,
        _ => return Err(unknown()),
    };
    if let Some(why) = endpoint_mismatch(door, &grant, endpoint) {
        // The grant stays: unlike a code, the refresh token is not used up yet, so the client may try again.
        return Err(Failure::new("invalid_target", why).with_member(&grant.member));
    }
    if door.team.tenant(grant.member.tenant()).is_none() {
        return end_grant(door, &grant, "the tenant of this member no longer belongs to the team").await;
    }
    // The store leaves out expired tokens.
    if door.store.team_tokens(TokenFilter::Family(&grant.family)).await?.len() >= MAX_ACCESS_TOKENS {
        let why = "this client renews its tokens too often: its present tokens are valid for up to an hour";
        return Err(Failure::too_many(why).with_member(&grant.member));
    }
    let next_token = old_token.next()?;
    let (secret, access) = access_token(door, &grant)?;
    let caller = caller_of(&grant.member, Some(&grant.client_name));
    // Both tokens have the same handle, so the store needs only the hash of the whole next token.
    if !door.store.renew_grant(&grant, (old_token.hash(), next_token.hash().token), &access, &caller).await? {
        return end_grant(door, &grant, REFRESH_TOKEN_REUSED).await;
    }
    Ok(response(&grant, &secret, &next_token))
}

/// The reason why a grant ends after its refresh token was used twice.
const REFRESH_TOKEN_REUSED: &str = "the refresh token was used before: all tokens of its grant are revoked";

/// Ends a grant whose tokens were perhaps stolen, and revokes its access tokens. Always returns an error, which says
/// why.
async fn end_grant(door: &FrontDoor, grant: &Grant, why: &str) -> Result<Response, Failure> {
    let caller = caller_of(&grant.member, Some(&grant.client_name));
    door.store.end_grant(&grant.family, &caller).await?;
    // This also revokes the access token that `exchange_code` stores before it learns that the grant has ended.
    door.store.revoke_tokens(TokenFilter::Family(&grant.family), &caller).await?;
    Err(Failure::new("invalid_grant", why).with_member(&grant.member))
}

/// Returns the MCP endpoint that the client names. `None` if the client names no endpoint, which means the endpoint of
/// its grant (RFC 8707, 2.2).
fn requested_endpoint<'f>(door: &FrontDoor, form: &'f Parameters) -> Result<Option<Endpoint<'f>>, Failure> {
    if form.all("resource").next().is_none() {
        return Ok(None);
    }
    door.endpoint_in(form).map(Some).map_err(|why| Failure::new("invalid_target", why))
}

/// Returns the reason why `grant` allows no tokens for the endpoint that the client names. `None` if it allows them.
fn endpoint_mismatch(door: &FrontDoor, grant: &Grant, requested: Option<Endpoint<'_>>) -> Option<&'static str> {
    let is_other = requested.is_some_and(|requested| door.endpoint_of(&grant.resource) != Some(requested));
    is_other.then_some("the person allowed another MCP endpoint than the parameter resource names")
}

/// Creates an access token of `grant`. Returns the token, and the data for the store.
fn access_token(door: &FrontDoor, grant: &Grant) -> Result<(Secret, NewToken), Failure> {
    // The address of the team may have changed after the user agreed.
    let endpoint = door.endpoint_of(&grant.resource).ok_or_else(|| {
        Failure::new("invalid_grant", "the person allowed an MCP endpoint that this server no longer has")
    })?;
    let secret = Secret::new(Purpose::Access)?;
    let token = NewToken {
        hash: secret.hash(),
        purpose: Purpose::Access,
        label: grant.client_name.clone(),
        client: Some(grant.client.clone()),
        family: Some(grant.family.clone()),
        profile: endpoint.profile().map(ToOwned::to_owned),
        // Never `None` (no end): the current time plus this lifetime cannot overflow.
        ends_at: Utc::now().checked_add_signed(ACCESS_TOKEN_LIFETIME),
    };
    Ok((secret, token))
}

/// Creates and stores the first access token of `grant`. Returns the response with it and with `refresh`.
async fn issue_tokens(door: &FrontDoor, grant: &Grant, refresh: &RefreshToken) -> Result<Response, Failure> {
    let (secret, token) = access_token(door, grant)?;
    let owner = MemberIdentity { issuer: grant.member.issuer(), subject: grant.member.subject() };
    let stored_token =
        door.store.keep_token(owner, &token, &caller_of(&grant.member, Some(&grant.client_name))).await?;
    if stored_token.is_none() {
        return Err(
            Failure::new("invalid_grant", "this member is no longer one of the team").with_member(&grant.member)
        );
    }
    Ok(response(grant, &secret, refresh))
}

/// Returns the response with both tokens (RFC 6749, 5.1). [`respond`] adds `Cache-Control: no-store`.
fn response(grant: &Grant, access: &Secret, refresh: &RefreshToken) -> Response {
    let body = json!({
        "access_token": access.reveal(),
        "token_type": "Bearer",
        "expires_in": ACCESS_TOKEN_LIFETIME.num_seconds(),
        "refresh_token": refresh.reveal(),
        "scope": grant.scope,
    });
    Json(body).into_response()
}
