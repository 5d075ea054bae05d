//! Parses the command line. It looks for two forms that clap does not know: the address or the command of a server that
//! only this command uses, and `record FILE` or `replay FILE` before another command.

mod common_verbs;
mod configuration;
mod one_off;

use std::ffi::OsString;

use clap::{Parser, error::ErrorKind};

pub(crate) use configuration::take_inline_configurations;

use super::Verb;
use crate::args::Global;

/// Give any AI agent the tools of any set of MCP servers
#[derive(Debug, Parser)]
#[command(
    name = "toolrack",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Examples:
  toolrack call builtin/list_directory path=.
  toolrack add fs -- npx -y @modelcontextprotocol/server-filesystem .
  toolrack add docs https://example.com/mcp
  toolrack list
  toolrack tools fs
  toolrack call fs/read_text_file path=README.md
  toolrack tools -- npx -y my-server

Exit codes:
  0 ok · 1 other · 2 usage or configuration · 3 sign-in needed · 4 unreachable or timed out
  5 tool error or unknown tool · 6 denied · 7 not trusted · 8 limit of a turn · 9 model
  129 terminal closed · 130 interrupted (Ctrl-C) · 143 ended by SIGTERM"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Parses `words`, which begin with the program's name.
    ///
    /// # Errors
    /// The errors of clap, which include help and versions.
    pub(crate) fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let cli = Self::parse_outer_command(words)?;
        // `record` and `replay` stand before another command. The tape request says whether to record the messages of
        // that command's servers in a file, or to replay them from it.
        let Some((tape, inner_words)) = words.first().and_then(|program| cli.verb.inner_command(program)) else {
            return Ok(cli);
        };
        let inner_cli = Self::parse_outer_command(&inner_words)?;
        inner_cli.verb.check_runs_with_tape()?;
        let global = Global { tape: Some(tape), ..cli.global.followed_by(inner_cli.global) };
        Ok(Self { global, verb: inner_cli.verb })
    }

    /// Like [`Self::parse_words`], but leaves the command after `record` or `replay` unparsed.
    fn parse_outer_command(words: &[OsString]) -> Result<Self, clap::Error> {
        // `take_one_off` finds a server that the words describe for this one command.
        if let Some(mut cli) = Self::parse_common_verb(words) {
            cli.take_one_off()?;
            return Ok(cli);
        }
        // In `call -- COMMAND TOOL` and the like, clap finds no tool, because it counts all words after `--` as the
        // command.
        let mut cli = Self::try_parse_from(words).or_else(|error| match one_off::name_before_command(words) {
            Some(reordered) if error.kind() == ErrorKind::MissingRequiredArgument => Self::try_parse_from(reordered),
            _ => Err(one_off::with_tip(error, words)),
        })?;
        cli.take_one_off()?;
        if let Verb::Add(args) = &mut cli.verb {
            let after_dashes = args.follows_dashes(words);
            cli.global = cli.global.followed_by(args.take_options_after_url(after_dashes)?);
        }
        Ok(cli)
    }
}

#[cfg(test)]
mod tests;
