//! Defines the arguments of the verbs that manage conversations.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `sessions …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack sessions list
  toolrack sessions show last
  toolrack sessions export last -o session.md")]
pub(crate) enum SessionsVerb {
    /// Show the stored conversations, the most recently used first
    List(ListSessionsArgs),
    /// Show what happened in a conversation
    Show(ShowSessionArgs),
    /// Print a conversation, or write it to a file
    Export(ExportSessionArgs),
    /// Give a conversation another title
    Rename(RenameSessionArgs),
    /// Delete conversations with all their messages
    Delete(DeleteSessionsArgs),
    /// Import the conversations that Synapse has stored
    Import(ImportSessionsArgs),
}

/// `sessions list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack sessions list
  toolrack sessions list --search invoice
  toolrack sessions list -n 100 --json")]
pub(crate) struct ListSessionsArgs {
    /// Show at most this many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) limit: usize,

    /// Only conversations whose title contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,

    /// Continue the list after this conversation
    #[arg(long, value_name = "SESSION")]
    pub(crate) after: Option<String>,
}

/// `sessions show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack sessions show
  toolrack sessions show 0193f2aa --full
  toolrack sessions show 0193f2aa -n 4")]
pub(crate) struct ShowSessionArgs {
    /// The conversation: its id, the beginning of its id, or `last`
    #[arg(value_name = "SESSION", default_value = "last")]
    pub(crate) session: String,

    /// Show only this many of the last messages
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,

    /// Show arguments and results in full
    #[arg(long)]
    pub(crate) full: bool,
}

/// `sessions export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack sessions export last
  toolrack sessions export 0193f2aa --format json -o session.json")]
pub(crate) struct ExportSessionArgs {
    /// The conversation: its id, the beginning of its id, or `last`
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// The format: Markdown or JSON
    #[arg(short, long, value_name = "FORMAT", default_value = "md")]
    pub(crate) format: Format,

    /// Write the conversation to this file, which is replaced if it exists
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What a conversation is exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // Markdown, for people.
    #[value(alias = "markdown")]
    Md,
    // Everything that is stored.
    Json,
}

/// `sessions rename`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack sessions rename 0193f2aa 'Invoices of November'")]
pub(crate) struct RenameSessionArgs {
    /// The conversation: its id, the beginning of its id, or `last`
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// The new title
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,
}

/// `sessions delete`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack sessions delete 0193f2aa
  toolrack sessions delete 0193f2aa 0193f0b1 --yes")]
pub(crate) struct DeleteSessionsArgs {
    /// The conversations: the id of each, the beginning of its id, or `last`
    #[arg(value_name = "SESSION", required = true)]
    pub(crate) sessions: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// `sessions import`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack sessions import ~/.config/synapse/sessions.db

It only reads the file, and skips conversations that it has imported before.")]
pub(crate) struct ImportSessionsArgs {
    /// The database of Synapse, or of another Toolrack
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
