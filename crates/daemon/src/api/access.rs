//! The access of a member: personal tokens, browser sessions, and the clients that act in their name.

use axum::{Json, http::StatusCode, response::Response};
use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use toolrack_host::{Caller, Principal, text};
use toolrack_store::{GrantFilter, NewToken, Purpose, TeamToken, TokenFilter};
use toolrack_team::Secret;
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, Path, SentBy, no_content};
use crate::{
    membership::{Membership, MembershipResult, identity_of},
    shown::{
        rfc3339_seconds,
        team::{Client, OwnToken},
    },
};

/// The maximum number of personal tokens that a member can make with this API.
const MAX_TOKENS: usize = 50;
/// The maximum length of a label, in bytes.
const MAX_LABEL_BYTES: usize = 128;
/// How long a token lasts if the request does not say, in days.
const DEFAULT_DAYS: u32 = 90;
/// The maximum time that a token lasts, in days.
const MAX_DAYS: u32 = 365;

/// The personal tokens of a member, and the browsers that they are signed in with.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemberTokens {
    tokens: Vec<OwnToken>,
}

/// The clients that act in the name of a member.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemberClients {
    clients: Vec<Client>,
}

/// A personal token to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedToken {
    /// The purpose of the token: one line of at most 128 bytes.
    #[serde(default)]
    #[schema(example = "my laptop")]
    label: String,
    /// How many days it lasts: 1 to 365, and 90 by default. A token that is made with another token ends no later than
    /// that one.
    #[schema(minimum = 1, maximum = 365)]
    days: Option<u32>,
}

/// A personal token, which is shown this one time.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeToken {
    /// The token itself. It acts as its member, with the role that the member has at that time.
    token: String,
    id: String,
    label: String,
    /// In RFC 3339.
    ends_at: String,
}

/// The caller's own personal tokens, and the browsers that they are signed in with.
#[utoipa::path(get, path = "/api/v1/me/tokens", tag = "me",
    responses((status = 200, body = MemberTokens), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn list(membership: MembershipResult) -> JsonResult<MemberTokens> {
    let membership = membership?;
    tokens_of(&membership, membership.member()).await
}

/// Makes a personal token of the caller. Without `days`, a token that is made with another token ends with that one if
/// that one ends sooner.
#[utoipa::path(post, path = "/api/v1/me/tokens", tag = "me", request_body = WantedToken,
    responses((status = 200, body = MadeToken), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(super) async fn make(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Body(request): Body<WantedToken>,
) -> JsonResult<MadeToken> {
    let membership = membership?;
    let ends_at = token_end(&request, &membership.token, Utc::now())?;
    let label = request.label.trim();
    if label.len() > MAX_LABEL_BYTES || text::for_line(label) != label {
        let message = format!("a label is one line of at most {MAX_LABEL_BYTES} bytes");
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_LABEL", message));
    }
    let existing_tokens = membership.store.team_tokens(TokenFilter::Of(membership.identity())).await?;
    if existing_tokens.iter().filter(|token| token.purpose == Purpose::Personal).count() >= MAX_TOKENS {
        let message = format!("you have {MAX_TOKENS} personal tokens already");
        return Err(ApiError::new(StatusCode::CONFLICT, "TOO_MANY_TOKENS", message).hint("revoke one first"));
    }
    let secret = Secret::new(Purpose::Personal)
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "NO_RANDOM", error.to_string()))?;
    let new_token =
        NewToken { label: label.to_owned(), ends_at: Some(ends_at), ..NewToken::new(secret.hash(), Purpose::Personal) };
    let current_token = &membership.token;
    // A browser session lasts only hours, so a token that the user makes in it outlives the session.
    let new_token =
        if current_token.purpose == Purpose::Personal { new_token.made_with(&current_token.id) } else { new_token };
    let id = membership.store.keep_token(membership.identity(), &new_token, &caller).await?;
    let id =
        id.ok_or_else(|| ApiError::not_found("you were removed from the team, or your token was revoked, meanwhile"))?;
    Ok(Json(MadeToken {
        token: secret.reveal().to_owned(),
        id,
        label: label.to_owned(),
        ends_at: rfc3339_seconds(ends_at),
    }))
}

/// When the requested token ends. `current_token` is the token with which the request is sent.
///
/// # Errors
/// When the request asks for more days than the token may last, or for none.
fn token_end(request: &WantedToken, current_token: &TeamToken, now: DateTime<Utc>) -> Result<DateTime<Utc>, ApiError> {
    let days = request.days.unwrap_or(DEFAULT_DAYS);
    let bad_lifetime = |message: String| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_LIFETIME", message);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(bad_lifetime(format!("a token lasts 1 to {MAX_DAYS} days")));
    }
    let end = now + Duration::days(days.into());
    let latest_end = current_token.ends_at.filter(|_| current_token.purpose == Purpose::Personal);
    match latest_end {
        Some(latest_end) if end > latest_end && request.days.is_some() => {
            let message = "a token that is made with a token ends no later than that one, on ".to_owned();
            Err(bad_lifetime(message + &rfc3339_seconds(latest_end)).hint("sign in to make one that lasts longer"))
        }
        Some(latest_end) => Ok(end.min(latest_end)),
        None => Ok(end),
    }
}

