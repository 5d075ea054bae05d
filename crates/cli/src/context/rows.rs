//! Chooses and opens the database of a command, or of a tenant (a group of members of a team that shares servers).

use std::path::Path;

use toolrack_config::{Environment, Places};

use super::Context;
use crate::{
    database::{self, DatabaseServer, OpenDatabase},
    error::Failure,
};

impl Context {
    /// The database server, if the database is not a file.
    pub(crate) fn database_server(&self) -> Option<&DatabaseServer> {
        self.database_server.as_ref()
    }
}

/// The database that a context uses.
#[derive(Debug)]
pub(crate) enum DatabaseChoice<'a> {
    /// The database in the data folder of the context.
    InDataFolder,
    /// The database that this team file names; if it names none, as [`Self::InDataFolder`].
    OfTeamFile(&'a Path),
    /// A database that is open already.
    AlreadyOpen(OpenDatabase),
}

impl DatabaseChoice<'_> {
    /// Opens the database. The outer error ends the command; the inner error says why the command continues without a
    /// database.
    pub(super) async fn open(
        self,
        places: &Places,
        environment: &Environment,
    ) -> Result<Result<OpenDatabase, Failure>, Failure> {
        let open_database = match self {
            Self::AlreadyOpen(open_database) => Some(open_database),
            Self::OfTeamFile(path) => Box::pin(database::open_for_team(path, places, environment)).await?,
            Self::InDataFolder => None,
        };
        match open_database {
            Some(open_database) => Ok(Ok(open_database)),
            None => Ok(database::open(places, environment).await),
        }
    }
}
