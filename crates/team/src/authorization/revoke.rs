//! Serves `POST /oauth/revoke`, with which a client revokes one of its tokens (RFC 7009). This also ends the grant to
//! which the token belongs: everything that a user allowed the client.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use toolrack_host::Principal;
use toolrack_store::{Purpose, RefreshUse, TokenFilter, TokenHash};

use super::{
    failure::{Failure, respond},
    token::{read_form, required},
};
use crate::{
    door::{FrontDoor, caller_of},
    random::RefreshToken,
    tokens::looks_like_token,
};

/// `POST /oauth/revoke`. An unknown token counts as revoked (RFC 7009, 2.2).
pub(crate) async fn revoke(State(door): State<Arc<FrontDoor>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&door, "revoke", revoke_grant(&door, &headers, &body).await).await
}

/// The grant of a token: the member has allowed the client to act for them.
struct TokenGrant {
    /// The id that all tokens of the grant share.
    family: String,
    client: String,
    member: Principal,
}

async fn revoke_grant(door: &FrontDoor, headers: &HeaderMap, body: &[u8]) -> Result<Response, Failure> {
    let form = read_form(headers, body)?;
    let token = required(&form, "token")?;
    let Some(grant) = find_grant(door, token).await? else { return Ok(StatusCode::OK.into_response()) };
    if form.get("client_id").is_some_and(|client| client != grant.client) {
        let failure = Failure::new("invalid_client", "the token was given to another client");
        return Err(failure.with_client(form.get("client_id")).with_member(&grant.member));
    }
    let caller = caller_of(&grant.member, Some(&grant.client));
    door.store.end_grant(&grant.family, &caller).await?;
    // Also revokes an access token that was stored after its grant had ended.
    door.store.revoke_tokens(TokenFilter::Family(&grant.family), &caller).await?;
    Ok(StatusCode::OK.into_response())
}

/// Finds the grant of a refresh token or an access token. `None` if the token is not known.
async fn find_grant(door: &FrontDoor, token: &str) -> Result<Option<TokenGrant>, Failure> {
    if let Some(refresh) = RefreshToken::read(token) {
        return Ok(match door.store.find_refresh(refresh.hash()).await? {
            RefreshUse::Good(grant) | RefreshUse::Used(grant) => {
                Some(TokenGrant { family: grant.family, client: grant.client, member: grant.member })
            }
            _ => None,
        });
    }
    if !looks_like_token(token) {
        return Ok(None);
    }
    let token = door.store.team_token(TokenHash::of(token)).await?.filter(|token| token.purpose == Purpose::Access);
    // Every access token has a family and a client.
    Ok(token.and_then(|token| {
        Some(TokenGrant { family: token.family?, client: token.client.unwrap_or_default(), member: token.member })
    }))
}
