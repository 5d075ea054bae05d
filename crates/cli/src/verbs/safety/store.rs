//! Runs `toolrack store migrate`, which moves the rows of a team from files into another database. A team has tenants,
//! each with servers and data of its own, and each tenant has members: people and services. Each tenant, and the daemon
//! itself, has a file in a folder of its own.

pub(crate) mod args;

use std::path::{Path, PathBuf};

use serde::Serialize;
use toolrack_config::Places;
use toolrack_host::text;
use toolrack_store::Store;
use toolrack_team::{StoreTable, StoreUrl, TeamFile};

use crate::{
    context::Context,
    database::{
        self, DatabaseServer, MovedRows,
        link::{self, Link},
    },
    error::{Exit, Failure, in_words},
    render::{Cell, Tone, columns, count},
    team_file,
    verbs::serving::serve::record::DaemonRecord,
};
use args::{MigrateArgs, StoreVerb};

/// A file whose rows are moved into the database.
struct Source {
    /// The tenant whose rows the file has; `None` if it has the rows of the daemon and of the team.
    tenant: Option<String>,
    /// The folder of the file.
    data_folder: PathBuf,
}

impl Source {
    /// Returns the source, if it has a file that was not moved yet.
    fn if_not_moved(self) -> Result<Option<Self>, Failure> {
        let is_moved = link::read(&self.data_folder)?.is_some();
        Ok((!is_moved && database::file_in(&self.data_folder).exists()).then_some(self))
    }

    async fn open(&self) -> Result<Store, Failure> {
        Store::open(database::file_in(&self.data_folder)).await.map_err(|error| database::unusable(&error))
    }
}

/// `store migrate --json`.
#[derive(Debug, Serialize)]
struct MigrateDocument {
    moved: Vec<MovedFile>,
}

/// What was moved from one file.
#[derive(Debug, Serialize)]
struct MovedFile {
    tenant: Option<String>,
    rows: u64,
    tables: Vec<Table>,
    /// The number of rows of the audit log; `None` if the chain of the log is broken.
    audit_rows: Option<u64>,
    /// The number of the last row of the audit log and its hash, as `NUMBER:HASH`; `None` if the chain of the log is
    /// broken.
    audit_end: Option<String>,
    #[serde(rename = "earlier")]
    was_already_moved: bool,
}

#[derive(Debug, Serialize)]
struct Table {
    table: &'static str,
    rows: u64,
}

impl MovedFile {
    fn new(tenant: Option<String>, moved_rows: MovedRows) -> Self {
        let tables: Vec<_> = moved_rows.tables.into_iter().map(|(table, rows)| Table { table, rows }).collect();
        Self {
            tenant,
            rows: tables.iter().map(|table| table.rows).sum(),
            tables,
            audit_rows: moved_rows.audit.as_ref().ok().map(|chain| chain.rows),
            audit_end: moved_rows.audit.as_ref().ok().map(|chain| chain.end.to_string()),
            was_already_moved: moved_rows.were_already_moved,
        }
    }
}

pub(crate) async fn run(verb: StoreVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        StoreVerb::Migrate(args) => migrate(args, context).await,
    }
}

async fn migrate(args: MigrateArgs, context: &Context) -> Result<Exit, Failure> {
    let file = team_file::read(&args.team)?;
    let team = args.team.canonicalize().map_err(|error| {
        Failure::config(format!("the team file {} cannot be used: {}", args.team.display(), in_words(&error)))
    })?;
    let data_folder = args.from.folder.unwrap_or_else(|| context.places.data().to_owned());
    let sources = sources(&file, data_folder);
    sources.iter().try_for_each(|source| refuse_if_in_use(&source.data_folder))?;
    let sources =
        sources.into_iter().filter_map(|source| source.if_not_moved().transpose()).collect::<Result<Vec<_>, _>>()?;
    let target_database = target_database(&file, args.to)?;
    let moved = match sources.is_empty() {
        true => Vec::new(),
        false => {
            let server = DatabaseServer::connect(&target_database, &context.environment).await?;
            let move_result = Box::pin(move_all(&sources, &team, &server, context)).await;
            server.close().await;
            move_result?
        }
    };
    let document = MigrateDocument { moved };
    if context.screen.prints_json() {
        context.screen.document(&document).await?;
        return Ok(Exit::Ok);
    }
    if document.moved.is_empty() {
        context.screen.note("the folders of the team have no files with rows that were not moved yet");
    }
    context.screen.page(page(&document)).await?;
    if file.store.is_none() {
        // Without `[store]` in the team file, the URL came from `--to`.
        context
            .screen
            .note("before you start the daemon, give the team file `[store]` with the URL that you gave to `--to`");
    }
    Ok(Exit::Ok)
}

