//! Defines the arguments of `store`. A tenant is a part of a team with servers, members and data of its own.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `store …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack store migrate --team team.toml")]
pub(crate) enum StoreVerb {
    /// Move the rows of a team and all its tenants from files into Postgres
    Migrate(MigrateArgs),
}

/// `store migrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack store migrate --team team.toml
  toolrack store migrate --team team.toml --to '${DATABASE}'
  toolrack store migrate --team team.toml --from sqlite:/srv/tools --json

Stop the daemon first. The database must have no rows of the team and of its tenants. Each tenant is moved completely or \
not at all: after a failure, the same command moves the rest. The files stay as they are, but the daemon no longer uses \
them; the keys to secrets stay in their folders.")]
pub(crate) struct MigrateArgs {
    /// The team file, as `serve --team` reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) team: PathBuf,

    /// The files to move: `sqlite`, or `sqlite:FOLDER` if the daemon's toolrack.db is in another folder
    #[arg(long, value_name = "sqlite[:FOLDER]", default_value = "sqlite", value_parser = source)]
    pub(crate) from: SourceFiles,

    /// The database, in place of the one that the team file names; a placeholder keeps its password off the command line
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
}

/// The files with the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFiles {
    /// The folder of the daemon's file; `None` for the data folder of this user.
    pub(crate) folder: Option<PathBuf>,
}

fn source(word: &str) -> Result<SourceFiles, String> {
    match word.split_once(':') {
        None if word == "sqlite" => Ok(SourceFiles { folder: None }),
        Some(("sqlite", folder)) if !folder.is_empty() => Ok(SourceFiles { folder: Some(folder.into()) }),
        _ => Err("write `sqlite`, or `sqlite:FOLDER`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_from_files_alone() {
        assert_eq!(source("sqlite"), Ok(SourceFiles { folder: None }));
        assert_eq!(source("sqlite:/srv/x"), Ok(SourceFiles { folder: Some("/srv/x".into()) }));
        for wrong in ["", "sqlite:", "postgres://h/n", "files"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }
}
