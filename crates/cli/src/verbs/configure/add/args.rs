//! Defines the arguments of `add` and `add-json`. The words after the name are a command with its arguments, or a URL
//! with more options.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, Parser, ValueEnum};

use crate::{
    args::{Global, Scope, WriteArgs, parse_duration},
    verbs::Cli,
};

/// `add`.
#[derive(Debug, Args)]
#[command(
    override_usage = "toolrack add [OPTIONS] NAME -- COMMAND [ARGUMENT]...
       toolrack add [OPTIONS] NAME COMMAND [ARGUMENT]...
       toolrack add [OPTIONS] NAME URL [OPTIONS]
       toolrack add",
    after_help = "Examples:
  toolrack add fs -- npx -y @modelcontextprotocol/server-filesystem .
  toolrack add gh -e GITHUB_TOKEN='${GITHUB_TOKEN}' -- \\
    docker run -i --rm -e GITHUB_TOKEN ghcr.io/github/github-mcp-server
  toolrack add docs https://example.com/mcp -H 'X-Api-Key: ${DOCS_KEY}'

The file keeps ${NAME} as you type it; its value comes from the environment when Toolrack connects to the server. The \
value of ${secret:NAME} is the secret that `toolrack secret set NAME` has stored."
)]
pub(crate) struct AddArgs {
    /// The name of the server: how you will call its tools
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) options: AddOptions,

    /// The command that starts the server, with its arguments, or the URL of the server
    #[arg(value_name = "COMMAND | URL", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// Options of `add`, before or after the name and after a URL.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AddOptions {
    /// The file to write: for you in every folder, for all users of this project, or for you in this project [default:
    /// user]
    #[arg(short, long, value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,

    /// How to reach the server; by default, this follows from the command or URL
    #[arg(short, long, value_name = "TRANSPORT")]
    pub(crate) transport: Option<TransportKind>,

    /// A variable for the server's environment: NAME=VALUE; for NAME alone, you are asked for the value, which is
    /// stored as a secret
    #[arg(short, long, value_name = "NAME[=VALUE]", value_parser = env_pair)]
    pub(crate) env: Vec<(String, Option<String>)>,

    /// A header for each request: 'Name: value'
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header_pair)]
    pub(crate) header: Vec<(String, String)>,

    /// Send the value of this environment variable as a bearer token
    #[arg(long, value_name = "VARIABLE", value_parser = variable_name)]
    pub(crate) bearer_token_env: Option<String>,

    /// The folder in which to start the server
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Offer only tools whose names match, such as 'read_*'; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub(crate) tools: Vec<String>,

    /// End a call after this long without a sign of life, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// Write secrets into the file, instead of storing them sealed
    #[arg(long)]
    pub(crate) plain: bool,

    /// Only write the entry, and do not try to connect
    #[arg(long)]
    pub(crate) no_test: bool,

    /// Replace a server of the same name
    #[arg(long)]
    pub(crate) replace: bool,

    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `add-json`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack add-json docs '{\"url\": \"https://example.com/mcp\"}'
  toolrack add-json fs @server.json
  pbpaste | toolrack add-json github -

JSON may also be a whole file with `mcpServers` or `servers`: its entry NAME is added, or its only entry.")]
pub(crate) struct AddJsonArgs {
    /// The name of the server: how you will call its tools
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The entry: the JSON itself, @FILE, or - for stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) entry: String,

    #[command(flatten)]
    pub(crate) write: WriteArgs,

    /// Replace a server of the same name
    #[arg(long)]
    pub(crate) replace: bool,

    /// Only write the entry, and do not try to connect
    #[arg(long)]
    pub(crate) no_test: bool,

    /// Write secrets into the file, instead of storing them sealed
    #[arg(long)]
    pub(crate) plain: bool,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportKind {
    Stdio,
    // Streamable HTTP.
    #[value(alias = "streamable-http", alias = "streamable_http")]
    Http,
    // The older HTTP with server-sent events.
    Sse,
}

/// The meaning of the words after `add NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A process.
    Command { command: String, arguments: Vec<String> },
    /// An endpoint.
    Url(String),
}

impl AddArgs {
    /// Decides whether the words are a URL or a command.
    ///
    /// `after_dashes` says whether the words followed a `--`. Such words are always a command.
    ///
    /// # Errors
    /// When the words begin with an option that does not exist.
    pub(crate) fn target(&self, after_dashes: bool) -> Result<Target, Box<clap::Error>> {
        let mut words = self.rest.iter().cloned();
        let first_word = words.next().unwrap_or_default();
        if !after_dashes && first_word.starts_with('-') {
            // clap accepted the unknown option as the command.
            let error = AfterUrl::command().error(
                clap::error::ErrorKind::UnknownArgument,
                format!("unexpected argument '{first_word}'; a command that begins with `-` goes after `--`"),
            );
            return Err(Box::new(error));
        }
        if self.is_url(after_dashes) {
            return Ok(Target::Url(first_word));
        }
        Ok(Target::Command { command: first_word, arguments: words.collect() })
    }

