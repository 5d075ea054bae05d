//! The work that a client is asked to do: a row of the benchmark's table, an amount, and where the server is.

use std::{env, fmt};

use serde::{Deserialize, Serialize};

use crate::AnyError;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// Calls over stdio, one after the other.
    StdioOne,
    /// Calls over stdio, 64 in flight.
    Stdio64,
    /// Calls over HTTP, one after the other.
    HttpOne,
    /// Calls over HTTP, 64 in flight.
    Http64,
    /// Calls over HTTP, 8 in flight.
    Http8,
    /// All tools of a server.
    List,
    /// One large result.
    Big,
    /// Progress of one call over HTTP.
    Events,
    /// Many servers at once.
    Servers,
    /// The tool block of a model's request, while the tools stay the same.
    Block,
    /// Turns of an agent with one tool, a model in the same process, and a call in every round but the last.
    Agent1,
    /// The same with 100 tools.
    Agent100,
    /// The same with 1,000 tools.
    Agent1000,
}

/// The number of rounds in a turn of an agent.
pub const ROUNDS: usize = 10;

impl Row {
    /// All rows, in the order of the table.
    pub const ALL: &[Self] = &[
        Self::StdioOne,
        Self::Stdio64,
        Self::HttpOne,
        Self::Http64,
        Self::Http8,
        Self::Servers,
        Self::Block,
        Self::List,
        Self::Big,
        Self::Events,
        Self::Agent1,
        Self::Agent100,
        Self::Agent1000,
    ];

    /// Returns the name of the row on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::StdioOne => "stdio-one",
            Self::Stdio64 => "stdio-64",
            Self::HttpOne => "http-one",
            Self::Http64 => "http-64",
            Self::Http8 => "http-8",
            Self::List => "list",
            Self::Big => "big",
            Self::Events => "events",
            Self::Servers => "servers",
            Self::Block => "block",
            Self::Agent1 => "agent-1",
            Self::Agent100 => "agent-100",
            Self::Agent1000 => "agent-1000",
        }
    }

    /// Returns the row with this name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|row| row.word() == word)
    }

    /// Returns the number of calls that a client makes before the clock starts.
    #[must_use]
    pub fn warm_up(self) -> usize {
        match self {
            Self::StdioOne | Self::HttpOne => 200,
            Self::Http8 => 400,
            Self::Stdio64 | Self::Http64 => 1_000,
            _ => 0,
        }
    }

    /// Returns the number of tools of the agent.
    #[must_use]
    pub fn tools(self) -> usize {
        match self {
            Self::Agent100 => 100,
            Self::Agent1000 => 1_000,
            _ => 1,
        }
    }

    /// Returns the number of calls in flight at any time.
    #[must_use]
    pub fn in_flight(self) -> usize {
        match self {
            Self::Http8 => 8,
            Self::Stdio64 | Self::Http64 => 64,
            _ => 1,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Target {
    /// The client starts the server with this command.
    Command(Vec<String>),
    /// The server listens at this URL.
    Url(String),
    /// The row needs no server.
    Nowhere,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its kind.
    pub row: Row,
    /// The amount of work: the number of calls, servers, bytes or steps.
    pub count: usize,
    /// Where the server is.
    pub target: Target,
    /// Whether the client must speak 2026-07-28. The runner sets the variable `TOOLRACK_BENCH_ERA` to `auto` then.
    pub is_modern: bool,
}

impl Job {
    /// Parses the command line of this process.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub fn from_command_line() -> Result<Self, AnyError> {
        let words: Vec<String> = env::args().skip(1).collect();
        let [row, count, target @ ..] = words.as_slice() else {
            return Err("usage: PROGRAM ROW COUNT [URL | -- COMMAND…]".into());
        };
        let target = match target {
            [dashes, command @ ..] if dashes == "--" && !command.is_empty() => Target::Command(command.to_vec()),
            [url] => Target::Url(url.clone()),
            [] => Target::Nowhere,
            _ => return Err("the server must be one URL, or `--` and a command".into()),
        };
        let row = Row::named(row).ok_or_else(|| format!("there is no row {row}"))?;
        let is_modern = env::var("TOOLRACK_BENCH_ERA").is_ok_and(|era| era == "auto");
        Ok(Self { row, count: count.parse()?, target, is_modern })
    }

    /// The command that starts the server.
    ///
    /// # Errors
    /// When the job has no command.
    pub fn command(&self) -> Result<(&str, &[String]), AnyError> {
        match &self.target {
            Target::Command(words) => words.split_first().map(|(first, rest)| (first.as_str(), rest)),
            Target::Url(_) | Target::Nowhere => None,
        }
        .ok_or_else(|| "this row needs a command".into())
    }

    /// The URL of the server.
    ///
    /// # Errors
    /// When the job has no URL.
    pub fn url(&self) -> Result<&str, AnyError> {
        match &self.target {
            Target::Url(url) => Ok(url),
            Target::Command(_) | Target::Nowhere => Err("this row needs a URL".into()),
        }
    }
}
