//! The form in which the API and `toolrack --json` show the use of quotas.

use serde::Serialize;
use serde_json::Value;
use toolrack_team::{Holder, Usage};
use utoipa::ToSchema;

use super::rfc3339_seconds;

/// The use of a quota.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuotaUsage {
    /// Who shares it: `member` for one member, `tenant` for all together, `profile` for all clients of a profile.
    of: &'static str,
    /// The member, by the id that `/api/v1/members` has.
    pub(crate) member: Option<String>,
    /// The name of the member or the profile; `null` for a member of whom only the id is known.
    name: Option<String>,
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
    /// When more can be used, in RFC 3339; `null` if the quota is not used up.
    free_at: Option<String>,
    /// When all of it can be used again, in RFC 3339; `null` if nothing is used, or if that depends on running calls.
    renews_at: Option<String>,
}

impl From<Usage> for QuotaUsage {
    fn from(usage: Usage) -> Self {
        let (quantity, setting) = (usage.quota.quantity(), usage.setting());
        let (of, member, name) = match usage.holder {
            Holder::Tenant => ("tenant", None, None),
            Holder::Member { key, name } => ("member", Some(key), name),
            Holder::Profile { name } => ("profile", None, Some(name.to_string())),
        };
        Self {
            of,
            member,
            name,
            setting,
            quantity: quantity.word(),
            window: usage.quota.window().word(),
            used: quantity.number(usage.used),
            limit: quantity.number(usage.quota.limit()),
            free_at: usage.free_at.map(rfc3339_seconds),
            renews_at: usage.renews_at.map(rfc3339_seconds),
        }
    }
}
