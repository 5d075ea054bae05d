//! The command line of `fake-server`.

use std::path::PathBuf;
use std::time::Duration;

use super::faults::Faults;

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Lines on stdin and stdout.
    Stdio,
    /// Streamable HTTP, of both eras, at `/mcp`.
    Http,
    /// HTTP+SSE of 2024-11-05, at `/sse` and `/messages`.
    Sse,
}

/// Which eras the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eras {
    /// 2025-11-25 and older: `initialize` first.
    Legacy,
    /// 2026-07-28: no handshake, `_meta` on every request.
    Modern,
    /// The era of each request.
    Both,
}

/// When HTTP answers with an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Only when something is sent before the answer.
    Auto,
    /// Always.
    Sse,
}

/// What a script can configure.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the server is reached.
    pub transport: Transport,
    /// The eras that it answers.
    pub eras: Eras,
    /// The faults of the server.
    pub faults: Faults,
    /// How many generated tools (`tool_0001`, …) follow the named ones.
    pub tools: usize,
    /// The number of tools on one page of a list; 0 puts all on one page.
    pub page_size: usize,
    /// Time before each answer to a request.
    pub delay: Duration,
    /// Time after the start before the server reads anything.
    pub start_delay: Duration,
    /// The file to which the server writes each effect of a tool.
    pub log: Option<PathBuf>,
    /// Whether the server also writes every message to `log`.
    pub log_all: bool,
    /// `ttlMs` of modern lists.
    pub ttl_ms: i64,
    /// When HTTP answers with an event stream.
    pub answer_format: AnswerFormat,
    /// The name that the server gives itself.
    pub name: String,
    /// The port of an HTTP server; 0 is any free one.
    pub port: u16,
    /// Whether an HTTP server ends with its stdin, so that it does not outlive the test that started it.
    pub until_eof: bool,
}

/// What `fake-server help` prints.
pub const USAGE: &str = "\
usage: fake-server stdio|http|sse [--era legacy|modern|both] [--fault NAME[=ARG]]… [--fault-on METHOD|*]
                   [--fault-after N] [--fault-times N] [--tools N] [--page-size N] [--delay-ms N]
                   [--start-delay-ms N] [--log FILE] [--log-all] [--ttl-ms N] [--answers auto|sse] [--name NAME]
                   [--port N] [--until-eof]
       fake-server faults      lists the faults
";

impl Options {
    /// Reads the arguments that follow the program's name.
    ///
    /// # Errors
    /// A sentence that says which argument is wrong.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = args;
        let transport = match args.next().as_deref() {
            Some("stdio") => Transport::Stdio,
            Some("http") => Transport::Http,
            Some("sse") => Transport::Sse,
            other => return Err(format!("expected stdio, http or sse, not {other:?}")),
        };
        let mut options = Self::new(transport);
        while let Some(flag) = args.next() {
            options.read_option(&flag, &mut args)?;
        }
        Ok(options)
    }

    fn new(transport: Transport) -> Self {
        Self {
            transport,
            eras: Eras::Legacy,
            faults: Faults::default(),
            tools: 0,
            page_size: 0,
            delay: Duration::ZERO,
            start_delay: Duration::ZERO,
            log: None,
            log_all: false,
            ttl_ms: 0,
            answer_format: AnswerFormat::Auto,
            name: "fake-server".to_owned(),
            port: 0,
            until_eof: false,
        }
    }

    fn read_option(&mut self, flag: &str, args: &mut impl Iterator<Item = String>) -> Result<(), String> {
        match flag {
            "--log-all" => {
                self.log_all = true;
                return Ok(());
            }
            "--until-eof" => {
                self.until_eof = true;
                return Ok(());
            }
            _ => {}
        }
        let value = args.next().ok_or_else(|| format!("`{flag}` is unknown or needs a value"))?;
        match flag {
            "--era" => self.eras = parse_eras(&value)?,
            "--fault" => self.faults.add(&value)?,
            "--fault-on" => self.faults.target_method = Some(value),
            "--fault-after" => self.faults.skip = parse_number(flag, &value)?,
            "--fault-times" => self.faults.times = parse_number(flag, &value)?,
            "--tools" => self.tools = parse_number(flag, &value)?,
            "--page-size" => self.page_size = parse_number(flag, &value)?,
            "--delay-ms" => self.delay = Duration::from_millis(parse_number(flag, &value)?),
            "--start-delay-ms" => self.start_delay = Duration::from_millis(parse_number(flag, &value)?),
            "--log" => self.log = Some(value.into()),
            "--ttl-ms" => self.ttl_ms = parse_number(flag, &value)?,
            "--answers" => self.answer_format = parse_answer_format(&value)?,
            "--port" => self.port = parse_number(flag, &value)?,
            "--name" => self.name = value,
            _ => return Err(format!("unknown option `{flag}`")),
        }
        Ok(())
    }
}

fn parse_number<N: std::str::FromStr>(flag: &str, value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("`{flag}` takes a number, not `{value}`"))
}

fn parse_eras(value: &str) -> Result<Eras, String> {
    match value {
        "legacy" => Ok(Eras::Legacy),
        "modern" => Ok(Eras::Modern),
        "both" => Ok(Eras::Both),
        _ => Err(format!("`--era` is legacy, modern or both, not `{value}`")),
    }
}

fn parse_answer_format(value: &str) -> Result<AnswerFormat, String> {
    match value {
        "auto" => Ok(AnswerFormat::Auto),
        "sse" => Ok(AnswerFormat::Sse),
        _ => Err(format!("`--answers` is auto or sse, not `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_options_of_a_command_line_are_read() {
        let options = parse("http --era both --fault batch --tools 3 --log-all --delay-ms 5 --ttl-ms -1").unwrap();
        assert_eq!(options.transport, Transport::Http);
        assert_eq!(options.eras, Eras::Both);
        assert!(options.faults.has(super::super::faults::Fault::Batch));
        assert_eq!((options.tools, options.ttl_ms), (3, -1));
        assert!(options.log_all);
    }

    #[test]
    fn an_invalid_command_line_is_refused_with_the_reason() {
        assert!(parse("").unwrap_err().contains("stdio"));
        assert!(parse("stdio --tools many").unwrap_err().contains("--tools"));
        assert!(parse("stdio --era old").unwrap_err().contains("legacy"));
        assert!(parse("stdio --what 1").unwrap_err().contains("--what"));
    }
}
