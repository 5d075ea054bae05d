//! Defines the arguments that several verbs share. Nothing here reads files or connects to servers: the verbs do that.

mod model;
mod one_off;
mod write;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{
    ArgAction, Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use toolrack_config::{Environment, import::Client};

pub(crate) use model::{LimitArgs, ModelArgs, PolicyArgs, RulesArgs, TalkArgs, WireName};
pub(crate) use one_off::{ONE_OFF_NAME, OneOffArgs, OneOffServer};
pub(crate) use write::{Scope, WriteArgs};

/// The variable that has the effect of `--no-daemon`, unless it is empty or `0`.
const NO_DAEMON: &str = "TOOLRACK_NO_DAEMON";

/// Options of every verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Read the servers of this file as well: a path, - for stdin, or JSON itself; repeatable
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) mcp_config: Vec<PathBuf>,

    /// Use only the servers of the files given with --mcp-config
    #[arg(long, global = true)]
    pub(crate) strict_mcp_config: bool,

    /// Fail when anything in the configuration is broken
    #[arg(long, global = true)]
    pub(crate) strict: bool,

    /// Use the servers of this agent of toolrack.toml as well
    #[arg(long, value_name = "AGENT", global = true)]
    pub(crate) agent: Option<String>,

    /// Print one JSON document; errors are one line of JSON on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    pub(crate) color: Color,

    /// Print no notes and warnings
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Print what the servers write; twice (-vv) also all protocol messages
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Never ask anything, even on a terminal
    #[arg(long, global = true)]
    pub(crate) no_input: bool,

    /// Give this folder to servers that ask for roots; may be given more than once
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) root: Vec<PathBuf>,

    /// Start the servers here, even if a running daemon has them already
    #[arg(long, global = true)]
    pub(crate) no_daemon: bool,

    /// Answer a field of a server's form in advance; may be given more than once
    #[arg(long, value_name = "FIELD=VALUE", global = true)]
    pub(crate) answer: Vec<String>,

    /// Answer fields of forms in advance with the JSON object in this file
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) answers: Option<PathBuf>,

    /// The text of the file of `--answers`, once it is read.
    #[arg(skip)]
    pub(crate) answers_text: Option<String>,

    /// The server that the command line gives for this one command, once its words are parsed.
    #[arg(skip)]
    pub(crate) one_off: Option<OneOffServer>,

    /// Set if `record FILE` or `replay FILE` stands before the verb.
    #[arg(skip)]
    pub(crate) tape: Option<TapeRequest>,
}

/// What `record` and `replay` ask for. A tape is a file with the messages of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TapeRequest {
    /// The messages are written into this file.
    Record { file: PathBuf, max_bytes: usize },
    /// The messages come from this file.
    Replay { file: PathBuf },
}

/// Returns whether a value of `--mcp-config` means stdin: `-`, or a path to stdin.
pub(crate) fn is_stdin(word: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| word == Path::new(name))
}

/// Returns whether a value of `--mcp-config` is not a file: it means stdin, or is JSON itself.
pub(crate) fn is_inline(word: &Path) -> bool {
    is_stdin(word) || word.to_str().is_some_and(|word| word.trim_start().starts_with(['{', '[']))
}

