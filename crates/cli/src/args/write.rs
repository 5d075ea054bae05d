//! Defines the options of the verbs that change the configuration. An entry is the configuration of one server in a
//! file.

use clap::{Args, ValueEnum};

/// How a verb that edits a file writes.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WriteArgs {
    /// The file to change: for you in every folder, for all users of this project, or for you in this project
    #[arg(short, long, value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,

    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The file that an entry is written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    // For one user, in every folder.
    #[default]
    User,
    // For all users of a project: its `.mcp.json`.
    Project,
    // For one user, in one project.
    Local,
}
