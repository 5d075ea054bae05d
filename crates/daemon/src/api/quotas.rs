//! Lists quotas (limits on what members and clients of a profile may use), and how much of each is used. The world that
//! answers a request is a host with its configuration, questions and events.

use axum::{Extension, Json};
use serde::Serialize;
use toolrack_host::Principal;
use toolrack_team::{Holder, Usage};
use utoipa::ToSchema;

use super::{JsonResult, SentBy, WorldExtension};
use crate::{rights::Right, shown::quotas::QuotaUsage};

/// The quotas that a member may see.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Quotas {
    quotas: Vec<QuotaView>,
}

/// The use of a quota.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quota)]
struct QuotaView {
    #[serde(flatten)]
    usage: QuotaUsage,
    /// Whether it is a quota of the member who sends this request.
    yours: bool,
}

impl QuotaView {
    fn of(usage: Usage, caller_key: &str) -> Self {
        let usage = QuotaUsage::from(usage);
        Self { yours: usage.member.as_deref() == Some(caller_key), usage }
    }
}

/// The caller's own quotas, the quotas that all members share, and those of profiles. A caller with the right `operate`
/// also sees the quotas of other members, as soon as these have used something.
#[utoipa::path(get, path = "/api/v1/quotas", tag = "quotas", responses((status = 200, body = Quotas)))]
pub(super) async fn list(Extension(world): WorldExtension, SentBy(caller): SentBy) -> JsonResult<Quotas> {
    let (principal, mut usage) = (caller.principal(), world.quotas.usage_of(caller.principal()));
    let key = principal.key();
    if may_see_all(principal) {
        let is_other = |usage: &Usage| matches!(&usage.holder, Holder::Member { key: other, .. } if *other != key);
        usage.extend(world.quotas.usage().into_iter().filter(is_other));
    }
    Ok(Json(Quotas { quotas: usage.into_iter().map(|usage| QuotaView::of(usage, &key)).collect() }))
}

fn may_see_all(principal: &Principal) -> bool {
    Right::Operate.is_held_by(principal)
}
