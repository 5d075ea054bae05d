//! Parses `toolrack record` and `toolrack replay`. Both run another verb: `record` stores the messages of its servers
//! in a file (the tape), and `replay` answers from such a file.
//!
//! The parser replaces both with the other verb, so only that verb runs. `Context`, which is what a command works with,
//! records and replays the messages ([`tape`](crate::context)).

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, CommandFactory as _, error::ErrorKind};

use crate::{
    args::{self, TapeRequest},
    context::Context,
    error::{Exit, Failure},
    verbs::{Cli, Verb},
};

/// `record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack record login.jsonl call github/get_me
  toolrack record all.jsonl --max-size 200MiB tools
  toolrack replay login.jsonl call github/get_me")]
pub(crate) struct RecordArgs {
    /// The file for the messages; an older one is replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// How large the file may become
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = args::parse_size)]
    max_size: usize,

    /// The command to run, with its own words
    #[arg(value_name = "VERB", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// `replay`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack record login.jsonl call github/get_me
  toolrack replay login.jsonl call github/get_me
  toolrack replay login.jsonl tools --json")]
pub(crate) struct ReplayArgs {
    /// A file that `toolrack record` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The command to run, with its own words
    #[arg(value_name = "VERB", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Verb {
    /// Returns the command line after `record` or `replay`, and whether to record the messages or to replay them.
    /// Returns `None` for all other verbs.
    pub(crate) fn inner_command(&self, program: &OsString) -> Option<(TapeRequest, Vec<OsString>)> {
        let (tape, words) = match self {
            Self::Record(args) => {
                (TapeRequest::Record { file: args.file.clone(), max_bytes: args.max_size }, &args.words)
            }
            Self::Replay(args) => (TapeRequest::Replay { file: args.file.clone() }, &args.words),
            _ => return None,
        };
        Some((tape, std::iter::once(program).chain(words).cloned().collect()))
    }

    /// Checks that `record` and `replay` can run this verb: it must use servers.
    ///
    /// # Errors
    /// When it is another verb.
    pub(crate) fn check_runs_with_tape(&self) -> Result<(), clap::Error> {
        if self.runs_with_tape() {
            return Ok(());
        }
        let why =
            "`record` and `replay` take a command that uses servers, such as tools, call, read, prompt, ask or test";
        Err(Cli::command().error(ErrorKind::InvalidValue, why))
    }
}

/// Never called, because the parser replaces `record` and `replay` with the verb after them.
fn not_replaced_by_parser() -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Other, "INTERNAL", "a recorded command was not understood"))
}

pub(crate) async fn record(_: RecordArgs, _: &Context) -> Result<Exit, Failure> {
    not_replaced_by_parser()
}

pub(crate) async fn replay(_: ReplayArgs, _: &Context) -> Result<Exit, Failure> {
    not_replaced_by_parser()
}
