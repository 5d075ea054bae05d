//! Finds and opens the database of the user, and reports its errors.

pub(crate) mod link;
#[cfg(feature = "postgres")]
mod server;
#[cfg(not(feature = "postgres"))]
mod without_server;

use std::path::{Path, PathBuf};

use toolrack_config::{Environment, Places};
use toolrack_store::{
    Store, StoreError,
    audit::{Break, Chain},
};

use self::link::Link;
pub(crate) use self::server::DatabaseServer;
#[cfg(not(feature = "postgres"))]
use self::without_server as server;
use crate::{
    error::{Exit, Failure, with_causes},
    team_file,
};

/// An open database.
#[derive(Clone, Debug)]
pub(crate) struct OpenDatabase {
    pub(crate) store: Store,
    /// The database server of a team, if the database is not a file.
    pub(crate) database_server: Option<DatabaseServer>,
}

/// The rows that were moved from a file to a database server.
#[derive(Debug)]
pub(crate) struct MovedRows {
    /// Each table, and how many of its rows the database has now.
    pub(crate) tables: Vec<(&'static str, u64)>,
    /// The result of the check of the audit log, whose rows form a chain.
    pub(crate) audit: Result<Chain, Break>,
    /// Whether an earlier run had moved the rows already.
    pub(crate) were_already_moved: bool,
}

impl From<Store> for OpenDatabase {
    fn from(store: Store) -> Self {
        Self { store, database_server: None }
    }
}

/// The path of the user's database, if the database is a file.
pub(crate) fn file(places: &Places) -> PathBuf {
    file_in(places.data())
}

/// The path of the database of the data folder `data`, if the database is a file.
pub(crate) fn file_in(data: &Path) -> PathBuf {
    data.join("toolrack.db")
}

/// Returns the failure for an error of the database. The failure names the database: it is shown only to users who run
/// the daemon.
pub(crate) fn unusable(error: &StoreError) -> Failure {
    let database_name = error.database().map(|name| format!(" ({name})")).unwrap_or_default();
    Failure::new(Exit::Other, "DATABASE", with_causes(error) + &database_name)
}

/// Opens the database of these places: the file there, or the database of the team to which the folder belongs.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn open(places: &Places, environment: &Environment) -> Result<OpenDatabase, Failure> {
    match link::read(places.data())? {
        None => Store::open(file(places)).await.map(OpenDatabase::from).map_err(|error| unusable(&error)),
        Some(link) => Box::pin(open_linked(&link, places, environment)).await,
    }
}

/// Opens the database of a team. `link` names the team file whose `[store]` says where the database is.
async fn open_linked(link: &Link, places: &Places, environment: &Environment) -> Result<OpenDatabase, Failure> {
    let Some(table) = team_file::read(&link.team)?.store else {
        return Err(no_store(&link.team, link, places));
    };
    let server = DatabaseServer::connect(&table, environment).await?;
    let store = match &link.tenant {
        Some(tenant) => server.store(tenant).await?,
        None => server.daemon_store().await?,
    };
    Ok(OpenDatabase { store, database_server: Some(server) })
}

/// Opens the database that the team file at `path` names; `None` if it names none, and the rows are in files.
///
/// # Errors
/// When the file cannot be used, or the database cannot be opened.
pub(crate) async fn open_for_team(
    path: &Path,
    places: &Places,
    environment: &Environment,
) -> Result<Option<OpenDatabase>, Failure> {
    match (team_file::read(path)?.store, link::read(places.data())?) {
        (Some(table), _) => {
            let server = DatabaseServer::connect(&table, environment).await?;
            Ok(Some(OpenDatabase { store: server.daemon_store().await?, database_server: Some(server) }))
        }
        (None, Some(link)) => Err(no_store(path, &link, places)),
        (None, None) => Ok(None),
    }
}

/// Returns the failure for a folder whose rows are in a database, if the team file at `path` names no database.
fn no_store(path: &Path, link: &Link, places: &Places) -> Failure {
    let message = format!(
        "the rows of {} are in the database of {}, but {} names no database",
        places.data().display(),
        link.team.display(),
        path.display()
    );
    let link = link::link_path(places.data());
    Failure::config(message).hint(format!(
        "add `[store]` to that file; or remove {}, to use the database file in its folder again",
        link.display()
    ))
}
