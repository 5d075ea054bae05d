//! Runs `toolrack team quotas`, which shows how much of their quotas all tenants have used. A team has tenants, each
//! with servers and data of its own, and each tenant has members: people and services. A quota belongs to a tenant, to
//! each of its members, or to the clients of a profile.

use serde::Serialize;
use toolrack_daemon::shown::{quotas::QuotaUsage, rfc3339_seconds};
use toolrack_host::text;
use toolrack_team::{Holder, Tenant, TenantQuotas, Usage};

use super::{args::TeamQuotasArgs, audit::selected_tenants};
use crate::{
    context::Context,
    database,
    error::{Exit, Failure},
    render::{Cell, Tone, columns},
    team_file,
    verbs::serving::serve::team::open_tenant_store,
};

/// `team quotas --json`.
#[derive(Debug, Serialize)]
struct QuotasDocument {
    quotas: Vec<TenantUsage>,
}

/// The use of a quota of a tenant.
#[derive(Debug, Serialize)]
struct TenantUsage {
    tenant: String,
    #[serde(flatten)]
    usage: QuotaUsage,
}

pub(super) async fn run(args: &TeamQuotasArgs, context: &Context) -> Result<Exit, Failure> {
    let file = team_file::read(&args.team)?;
    let mut usages = Vec::new();
    for tenant in selected_tenants(&file, args.tenant.as_deref())? {
        usages.extend(tenant_usage(tenant, context).await?.into_iter().map(|usage| (tenant, usage)));
    }
    if context.screen.prints_json() {
        let row = |(tenant, usage): (&Tenant, Usage)| TenantUsage { tenant: tenant.id.clone(), usage: usage.into() };
        let quotas = usages.into_iter().map(row).collect();
        context.screen.document(&QuotasDocument { quotas }).await?;
        return Ok(Exit::Ok);
    }
    if usages.is_empty() {
        context
            .screen
            .note("the team has no quota of a minute or longer; `[tenants.limits]` of the team file sets them");
    }
    context.screen.page(page(&usages)).await?;
    Ok(Exit::Ok)
}

/// Returns the use of the quotas of a tenant.
async fn tenant_usage(tenant: &Tenant, context: &Context) -> Result<Vec<Usage>, Failure> {
    let quotas = TenantQuotas::new(&tenant.id, tenant.limits.clone());
    // A tenant without a store has used nothing yet.
    if let Some(store) = open_tenant_store(tenant, context.database_server()).await? {
        let result = quotas.resume(&store).await;
        store.close_at_exit().await;
        result.map_err(|error| database::unusable(&error))?;
    }
    Ok(quotas.stored_usage())
}

/// Returns a line for each quota.
fn page(usages: &[(&Tenant, Usage)]) -> String {
    let line = |(tenant, usage): &(&Tenant, Usage)| {
        let holder = match &usage.holder {
            // Without a name, the beginning of the member's key tells members apart.
            Holder::Member { key, name } => name.clone().unwrap_or_else(|| key.chars().take(12).collect()),
            Holder::Profile { name } => format!("profile {name}"),
            Holder::Tenant => "all together".to_owned(),
        };
        let renewal = match (usage.free_at, usage.renews_at) {
            (Some(at), _) => Cell::new(Tone::Bad, format!("used up until {}", rfc3339_seconds(at))),
            (None, Some(at)) => Cell::new(Tone::Faint, format!("begins anew at {}", rfc3339_seconds(at))),
            (None, None) => Cell::new(Tone::Faint, "nothing is used"),
        };
        vec![
            Cell::new(Tone::Plain, tenant.id.as_str()),
            Cell::new(Tone::Strong, text::for_line(&holder).into_owned()),
            Cell::new(Tone::Plain, usage.quota.used_in_words(usage.used)),
            renewal,
        ]
    };
    columns(&usages.iter().map(line).collect::<Vec<_>>()).join("\n")
}
