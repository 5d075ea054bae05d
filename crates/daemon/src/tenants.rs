//! Tenants of a team: each has a [world](crate::worlds) of its own (a host with its configuration, questions and
//! events). The principal of a request (the user or service that its token proves) decides which world answers it; the
//! content of the request never does.

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
    replicas::{FromSibling, Replicas, RouteOutcome, misdirected_request},
    world::World,
    worlds::{CommonParts, RequestNotRead, Worlds},
};

/// The tenants of a team.
pub(crate) struct Tenants {
    ids: BTreeSet<String>,
    worlds: Arc<Worlds>,
    /// The replicas that share the tenants; `None` if this daemon serves all tenants.
    replicas: Option<Arc<Replicas>>,
}

impl Tenants {
    /// Creates the tenants with these ids.
    pub(crate) fn new(ids: BTreeSet<String>, common: CommonParts, replicas: Option<Arc<Replicas>>) -> Arc<Self> {
        Arc::new(Self { ids, worlds: Worlds::new(common), replicas })
    }

    /// Whether the team file has this tenant.
    pub(crate) fn has(&self, tenant: &str) -> bool {
        self.ids.contains(tenant)
    }

    /// Whether this daemon serves the tenant, and not another replica.
    pub(crate) async fn serves(&self, tenant: &str) -> bool {
        match &self.replicas {
            Some(replicas) => replicas.is_home_of(tenant).await,
            None => true,
        }
    }

    /// The worlds of tenants that have begun and not ended, by the ids of the tenants.
    pub(crate) fn running(&self) -> Vec<(String, Arc<World>)> {
        self.worlds.running_worlds()
    }

    /// Ends the worlds of all tenants, and waits until their servers have ended.
    pub(crate) async fn end_all(&self) {
        self.worlds.end_where(|_| true).await;
    }

    /// Lets the world of `tenant` answer: here, or at the replica that serves the tenant (the tenant's home).
    async fn answer(&self, tenant: &str, request: Request) -> Response {
        let request = match &self.replicas {
            Some(replicas) => match replicas.route(tenant, request).await {
                RouteOutcome::ServeHere(request) => request,
                RouteOutcome::Answered(response) => return response,
            },
            None => request,
        };
        let is_from_sibling = request.extensions().get::<FromSibling>().is_some();
        let response = self.worlds.answer(tenant, request).await;
        // The replica that has forwarded the request (a sibling) waits for the next home, and sends the request there.
        if is_from_sibling && response.extensions().get::<RequestNotRead>().is_some() {
            misdirected_request()
        } else {
            response
        }
    }

    /// Ends the world of the member of `tenant` with this key, and waits until its servers have ended.
    pub(crate) async fn end_member(&self, tenant: &str, member: &str) {
        let Some(world) = self.worlds.get(tenant) else { return };
        if let Some(member_worlds) = world.member_worlds.get() {
            (member_worlds.end)(member.to_owned()).await;
        }
    }
}

/// Passes the request of a member on to the world of their tenant. Routes without data of a tenant, such as the files
/// of the dashboard, are the same for all tenants.
pub(crate) async fn to_tenant_world(State(tenants): State<Arc<Tenants>>, request: Request, next: Next) -> Response {
    match guard::member_of(&request) {
        Some(principal) if guard::is_protected(request.uri().path()) => {
            let tenant = principal.tenant();
            if !tenants.ids.contains(tenant) {
                return no_tenant(tenant).into_response();
            }
            tenants.answer(tenant, request).await
        }
        _ => next.run(request).await,
    }
}

/// The error for a member whose tenant is no longer in the team file.
fn no_tenant(tenant: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "NO_TENANT", format!("the team has no tenant `{tenant}` any more"))
        .hint("the operator of the team adds it to the team file, or moves you to another tenant")
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::any};
    use futures::FutureExt as _;
    use toolrack_host::{Principal, principal::Kind};
    use tower::ServiceExt as _;

    use super::*;
    use crate::worlds::tests::{broken, that_never_run};

    /// Returns the status of the answer to a request of `by` to `path`. The daemon's own world answers 200; the worlds
    /// of tenants do not begin.
    async fn status(by: Option<Principal>, path: &str) -> u16 {
        let ids = ["acme".to_owned()].into();
        let tenants = Tenants::new(ids, that_never_run(Box::new(|_, _| async { Err(broken()) }.boxed())), None);
        let router =
            Router::new().fallback(any(|| async { "own" })).layer(from_fn_with_state(tenants, to_tenant_world));
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        if let Some(by) = by {
            request.extensions_mut().insert(by);
        }
        router.oneshot(request).await.unwrap().status().as_u16()
    }

    fn of(tenant: &str) -> Option<Principal> {
        Some(Principal::new(Kind::Person, tenant, "https://login.example", "ann").unwrap())
    }

    #[tokio::test]
    async fn a_member_reaches_only_the_world_of_their_own_tenant() {
        for path in ["/mcp", "/p/review/mcp", "/api/v1/servers", "/api/v1/servers?tenant=bolt", "/metrics"] {
            assert_eq!(status(of("acme"), path).await, 503, "{path}: the world of acme, which does not begin");
            assert_eq!(status(of("gone"), path).await, 403, "{path}: the team file has no such tenant any more");
            assert_eq!(status(Some(Principal::LOCAL), path).await, 200, "{path}");
        }
    }

    #[tokio::test]
    async fn a_sibling_may_send_a_request_elsewhere_that_a_world_which_ends_has_not_read() {
        let never = that_never_run(Box::new(|_, _| std::future::pending().boxed()));
        let tenants = Tenants::new(["acme".to_owned()].into(), never, None);
        let mut forwarded = Request::new(Body::empty());
        forwarded.extensions_mut().insert(FromSibling);
        let stop = async {
            while !tenants.worlds.is_running("acme") {
                tokio::task::yield_now().await;
            }
            tenants.worlds.stop("acme");
        };
        let own = tenants.answer("acme", Request::new(Body::empty()));
        let (own, forwarded, ()) = tokio::join!(own, tenants.answer("acme", forwarded), stop);
        assert_eq!((own.status().as_u16(), forwarded.status().as_u16()), (503, 421));
    }

    #[tokio::test]
    async fn files_without_data_of_a_tenant_are_the_same_for_all() {
        for path in ["/", "/app.js", "/health"] {
            for by in [None, of("acme"), of("gone")] {
                assert_eq!(status(by, path).await, 200, "{path}");
            }
        }
    }
}
