//! Runs `toolrack team audit`, which shows the daemon's own audit log and those of all tenants in one list. A team has
//! tenants, each with servers and data of its own, and each tenant has members: people and services. The daemon's own
//! log has what changes members and tokens; the log of a tenant has the calls of its members.

use serde::Serialize;
use toolrack_daemon::shown::audit::Row;
use toolrack_host::text;
use toolrack_store::audit::{AuditQuery, AuditRow};
use toolrack_team::{TeamFile, Tenant};

use super::args::TeamAuditArgs;
use crate::{
    context::Context,
    database,
    error::{Exit, Failure},
    render::{Cell, Tone, columns},
    team_file,
    verbs::{
        safety::audit::{newest_query, render::cells},
        serving::serve::team::open_tenant_store,
    },
};

/// How many of the newest rows of the daemon's log are searched for those about one tenant.
const MAX_SEARCHED_ROWS: usize = 10_000;

/// A row, and the tenant in whose audit log it is.
struct LogRow {
    /// `None` for the daemon's own log, which has sign-ins and refused requests.
    tenant: Option<String>,
    row: AuditRow,
}

/// `team audit --json`.
#[derive(Debug, Serialize)]
struct AuditDocument {
    rows: Vec<ShownRow>,
}

#[derive(Debug, Serialize)]
struct ShownRow {
    /// The tenant whose log has the row; `None` for the daemon's own log.
    log: Option<String>,
    #[serde(flatten)]
    row: Row,
}

pub(super) async fn run(args: &TeamAuditArgs, context: &Context) -> Result<Exit, Failure> {
    let file = team_file::read(&args.team)?;
    let tenants = selected_tenants(&file, args.tenant.as_deref())?;
    let query = newest_query(args.newest.clone(), context);
    let mut log_rows = daemon_rows(args.tenant.as_deref(), &query, context).await?;
    for tenant in tenants {
        log_rows.extend(tenant_rows(tenant, &query, context).await?);
    }
    // The sort is stable: rows of one log stay in their order.
    log_rows.sort_by_key(|log_row| log_row.row.at);
    let newest_rows = log_rows.split_off(log_rows.len().saturating_sub(query.limit));
    if context.screen.prints_json() {
        let rows = newest_rows.into_iter().map(|LogRow { tenant, row }| ShownRow { log: tenant, row: Row::from(row) });
        context.screen.document(&AuditDocument { rows: rows.collect() }).await?;
        return Ok(Exit::Ok);
    }
    if newest_rows.is_empty() {
        context.screen.note("the audit logs of the team have no such rows");
    }
    context.screen.page(page(&newest_rows)).await?;
    Ok(Exit::Ok)
}

/// Returns the tenants of the team file, or only the tenant `id`.
pub(super) fn selected_tenants<'a>(file: &'a TeamFile, id: Option<&str>) -> Result<Vec<&'a Tenant>, Failure> {
    let Some(id) = id else { return Ok(file.tenants.iter().collect()) };
    let tenant = file.tenants.iter().find(|tenant| tenant.id == id);
    tenant.map(|tenant| vec![tenant]).ok_or_else(|| {
        let tenant_ids = file.tenants.iter().map(|tenant| tenant.id.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("the team file has no tenant `{}`", text::for_line(id));
        Failure::usage(message).hint(format!("it has {tenant_ids}"))
    })
}

/// Returns the rows of the daemon's own log, or only those about the members of a tenant.
async fn daemon_rows(tenant: Option<&str>, query: &AuditQuery, context: &Context) -> Result<Vec<LogRow>, Failure> {
    let query = AuditQuery { limit: if tenant.is_some() { MAX_SEARCHED_ROWS } else { query.limit }, ..query.clone() };
    let rows = context.store()?.audit(&query).await.map_err(|error| database::unusable(&error))?;
    let is_about_tenant = |row: &AuditRow| tenant.is_none_or(|tenant| row.entry.concerns_tenant(tenant));
    Ok(rows.into_iter().filter(is_about_tenant).map(|row| LogRow { tenant: None, row }).collect())
}

/// Returns the rows of a tenant; none if the tenant was never used.
async fn tenant_rows(tenant: &Tenant, query: &AuditQuery, context: &Context) -> Result<Vec<LogRow>, Failure> {
    let Some(store) = open_tenant_store(tenant, context.database_server()).await? else { return Ok(Vec::new()) };
    let rows = store.audit(query).await;
    store.close_at_exit().await;
    let rows = rows.map_err(|error| database::unusable(&error))?;
    Ok(rows.into_iter().map(|row| LogRow { tenant: Some(tenant.id.clone()), row }).collect())
}

/// Returns a line for each row, which begins with the log that has the row.
fn page(log_rows: &[LogRow]) -> String {
    let line = |LogRow { tenant, row }: &LogRow| {
        let mut line = vec![Cell::new(Tone::Plain, tenant.as_deref().unwrap_or("(team)"))];
        line.extend(cells(row));
        line
    };
    columns(&log_rows.iter().map(line).collect::<Vec<_>>()).join("\n")
}