impl Global {
    /// Returns why a command with these options cannot run in a daemon; `None` if it can.
    pub(crate) fn reason_against_daemon(&self, environment: &Environment) -> Option<&'static str> {
        let is_off = environment.get(NO_DAEMON).is_some_and(|value| !value.is_empty() && value != "0");
        // The first reason that applies.
        match () {
            () if self.no_daemon => Some("`--no-daemon` is set"),
            () if is_off => Some("`TOOLRACK_NO_DAEMON` is set"),
            () if self.verbose > 1 => Some("`-vv` shows the messages of this process"),
            // The daemon's servers are already connected, and a server learns its roots when it connects.
            () if !self.root.is_empty() => Some("its servers have no `--root`"),
            () => None,
        }
    }

    /// Merges these options with `more`, which were typed after them: lists are joined, and a single value of `more`
    /// replaces the one here.
    pub(crate) fn followed_by(mut self, more: Self) -> Self {
        self.mcp_config.extend(more.mcp_config);
        self.root.extend(more.root);
        self.answer.extend(more.answer);
        Self {
            mcp_config: self.mcp_config,
            strict_mcp_config: self.strict_mcp_config || more.strict_mcp_config,
            strict: self.strict || more.strict,
            agent: more.agent.or(self.agent),
            json: self.json || more.json,
            // The default cannot be told from a typed `auto`, so it replaces nothing.
            color: if more.color == Color::default() { self.color } else { more.color },
            quiet: self.quiet || more.quiet,
            verbose: self.verbose.saturating_add(more.verbose),
            no_input: self.no_input || more.no_input,
            root: self.root,
            no_daemon: self.no_daemon || more.no_daemon,
            answer: self.answer,
            answers: more.answers.or(self.answers),
            // Not read yet: the files are read once all words are known.
            answers_text: self.answers_text,
            one_off: more.one_off.or(self.one_off),
            tape: more.tape.or(self.tape),
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // On a terminal, unless NO_COLOR or CLICOLOR say otherwise. No doc comments: clap would print them in every help.
    #[default]
    Auto,
    Always,
    Never,
}

/// Verbs that show what servers have.
#[derive(Debug, Default, Args)]
pub(crate) struct OffersArgs {
    #[command(flatten)]
    pub(crate) filter: ServersArgs,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

/// Verbs that may be narrowed to some servers.
#[derive(Debug, Default, Args)]
pub(crate) struct ServersArgs {
    /// Only these servers; the others are not started
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
}

/// The programs whose files Toolrack knows, by their ids.
pub(crate) fn program_parser() -> impl TypedValueParser<Value = Client> {
    // The error cannot occur: the parser accepts only these ids.
    PossibleValuesParser::new(Client::ALL.iter().map(|client| client.id()))
        .try_map(|id| Client::from_id(&id).ok_or("this program is not known"))
}

/// Parses a time such as `30s`, `1.5m`, `500ms`, or a number of seconds; at least a millisecond and at most a day.
pub(crate) fn parse_duration(word: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(word).ok_or("write a time such as 30s, 2m or 500ms")?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("it must be between 1ms and 24h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a number with an optional unit of time, and returns it in seconds. Without a unit, it is a number of seconds.
pub(crate) fn parse_seconds(word: &str) -> Option<f64> {
    let unit_start = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(unit_start);
    let seconds_each = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? * seconds_each)
}

/// Parses a number of bytes such as `64MiB`, `500KiB` or `1000000`; above zero and at most 1 GiB.
pub(crate) fn parse_size(word: &str) -> Result<usize, String> {
    let unit_start = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(unit_start);
    let bytes_each: usize = match unit {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err("write a size such as 64MiB, 500KiB or 1000000".to_owned()),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(bytes_each));
    bytes.filter(|bytes| (1..=1 << 30).contains(bytes)).ok_or_else(|| "it must be between 1 and 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_bounds() {
        for (word, bytes) in [("1", 1), ("7B", 7), ("500KiB", 512_000), ("64M", 64 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(parse_size(word), Ok(bytes), "{word}");
        }
        for bad in ["", "0", "-1", "MiB", "2GiB", "1.5M", "9999999999999999999999", "1MB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units_and_bounds() {
        let time = |word| parse_duration(word).map(|time| time.as_millis());
        assert_eq!(time("30"), Ok(30_000));
        assert_eq!(time("1.5m"), Ok(90_000));
        assert_eq!(time("500ms"), Ok(500));
        assert_eq!(time("1h"), Ok(3_600_000));
        for bad in ["", "s", "0", "-1", "1e400", "nan", "25h", "3 weeks", "10µs"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
