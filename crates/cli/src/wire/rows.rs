//! The place of a world's rows: which database it opens.

use std::path::Path;

use toolrack_config::{Environment, Places};

use super::World;
use crate::{
    database::{self, Opened, Server},
    error::Failure,
};

impl World {
    /// The server of the database, if it is not a file.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }
}

/// The database that has the rows of a world.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    /// That of the world's folder.
    OfFolder,
    /// The one that this team file names, or that of the folder if it names none.
    OfTeam(&'a Path),
    /// This one, which is open already.
    Here(Opened),
}

impl Rows<'_> {
    /// Opens the database. The inner error says why the command has to continue without one.
    pub(super) async fn open(
        self,
        places: &Places,
        environment: &Environment,
    ) -> Result<Result<Opened, Failure>, Failure> {
        let opened = match self {
            Self::Here(opened) => Some(opened),
            Self::OfTeam(path) => Box::pin(database::of_team(path, places, environment)).await?,
            Self::OfFolder => None,
        };
        match opened {
            Some(opened) => Ok(Ok(opened)),
            None => Ok(database::open(places, environment).await),
        }
    }
}