/// Returns the files in the folders of the team. The daemon's file comes first, because its rows say who is a member.
fn sources(file: &TeamFile, data_folder: PathBuf) -> Vec<Source> {
    let tenant_source = |tenant: &toolrack_team::Tenant| Source {
        tenant: Some(tenant.id.clone()),
        data_folder: Places::under(&tenant.home).data().to_owned(),
    };
    std::iter::once(Source { tenant: None, data_folder }).chain(file.tenants.iter().map(tenant_source)).collect()
}

/// Returns the database to move the rows to.
fn target_database(file: &TeamFile, to: Option<String>) -> Result<StoreTable, Failure> {
    match (to.map(StoreUrl::Text), &file.store) {
        (Some(url), Some(table)) => Ok(StoreTable { url, ..table.clone() }),
        (Some(url), None) => Ok(StoreTable::at(url)),
        (None, Some(table)) => Ok(table.clone()),
        (None, None) => Err(Failure::usage("the team file names no database to move the rows to")
            .hint("give it `[store]` with a `url`, or use `--to URL`")),
    }
}

fn refuse_if_in_use(data_folder: &Path) -> Result<(), Failure> {
    let Some(record) = DaemonRecord::read(data_folder).filter(DaemonRecord::is_alive) else { return Ok(()) };
    let message = format!("a daemon (process {}) uses the rows of {}", record.pid, data_folder.display());
    Err(Failure::new(Exit::Other, "IN_USE", message).hint("end it first: `toolrack daemon stop`, or Ctrl-C"))
}

/// Moves the rows of `sources`, but only after a check that all of them can be moved.
async fn move_all(
    sources: &[Source],
    team: &Path,
    server: &DatabaseServer,
    context: &Context,
) -> Result<Vec<MovedFile>, Failure> {
    for source in sources {
        let store = source.open().await?;
        // Fails if the rows cannot be moved. Rows that were moved earlier pass: `move_rows` itself notices them.
        let result = server.check_movable(source.tenant.as_deref(), &store).await;
        store.close().await;
        result.map_err(|failure| with_source(failure, source))?;
    }
    let mut moved_files = Vec::new();
    for source in sources {
        let name = source.tenant.as_deref().unwrap_or("the daemon");
        context.screen.progress(&format!("moving the rows of {name}"));
        let store = source.open().await?;
        let moved_rows = server.move_rows(source.tenant.as_deref(), &store).await;
        store.close().await;
        let moved_rows = moved_rows.map_err(|failure| with_source(failure, source))?;
        if let Err(chain_break) = &moved_rows.audit {
            context.screen.warning(&format!("the audit log of {name} was broken before, and still is: {chain_break}"));
        }
        // The link tells other commands that the rows are in the database now.
        link::write(&source.data_folder, &Link { team: team.to_owned(), tenant: source.tenant.clone() })?;
        moved_files.push(MovedFile::new(source.tenant.clone(), moved_rows));
    }
    Ok(moved_files)
}

/// Completes `failure`: its message then says whose rows could not be moved.
fn with_source(failure: Failure, source: &Source) -> Failure {
    let whose = match &source.tenant {
        Some(tenant) => format!("the rows of the tenant `{}`", text::for_line(tenant)),
        None => "the rows of the daemon and of the team".to_owned(),
    };
    Failure { message: format!("{whose} cannot be moved: {}", failure.message), ..failure }
}

/// Returns a line for each file.
fn page(document: &MigrateDocument) -> String {
    let line = |file: &MovedFile| {
        let tables = file.tables.iter().filter(|table| table.rows > 0).count();
        let rows =
            format!("{} in {}", count(usize::try_from(file.rows).unwrap_or(usize::MAX), "row"), count(tables, "table"));
        let audit = file.audit_rows.map_or_else(
            || Cell::new(Tone::Bad, "the audit log is broken"),
            |rows| Cell::new(Tone::Good, format!("{rows} rows of the audit log verified")),
        );
        let name = file.tenant.as_deref().unwrap_or("(team)");
        let word = if file.was_already_moved { "moved earlier" } else { "moved" };
        vec![Cell::new(Tone::Strong, name), Cell::new(Tone::Plain, word), Cell::new(Tone::Plain, rows), audit]
    };
    columns(&document.moved.iter().map(line).collect::<Vec<_>>()).join("\n")
}
