//! Stands in for `server` in a build without the feature `postgres`: it connects to nothing, and its error names the
//! feature.

use toolrack_config::Environment;
use toolrack_store::Store;
use toolrack_team::StoreTable;

use super::MovedRows;
use crate::error::Failure;

/// Never exists in this build.
#[derive(Clone, Debug)]
pub(crate) enum DatabaseServer {}

impl DatabaseServer {
    #[expect(clippy::unused_async, reason = "the same function in `server` is async")]
    pub(crate) async fn connect(_: &StoreTable, _: &Environment) -> Result<Self, Failure> {
        Err(Failure::config(
            "`[store]` of the team file names a Postgres database, which this build of Toolrack cannot use",
        )
        .hint("use a build with the feature `postgres`: all builds have it except those with --no-default-features"))
    }

    #[expect(clippy::unused_async, reason = "the same function in `server` is async")]
    pub(crate) async fn store(&self, _: &str) -> Result<Store, Failure> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same function in `server` is async")]
    pub(crate) async fn daemon_store(&self) -> Result<Store, Failure> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same function in `server` is async")]
    pub(crate) async fn check_movable(&self, _: Option<&str>, _: &Store) -> Result<(), Failure> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same function in `server` is async")]
    pub(crate) async fn move_rows(&self, _: Option<&str>, _: &Store) -> Result<MovedRows, Failure> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same function in `server` is async")]
    pub(crate) async fn close(&self) {
        match *self {}
    }
}
