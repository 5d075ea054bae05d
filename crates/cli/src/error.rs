//! Describes failures, for users and for programs, with their exit codes.
//!
//! A failure has a stable code for programs, a message, and a hint that says what to do next.

use std::{error::Error, fmt::Write, io, process::ExitCode};

use serde::Serialize;
use serde_json::Value;
use toolrack_host::{CallError, CallErrorKind, LinkError, State, text};

/// How the program ends. The numbers are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    /// Any failure without its own number.
    Other = 1,
    /// Wrong usage, or a configuration that cannot be used.
    Usage = 2,
    /// A server wants the user to sign in.
    SignIn = 3,
    /// A server cannot be reached, or did not answer in time.
    Unreachable = 4,
    /// The tool reported an error, or there is no such tool.
    Tool = 5,
    /// A rule or a user refused.
    Denied = 6,
    /// The entry (a server's configuration in a file) comes from a project and waits for the user's agreement.
    NotTrusted = 7,
    /// A turn (a message to a model, and all that the model does until it has answered) reached a limit.
    TurnLimit = 8,
    /// There is no model, or it did not answer.
    Model = 9,
    /// The signal SIGHUP: the terminal was closed.
    HungUp = 129,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// Returns the exit with this number; any other number is [`Self::Other`].
    pub(crate) fn from_code(number: u8) -> Self {
        const ALL: [Exit; 13] = [
            Exit::Ok,
            Exit::Other,
            Exit::Usage,
            Exit::SignIn,
            Exit::Unreachable,
            Exit::Tool,
            Exit::Denied,
            Exit::NotTrusted,
            Exit::TurnLimit,
            Exit::Model,
            Exit::HungUp,
            Exit::Interrupted,
            Exit::Terminated,
        ];
        ALL.into_iter().find(|exit| *exit as u8 == number).unwrap_or(Self::Other)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<CallErrorKind> for Exit {
    fn from(kind: CallErrorKind) -> Self {
        match kind {
            CallErrorKind::UnknownTool | CallErrorKind::Refused => Self::Tool,
            CallErrorKind::Denied | CallErrorKind::OverQuota => Self::Denied,
            CallErrorKind::NotTrusted => Self::NotTrusted,
            CallErrorKind::NeedsAuth => Self::SignIn,
            CallErrorKind::Unreachable => Self::Unreachable,
            CallErrorKind::Config | CallErrorKind::BadArguments => Self::Usage,
            _ => Self::Other,
        }
    }
}

/// A failure, with everything that is shown about it.
///
/// Its texts may contain untrusted text of servers and files; they are made safe when they are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    pub(crate) exit: Exit,
    /// A stable word for programs.
    pub(crate) code: &'static str,
    /// The failure, its place, and the reason; in lower case, without a full stop.
    pub(crate) message: String,
    /// The next step.
    pub(crate) hint: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) tool: Option<Box<str>>,
    /// The `code` and `data` of the server's JSON-RPC error, unchanged. Only for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rpc: Option<Box<Rpc>>,
}

/// The JSON-RPC error of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rpc {
    pub(crate) code: i64,
    pub(crate) data: Option<Box<Value>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), hint: None, server: None, tool: None, rpc: None }
    }

    /// Creates the failure for a mistake on the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message)
    }

    /// A configuration that cannot be used.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "CONFIG", message)
    }

    /// The failure for an error of the host.
    pub(crate) fn from_call_error(error: &CallError) -> Self {
        let mut failure = Self::new(error.kind().into(), error.code(), with_causes(error));
        failure.hint = match error {
            CallError::NotReady { state: State::PendingTrust, server, .. } => Some(format!(
                "`toolrack pending {server}` shows what it would run, `toolrack trust {server}` agrees to it"
            )),
            CallError::NotReady { state: State::Disabled, server, .. } => Some(format!("toolrack enable {server}")),
            CallError::Quarantined { server, tool, .. } => Some(quarantine_hint(&format!("{server}/{tool}"))),
            _ => error.hint(),
        };
        failure.rpc = rpc(error);
        match error {
            CallError::Quarantined { server, tool, .. } => failure.server(server.as_str()).tool(tool.as_str()),
            CallError::NotReady { server, .. }
            | CallError::Link { server, .. }
            | CallError::Denied { server, .. }
            | CallError::OverQuota { server, .. }
            | CallError::ArgumentMismatch { server, .. }
            | CallError::Remote { server, .. } => failure.server(server.as_str()),
            _ => failure,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint: the similar name `similar_name`, or the text `otherwise` if there is no similar name.
    pub(crate) fn with_suggestion(self, similar_name: Option<&str>, otherwise: &str) -> Self {
        self.hint(
            similar_name.map_or_else(|| otherwise.to_owned(), |similar_name| format!("did you mean `{similar_name}`?")),
        )
    }

    pub(crate) fn server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    pub(crate) fn tool(mut self, tool: impl AsRef<str>) -> Self {
        self.tool = Some(tool.as_ref().into());
        self
    }

    /// The lines for the user: `error: …`, then `hint: …`.
    pub(crate) fn for_users(&self) -> String {
        let mut lines = format!("error: {}", text::for_line(&self.message));
        if let Some(hint) = &self.hint {
            let _ = write!(lines, "\nhint: {}", text::for_line(hint));
        }
        lines
    }
}

/// The JSON-RPC error of the server, if there is one.
fn rpc(error: &CallError) -> Option<Box<Rpc>> {
    let rpc = match error {
        CallError::Remote { error, .. } | CallError::Link { error: LinkError::Rpc(error), .. } => error,
        CallError::NotReady { error: Some(error), .. } => match &**error {
            LinkError::Rpc(error) => error,
            _ => return None,
        },
        _ => return None,
    };
    Some(Box::new(Rpc { code: rpc.code, data: rpc.data.clone() }))
}

/// Returns a hint that says how to release `tool` from quarantine: its definition has changed, and the user has not
/// approved the change yet.
pub(crate) fn quarantine_hint(tool: &str) -> String {
    let words = |verb: &str| shell_words::join(["toolrack", "trust", verb, tool]);
    format!("`{}`, then `{}` if you accept the change", words("diff"), words("approve"))
}

/// Returns the system's error message, without its number, for a message that names the file itself.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        kind => kind.to_string(),
    }
}

/// Returns an error with everything that caused it, in one line. Leaves out an error of the system that the line names
/// already.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        if !error.downcast_ref::<io::Error>().is_some_and(|error| is_said(error, &line)) {
            let _ = write!(line, ": {error}");
        }
        cause = error.source();
    }
    line
}

/// Returns whether `line` names the kind of `error`, and `error` says no more than its kind.
fn is_said(error: &io::Error, line: &str) -> bool {
    let kind = error.kind().to_string();
    (error.raw_os_error().is_some() || error.to_string() == kind) && line.contains(&kind)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, io::Error);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn a_cause_that_the_error_names_already_is_not_told_again() {
        let denied = || io::Error::from_raw_os_error(nix::errno::Errno::EACCES as i32);
        for (error, told) in [
            (Failed("cannot write x: permission denied", denied()), "cannot write x: permission denied"),
            (Failed("cannot write x", denied()), "cannot write x: Permission denied (os error 13)"),
            (Failed("x: too many links; see", io::ErrorKind::TooManyLinks.into()), "x: too many links; see"),
            (Failed("x: other error", io::Error::other("too deep")), "x: other error: too deep"),
        ] {
            assert_eq!(with_causes(&error), told);
        }
    }
}