/// Revokes a personal token of the caller and the tokens that were made with it, or ends one of the caller's sessions.
#[utoipa::path(delete, path = "/api/v1/me/tokens/{token}", tag = "me", params(("token" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn revoke(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Path(token): Path<String>,
) -> Result<Response, ApiError> {
    let membership = membership?;
    revoke_token_of(&membership, membership.member(), &token, &caller).await
}

/// Signs the caller out of every browser.
#[utoipa::path(delete, path = "/api/v1/me/sessions", tag = "me",
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn sign_out(membership: MembershipResult, SentBy(caller): SentBy) -> Result<Response, ApiError> {
    let membership = membership?;
    let tokens = membership.store.team_tokens(TokenFilter::Of(membership.identity())).await?;
    // End the session of this request last, so that after a failure the caller can still try again.
    let (current_session, other_sessions): (Vec<_>, Vec<_>) = tokens
        .into_iter()
        .filter(|token| token.purpose == Purpose::Browser)
        .partition(|token| token.id == membership.token.id);
    for token in other_sessions.iter().chain(&current_session) {
        membership.store.revoke_tokens(TokenFilter::Id(&token.id), &caller).await?;
    }
    Ok(no_content())
}

/// The clients that act in the caller's own name.
#[utoipa::path(get, path = "/api/v1/me/clients", tag = "me",
    responses((status = 200, body = MemberClients), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn clients(membership: MembershipResult) -> JsonResult<MemberClients> {
    let membership = membership?;
    clients_of(&membership, membership.member()).await
}

/// Withdraws the caller's permission for a client, whose tokens are then no longer valid.
#[utoipa::path(delete, path = "/api/v1/me/clients/{client}", tag = "me", params(("client" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn end_client(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Path(client): Path<String>,
) -> Result<Response, ApiError> {
    let membership = membership?;
    end_client_of(&membership, membership.member(), &client, &caller).await
}

/// The tokens and sessions of `member`. The tokens of clients are not included: see [`clients_of`].
pub(super) async fn tokens_of(membership: &Membership, member: &Principal) -> JsonResult<MemberTokens> {
    let tokens = membership.store.team_tokens(TokenFilter::Of(identity_of(member))).await?.into_iter();
    let tokens = tokens.filter(|token| token.purpose != Purpose::Access);
    Ok(Json(MemberTokens { tokens: tokens.map(|token| OwnToken::of(&token, &membership.token.id)).collect() }))
}

/// Revokes a token of `member`, or ends one of their browser sessions.
pub(super) async fn revoke_token_of(
    membership: &Membership,
    member: &Principal,
    id: &str,
    caller: &Caller,
) -> Result<Response, ApiError> {
    let no_token_error = || ApiError::not_found("the member has no such token");
    let tokens = membership.store.team_tokens(TokenFilter::Of(identity_of(member))).await?;
    let token =
        tokens.iter().find(|token| token.id == id && token.purpose != Purpose::Access).ok_or_else(no_token_error)?;
    match membership.store.revoke_tokens(TokenFilter::Id(&token.id), caller).await? {
        // Another request has revoked it meanwhile.
        0 => Err(no_token_error()),
        _ => Ok(no_content()),
    }
}

/// The clients that act in the name of `member`.
pub(super) async fn clients_of(membership: &Membership, member: &Principal) -> JsonResult<MemberClients> {
    let grants = membership.store.grants(GrantFilter::Of(identity_of(member))).await?;
    Ok(Json(MemberClients { clients: grants.into_iter().map(Client::from).collect() }))
}

/// Withdraws the permission of `member` for a client.
pub(super) async fn end_client_of(
    membership: &Membership,
    member: &Principal,
    id: &str,
    caller: &Caller,
) -> Result<Response, ApiError> {
    let no_client_error = || ApiError::not_found("no such client acts in the name of the member");
    let grants = membership.store.grants(GrantFilter::Of(identity_of(member))).await?;
    // The id of a grant is the family of its tokens.
    let grant = grants.iter().find(|grant| grant.family == id).ok_or_else(no_client_error)?;
    match membership.store.end_grant(&grant.family, caller).await? {
        true => Ok(no_content()),
        // Another request has ended the grant meanwhile.
        false => Err(no_client_error()),
    }
}
