//! Tenants of a team: each has a [world](crate::worlds) of its own. Only the principal of a request decides which world
//! answers it, and never the content of the request.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::{
    error::ApiError,
    guard,
    worlds::{Common, Worlds},
};

/// The tenants of a team.
pub(crate) struct Tenants {
    ids: BTreeSet<String>,
    worlds: Arc<Worlds>,
}

impl Tenants {
    /// The tenants `ids`.
    pub(crate) fn new(ids: BTreeSet<String>, common: Common) -> Arc<Self> {
        Arc::new(Self { ids, worlds: Worlds::new(common) })
    }

    /// Whether the team file has this tenant.
    pub(crate) fn has(&self, tenant: &str) -> bool {
        self.ids.contains(tenant)
    }

    /// Ends the world of the member of `tenant` with this key, and waits until its servers have ended.
    pub(crate) async fn end_member(&self, tenant: &str, member: &str) {
        let Some(world) = self.worlds.get(tenant) else { return };
        if let Some(members) = world.members.get() {
            (members.end)(member.to_owned()).await;
        }
    }
}

/// Passes the request of a member on to the world of its tenant. Routes without data of a tenant, such as the files of
/// the dashboard, are the same for all.
pub(crate) async fn of_member(State(tenants): State<Arc<Tenants>>, request: Request, next: Next) -> Response {
    match guard::member_of(&request) {
        Some(principal) if guard::is_protected(request.uri().path()) => {
            let tenant = principal.tenant();
            if !tenants.ids.contains(tenant) {
                return no_tenant(tenant).into_response();
            }
            tenants.worlds.answer(tenant, request).await
        }
        _ => next.run(request).await,
    }
}

fn no_tenant(tenant: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "NO_TENANT", format!("the team has no tenant `{tenant}` any more"))
        .hint("the operator of the team adds it to the team file, or moves you to another tenant")
}
