//! Quotas: what may be used, and what is used of it.

use axum::{Extension, Json};
use serde::Serialize;
use serde_json::Value;
use toolrack_host::Principal;
use toolrack_team::{Holder, Usage};
use utoipa::ToSchema;

use super::{Answer, By, State};
use crate::{rights::Right, shown::seconds};

/// All quotas that a member may know of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Quotas {
    quotas: Vec<QuotaView>,
}

/// What is used of one quota.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quota)]
struct QuotaView {
    /// Who shares it: `member` for one member, `tenant` for all together, `profile` for all clients of a profile.
    of: &'static str,
    /// The member, by the id that `/api/v1/members` has.
    member: Option<String>,
    /// The name of the member or the profile; `null` for a member of whom only the id is known.
    name: Option<String>,
    /// Whether it is a quota of the member who sends this request.
    yours: bool,
    /// The setting of the team file, or of `toolrack.toml` for a profile.
    #[schema(example = "limits.each_member.tokens_per_day")]
    setting: String,
    /// `calls`, `result_bytes`, `tokens` or `dollars`.
    quantity: &'static str,
    /// `at_once`, `minute`, `hour`, `day` or `month`.
    window: &'static str,
    #[schema(value_type = f64)]
    used: Value,
    #[schema(value_type = f64)]
    limit: Value,
    /// When more can be used, in RFC 3339; `null` if it is not used up.
    free_at: Option<String>,
    /// When all of it can be used again, in RFC 3339; `null` if nothing is used, or if what runs decides that.
    renews_at: Option<String>,
}

impl QuotaView {
    fn of(usage: Usage, you: &str) -> Self {
        let (quantity, setting) = (usage.quota.quantity(), usage.setting());
        let (of, member, name) = match usage.holder {
            Holder::Tenant => ("tenant", None, None),
            Holder::Member { key, name } => ("member", Some(key), name),
            Holder::Profile { name } => ("profile", None, Some(name.to_string())),
        };
        Self {
            of,
            yours: member.as_deref() == Some(you),
            member,
            name,
            setting,
            quantity: quantity.word(),
            window: usage.quota.window().word(),
            used: quantity.number(usage.used),
            limit: quantity.number(usage.quota.most()),
            free_at: usage.free_at.map(seconds),
            renews_at: usage.renews_at.map(seconds),
        }
    }
}

/// The quotas of the member who asks, those that all members share, and those of profiles. A member with the right
/// `operate` also sees those of all other members who have used something.
#[utoipa::path(get, path = "/api/v1/quotas", tag = "quotas", responses((status = 200, body = Quotas)))]
pub(super) async fn list(Extension(world): State, By(caller): By) -> Answer<Quotas> {
    let (you, mut usage) = (caller.principal(), world.quotas.usage_of(caller.principal()));
    let key = you.key();
    if sees_all(you) {
        let is_other = |usage: &Usage| matches!(&usage.holder, Holder::Member { key: other, .. } if *other != key);
        usage.extend(world.quotas.usage().into_iter().filter(is_other));
    }
    Ok(Json(Quotas { quotas: usage.into_iter().map(|usage| QuotaView::of(usage, &key)).collect() }))
}

fn sees_all(principal: &Principal) -> bool {
    Right::Operate.is_of(principal)
}
