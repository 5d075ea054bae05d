//! Lists and changes the members of the caller's own tenant, for its administrators.

use std::collections::HashMap;

use axum::{Json, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use toolrack_host::{Caller, Principal, principal::Role};
use toolrack_store::{GrantFilter, MemberChange, MemberChangeOutcome, TokenFilter};
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, Path, SentBy, access, no_content};
use crate::{
    membership::{Membership, MembershipResult, identity_of},
    rights::Right,
    shown::team::{AccessCounts, ListedMember},
};

/// The members of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Members {
    members: Vec<ListedMember>,
}

/// The new role of a member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRole {
    /// `viewer`, `user`, `operator`, `auditor`, `admin` or `scraper`.
    #[schema(value_type = String, example = "operator")]
    role: Role,
}

/// The members of the caller's own tenant, by name.
#[utoipa::path(get, path = "/api/v1/members", tag = "members",
    responses((status = 200, body = Members), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn list(membership: MembershipResult) -> JsonResult<Members> {
    let membership = membership?;
    let (store, tenant) = (&membership.store, membership.tenant());
    let mut access_counts: HashMap<(String, String), AccessCounts> = HashMap::new();
    let identity_key = |member: &Principal| (member.issuer().to_owned(), member.subject().to_owned());
    for token in store.team_tokens(TokenFilter::OfTenant(tenant)).await? {
        access_counts.entry(identity_key(&token.member)).or_default().add_token(&token);
    }
    for grant in store.grants(GrantFilter::OfTenant(tenant)).await? {
        access_counts.entry(identity_key(&grant.member)).or_default().add_grant(&grant);
    }
    let members = store.members(Some(tenant)).await?;
    let listed_members = members.iter().map(|member| {
        let member_counts = access_counts.remove(&identity_key(member)).unwrap_or_default();
        ListedMember::of(member, &member_counts, member.is_same(membership.member()))
    });
    Ok(Json(Members { members: listed_members.collect() }))
}

/// Gives a member another role, which the member keeps when they sign in again. The caller must have all rights of that
/// role, and the tenant must keep an administrator.
#[utoipa::path(put, path = "/api/v1/members/{member}", tag = "members", params(("member" = String, Path)),
    request_body = NewRole,
    responses((status = 204), (status = 403, body = ApiError), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn change(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Path(id): Path<String>,
    Body(NewRole { role }): Body<NewRole>,
) -> Result<Response, ApiError> {
    let membership = membership?;
    let member = find_member(&membership, &id).await?;
    let admin = membership.member();
    let exceeds_own_rights = |right: &Right| right.is_held_by_role(role) && !right.is_held_by(admin);
    if let Some(right) = Right::ALL.iter().find(|right| exceeds_own_rights(right)) {
        let (missing_right, own_role) = (right.word(), admin.role().word());
        let message = format!(
            "the role `{}` has the right `{missing_right}`, which your own role `{own_role}` lacks",
            role.word()
        );
        return Err(
            ApiError::new(StatusCode::FORBIDDEN, "NO_RIGHT", message).hint("give a role without rights that you lack")
        );
    }
    apply_change(&membership, &member, MemberChange::Role(role), &caller).await
}

/// Removes a member, and ends their sessions, tokens and clients. The tenant must keep an administrator.
#[utoipa::path(delete, path = "/api/v1/members/{member}", tag = "members", params(("member" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn remove(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let membership = membership?;
    let member = find_member(&membership, &id).await?;
    apply_change(&membership, &member, MemberChange::Remove, &caller).await
}

/// The personal tokens of a member, and the browsers that they are signed in with.
#[utoipa::path(get, path = "/api/v1/members/{member}/tokens", tag = "members", params(("member" = String, Path)),
    responses((status = 200, body = access::MemberTokens), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn tokens(membership: MembershipResult, Path(id): Path<String>) -> JsonResult<access::MemberTokens> {
    let membership = membership?;
    let member = find_member(&membership, &id).await?;
    access::tokens_of(&membership, &member).await
}

/// Revokes a personal token of a member and the tokens that were made with it, or ends a browser session.
#[utoipa::path(delete, path = "/api/v1/members/{member}/tokens/{token}", tag = "members",
    params(("member" = String, Path), ("token" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn revoke_token(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Path((id, token)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let membership = membership?;
    let member = find_member(&membership, &id).await?;
    access::revoke_token_of(&membership, &member, &token, &caller).await
}

/// The clients that act in the name of a member.
#[utoipa::path(get, path = "/api/v1/members/{member}/clients", tag = "members", params(("member" = String, Path)),
    responses((status = 200, body = access::MemberClients), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn clients(membership: MembershipResult, Path(id): Path<String>) -> JsonResult<access::MemberClients> {
    let membership = membership?;
    let member = find_member(&membership, &id).await?;
    access::clients_of(&membership, &member).await
}

/// Withdraws a member's permission for a client, whose tokens are then no longer valid.
#[utoipa::path(delete, path = "/api/v1/members/{member}/clients/{client}", tag = "members",
    params(("member" = String, Path), ("client" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn end_client(
    membership: MembershipResult,
    SentBy(caller): SentBy,
    Path((id, client)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let membership = membership?;
    let member = find_member(&membership, &id).await?;
    access::end_client_of(&membership, &member, &client, &caller).await
}

/// Returns the member of the caller's tenant with this id. The answer does not reveal whether another tenant has such a
/// member.
async fn find_member(membership: &Membership, id: &str) -> Result<Principal, ApiError> {
    let members = membership.store.members(Some(membership.tenant())).await?;
    members.into_iter().find(|member| member.key() == id).ok_or_else(no_member)
}

fn no_member() -> ApiError {
    ApiError::not_found("your tenant has no such member").hint("GET /api/v1/members lists all of them")
}

/// Changes or removes a member for `caller`, and answers the request.
async fn apply_change(
    membership: &Membership,
    member: &Principal,
    change: MemberChange,
    caller: &Caller,
) -> Result<Response, ApiError> {
    match membership.store.change_member(membership.tenant(), identity_of(member), change, caller).await? {
        MemberChangeOutcome::LastAdmin => {
            let message = "you are the only administrator of your tenant, and it must keep one";
            Err(ApiError::new(StatusCode::CONFLICT, "LAST_ADMIN", message)
                .hint("give another member the role `admin` first"))
        }
        MemberChangeOutcome::Done => Ok(no_content()),
        // Another administrator has removed the member meanwhile.
        _ => Err(no_member()),
    }
}

#[cfg(test)]
mod tests;
