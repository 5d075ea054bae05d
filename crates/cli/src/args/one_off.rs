//! Describes a one-off server, which the command line gives for a single command. It is a URL in place of a server's
//! name, or a command after `--`.

use clap::Args;
use serde_json::{Value, json};
use toolrack_host::text;

/// The name of the server that is given for one command.
pub(crate) const ONE_OFF_NAME: &str = "once";

/// The command that starts a server for one command.
#[derive(Debug, Default, Args)]
pub(crate) struct OneOffArgs {
    /// Use only the server that this command starts, and only this time
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A server that no file configures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OneOffServer {
    /// The program and its arguments.
    Command(Vec<String>),
    /// The address of the server.
    Url(String),
}

impl OneOffServer {
    /// Returns whether `word` is the URL of a server. Such a word cannot be the name of a configured server.
    pub(crate) fn is_url(word: &str) -> bool {
        ["http://", "https://"].iter().any(|scheme| {
            word.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
                && word.len() > scheme.len()
        })
    }

    /// Returns a configuration whose only server is this one.
    pub(crate) fn configuration(&self) -> String {
        let entry: Value = match self {
            Self::Command(words) => {
                let (command, arguments) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
                json!({ "command": command, "args": arguments })
            }
            Self::Url(url) => json!({ "url": url }),
        };
        json!({ "mcpServers": { ONE_OFF_NAME: entry } }).to_string()
    }

    /// Returns the command `toolrack VERB` with this server, as a user types it.
    pub(crate) fn command_line(&self, verb: &str) -> String {
        let words = match self {
            Self::Command(words) => format!("toolrack {verb} -- {}", shell_words::join(words)),
            Self::Url(url) => format!("toolrack {verb} {}", shell_words::quote(url)),
        };
        text::for_line(&words).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_something_behind_it() {
        for word in ["https://example.com/mcp", "HTTP://127.0.0.1:1", "https://[::1]/x"] {
            assert!(OneOffServer::is_url(word), "{word}");
        }
        for word in ["https://", "docs", "file:///x", "http:/x", "a/https://x", ""] {
            assert!(!OneOffServer::is_url(word), "{word}");
        }
    }
}
