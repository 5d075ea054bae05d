//! Runs `toolrack audit list`, `verify`, `export` and `verify-export`. `Context` is what a command works with: its
//! configuration, database, screen and servers.

pub(crate) mod args;
pub(crate) mod render;
mod verify_export;

use std::time::SystemTime;

use serde::Serialize;
use toolrack_daemon::shown::audit::Row;
use toolrack_store::audit::{AuditQuery, AuditRow, Break, ExportedRow};

use crate::{
    context::Context,
    database,
    error::{Exit, Failure},
    render::count,
};
use args::{AuditFilter, AuditVerb, ExportAuditArgs, ListAuditArgs, NewestRows, VerifyAuditArgs};

/// The maximum number of rows of one query.
const PAGE_ROWS: usize = 1_000;

/// `audit list --json`.
#[derive(Debug, Serialize)]
struct ListDocument {
    rows: Vec<Row>,
}

/// `audit export --json`.
#[derive(Debug, Serialize)]
struct ExportDocument<'a> {
    rows: Vec<ExportedRow<'a>>,
}

/// `audit verify --json`.
#[derive(Debug, Default, Serialize)]
struct VerifyDocument {
    ok: bool,
    rows: Option<u64>,
    first: Option<u64>,
    /// The end of the log as a text, with which a later `verify --end` notices a replaced log.
    end: Option<String>,
    broken_at: Option<u64>,
    why: Option<String>,
}

pub(crate) async fn run(verb: AuditVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        AuditVerb::List(args) => list(args, context).await,
        AuditVerb::Verify(args) => verify(args, context).await,
        AuditVerb::Export(args) => export(args, context).await,
        AuditVerb::VerifyExport(args) => verify_export::run(args, context).await,
    }
}

async fn list(args: ListAuditArgs, context: &Context) -> Result<Exit, Failure> {
    let query = newest_query(args.newest, context);
    let rows = context.store()?.audit(&query).await.map_err(|error| database::unusable(&error))?;
    if context.screen.prints_json() {
        context.screen.document(&ListDocument { rows: rows.into_iter().map(Row::from).collect() }).await?;
        return Ok(Exit::Ok);
    }
    if rows.is_empty() {
        context.screen.note("the audit log has no such rows");
    }
    context.screen.page(render::page(&rows)).await?;
    Ok(Exit::Ok)
}

async fn verify(args: VerifyAuditArgs, context: &Context) -> Result<Exit, Failure> {
    // No secrets need to be hidden here: no content of a row is printed.
    let verification = context.store()?.verify_audit(args.end).await.map_err(|error| database::unusable(&error))?;
    match verification {
        Ok(chain) => {
            let end = chain.end.to_string();
            if context.screen.prints_json() {
                let (rows, first) = (Some(chain.rows), Some(chain.first));
                let document = VerifyDocument { ok: true, rows, first, end: Some(end), ..VerifyDocument::default() };
                context.screen.document(&document).await?;
            } else {
                let rows = count(usize::try_from(chain.rows).unwrap_or(usize::MAX), "row");
                context.screen.page(format!("{rows}, and nothing was changed\nend {end}")).await?;
            }
            Ok(Exit::Ok)
        }
        Err(chain_break) if context.screen.prints_json() => {
            let (broken_at, why) = (Some(chain_break.row()), Some(chain_break.to_string()));
            context.screen.document(&VerifyDocument { broken_at, why, ..VerifyDocument::default() }).await?;
            Ok(Exit::Other)
        }
        Err(chain_break) => {
            let message = format!("the audit log is damaged: {chain_break}");
            let failure = Failure::new(Exit::Other, "AUDIT_BROKEN", message);
            Err(match chain_break {
                Break::Forgotten { .. } => failure.hint("give an end that is newer"),
                _ => failure
                    .hint("`toolrack audit export` prints the rows; those before the damaged one were not changed"),
            })
        }
    }
}

async fn export(args: ExportAuditArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store()?;
    let mut query = AuditQuery { limit: PAGE_ROWS, ..filter_query(args.filter, context) };
    let mut all_rows: Vec<AuditRow> = Vec::new();
    loop {
        let rows = store.oldest_audit_rows(&query).await.map_err(|error| database::unusable(&error))?;
        let is_last = rows.len() < PAGE_ROWS;
        query.after = rows.last().map_or(query.after, |row| row.seq);
        if context.screen.prints_json() {
            all_rows.extend(rows);
        } else {
            for row in &rows {
                context.screen.record(&ExportedRow::from(row)).await?;
            }
        }
        if is_last || context.screen.is_stdout_closed() {
            break;
        }
    }
    if context.screen.prints_json() {
        context.screen.document(&ExportDocument { rows: all_rows.iter().map(ExportedRow::from).collect() }).await?;
    }
    Ok(Exit::Ok)
}

/// Returns the query for the newest rows.
pub(super) fn newest_query(NewestRows { filter, denied, limit }: NewestRows, context: &Context) -> AuditQuery {
    AuditQuery { denied, limit, ..filter_query(filter, context) }
}

fn filter_query(filter: AuditFilter, context: &Context) -> AuditQuery {
    // If the clock cannot go back so far, the query has no earliest time.
    let since = filter.since.and_then(|since| SystemTime::now().checked_sub(since));
    AuditQuery {
        server: filter.server,
        tool: filter.tool,
        agent: context.agent().map(str::to_owned),
        since: since.map(|since| chrono::DateTime::<chrono::Utc>::from(since).timestamp_millis()),
        ..AuditQuery::default()
    }
}
