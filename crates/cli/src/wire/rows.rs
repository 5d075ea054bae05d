//! The database of a world.

use std::path::Path;

use toolrack_config::{Environment, Places};

use super::World;
use crate::{
    database::{self, Opened, Server},
    error::Failure,
};

impl World {
    /// The server of the database, if it is no file.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }
}

/// Where a world has its rows.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    /// In the database of its folder.
    OfFolder,
    /// In the database that this team file names, or in that of the folder if it names none.
    OfTeam(&'a Path),
    /// Here.
    Here(Opened),
}

impl Rows<'_> {
    /// Opens the database. Inside, why a command has to go on without one.
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
