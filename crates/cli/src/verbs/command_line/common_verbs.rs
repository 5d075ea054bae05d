//! Parses the most common verbs without building the tree of all commands.

use std::ffi::OsString;

use clap::{Args, Parser};

use super::Cli;
use crate::{args::Global, verbs::Verb};

/// One verb with its options, as if it were a whole program.
#[derive(Debug, Parser)]
#[command(name = "toolrack", disable_version_flag = true)]
struct OneVerb<A: Args> {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    args: A,
}

impl Cli {
    /// Parses `words` if they begin with one of the verbs below. Returns `None` for all other words, and for words with
    /// a mistake. Building the tree of all commands takes a million instructions and 250 pages of memory, more than
    /// everything else that happens before a server is started.
    ///
    /// For help and mistakes, the caller parses again with the whole tree, which has the texts for them.
    pub(super) fn parse_common_verb(words: &[OsString]) -> Option<Self> {
        let (program, rest) = words.split_first()?;
        let (verb, rest) = rest.split_first()?;
        let words = || std::iter::once(program).chain(rest);
        match verb.to_str()? {
            "call" => Self::parse_one(words(), Verb::Call),
            "list" => Self::parse_one(words(), Verb::List),
            "read" => Self::parse_one(words(), Verb::Read),
            "tools" => Self::parse_one(words(), Verb::Tools),
            _ => None,
        }
    }

    fn parse_one<'a, A: Args>(words: impl Iterator<Item = &'a OsString>, verb: impl Fn(A) -> Verb) -> Option<Self> {
        let OneVerb { global, args } = OneVerb::<A>::try_parse_from(words).ok()?;
        Some(Self { global, verb: verb(args) })
    }
}
