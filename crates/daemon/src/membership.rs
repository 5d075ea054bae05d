//! The membership behind a request: the member of a team who sent it, and the store of the team. Handlers of the
//! control API use it to show and change members and tokens.

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use toolrack_host::Principal;
use toolrack_store::{MemberIdentity, TeamStore, TeamToken};
use toolrack_team::ProvedToken;

use crate::error::ApiError;

/// The member of a team who sent a request. The guard ([`crate::guard`]) has checked their token.
#[derive(Clone)]
pub(crate) struct Membership {
    /// The store of all tenants. Each use of it must name the tenant.
    pub(crate) store: TeamStore,
    /// The token, or browser session, with which the member sent the request.
    pub(crate) token: TeamToken,
}

impl Membership {
    /// The membership of the member whom the token proves. `None` for a token that an issuer signed, because the store
    /// does not have the member of such a token.
    pub(crate) fn of(store: &TeamStore, proved_token: &ProvedToken) -> Option<Self> {
        let token = proved_token.token()?.clone();
        Some(Self { store: store.clone(), token })
    }

    /// The member.
    pub(crate) fn member(&self) -> &Principal {
        &self.token.member
    }

    /// The tenant. The member sees and changes nothing outside of it.
    pub(crate) fn tenant(&self) -> &str {
        self.member().tenant()
    }

    /// The identity of the member.
    pub(crate) fn identity(&self) -> MemberIdentity<'_> {
        identity_of(self.member())
    }
}

/// The identity of `member`.
pub(crate) fn identity_of(member: &Principal) -> MemberIdentity<'_> {
    MemberIdentity { issuer: member.issuer(), subject: member.subject() }
}

/// The membership, or why there is none. A handler that takes this can first refuse other mistakes in the request.
pub(crate) type MembershipResult = Result<Membership, ApiError>;

impl<S: Sync> FromRequestParts<S> for Membership {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            ApiError::new(StatusCode::NOT_FOUND, "NO_TEAM", "you are not a member of a team that this daemon serves")
                .hint("the user of the daemon's machine uses `toolrack team`")
        })
    }
}