    pub(super) fn is_url(&self, after_dashes: bool) -> bool {
        match self.options.transport {
            Some(TransportKind::Http | TransportKind::Sse) => true,
            Some(TransportKind::Stdio) => false,
            None => !after_dashes && self.rest.first().is_some_and(|first| looks_like_url(first)),
        }
    }

    /// Returns whether the command in `words` came after a `--` of `add`. A `--` inside the command does not count.
    pub(crate) fn follows_dashes(&self, words: &[OsString]) -> bool {
        let all_dashes = words.iter().filter(|word| *word == "--").count();
        let dashes_in_command = self.rest.iter().filter(|word| *word == "--").count();
        all_dashes > dashes_in_command
    }

    /// Parses the words after a URL as options. Adds the options of `add` to `self.options`, and returns the options
    /// that every command has.
    ///
    /// # Errors
    /// When these words are not valid options.
    pub(crate) fn take_options_after_url(&mut self, after_dashes: bool) -> Result<Global, clap::Error> {
        let Some(words) = self.take_words_after_url(after_dashes) else { return Ok(Global::default()) };
        let later_words = AfterUrl::try_parse_from(words).or_else(|error| match error.kind() {
            // `--help` after a URL shows the help of `add`, which clap returns as an error.
            clap::error::ErrorKind::DisplayHelp => Cli::try_parse_from(["toolrack", "add", "--help"]).and(Err(error)),
            _ => Err(error),
        })?;
        self.options = std::mem::take(&mut self.options).followed_by(later_words.options);
        Ok(later_words.global)
    }

    /// As [`Self::take_options_after_url`], for words that the user typed at a question. Refuses the options that every
    /// command has: the command runs already, and they would have no effect.
    ///
    /// # Errors
    /// When these words are not valid options of `add`.
    pub(super) fn take_options_after_typed_url(&mut self) -> Result<(), clap::Error> {
        let after_dashes = false;
        if let Some(words) = self.take_words_after_url(after_dashes) {
            let later_words = AfterTypedUrl::try_parse_from(words)?;
            self.options = std::mem::take(&mut self.options).followed_by(later_words.options);
        }
        Ok(())
    }

    /// Takes the words after a URL, with a name of the program in front for clap; `None` if there are none.
    fn take_words_after_url(&mut self, after_dashes: bool) -> Option<Vec<String>> {
        if self.rest.len() < 2 || !self.is_url(after_dashes) {
            return None;
        }
        Some(std::iter::once("toolrack add".to_owned()).chain(self.rest.drain(1..)).collect())
    }
}

/// The words after `add NAME URL`.
#[derive(Debug, Parser)]
#[command(
    name = "toolrack add NAME URL",
    override_usage = "toolrack add NAME URL [OPTIONS]",
    no_binary_name = false,
    disable_version_flag = true
)]
pub(crate) struct AfterUrl {
    #[command(flatten)]
    options: AddOptions,
    #[command(flatten)]
    global: Global,
}

/// The words after a URL that the user typed at a question.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_version_flag = true)]
struct AfterTypedUrl {
    #[command(flatten)]
    options: AddOptions,
}

impl AddOptions {
    /// Merges options that were typed later. Lists are appended, and single values of `later` override those of `self`.
    fn followed_by(mut self, later: Self) -> Self {
        self.env.extend(later.env);
        self.header.extend(later.header);
        self.tools.extend(later.tools);
        Self {
            scope: later.scope.or(self.scope),
            transport: later.transport.or(self.transport),
            env: self.env,
            header: self.header,
            bearer_token_env: later.bearer_token_env.or(self.bearer_token_env),
            cwd: later.cwd.or(self.cwd),
            tools: self.tools,
            timeout: later.timeout.or(self.timeout),
            plain: self.plain || later.plain,
            no_test: self.no_test || later.no_test,
            replace: self.replace || later.replace,
            dry_run: self.dry_run || later.dry_run,
        }
    }
}

pub(super) fn looks_like_url(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

pub(super) fn env_pair(word: &str) -> Result<(String, Option<String>), String> {
    match word.split_once('=') {
        Some(("", _)) => Err("write NAME=VALUE".to_owned()),
        Some((name, value)) => variable_name(name).map(|name| (name, Some(value.to_owned()))),
        None => variable_name(word).map(|name| (name, None)),
    }
}

/// Parses the name of an environment variable.
pub(super) fn variable_name(word: &str) -> Result<String, String> {
    let is_name = !word.starts_with(|c: char| c.is_ascii_digit())
        && !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        Ok(word.to_owned())
    } else {
        Err("the name of an environment variable has letters, digits and `_`, and begins with no digit".to_owned())
    }
}

pub(crate) fn header_pair(word: &str) -> Result<(String, String), String> {
    let pair = word.split_once(':').or_else(|| word.split_once('='));
    match pair {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write 'Name: value'".to_owned()),
    }
}
