//! Advice on the next step, for each kind of failure.

use super::CallError;
use crate::{
    link::LinkError,
    spec::{Setting, Source},
    state::State,
};

impl CallError {
    /// Returns the next step for the user, in one line; `None` if the error itself names it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_)
            | Self::UnknownServer { .. }
            | Self::Remote { .. }
            | Self::ArgumentMismatch { .. }
            | Self::OverQuota { .. }
            | Self::ShutDown => None,
            Self::Denied { unasked, .. } => {
                unasked.then(|| "allow it by a rule, or call it where a user can be asked".to_owned())
            }
            Self::Quarantined { server, tool, .. } => Some(format!(
                "look at it with `toolrack trust diff {server}/{tool}`, then approve it or remove the server"
            )),
            Self::NotReady { server, state, configured_in, error } => match state {
                State::PendingTrust => Some(format!("look at the entry `{server}` in {configured_in}, then trust it")),
                State::Disabled => Some(enabling_hint(server.as_str(), configured_in)),
                // An answer that refuses the handshake may also come from a program that merely echoes its input.
                State::Failed { .. } if matches!(error.as_deref(), Some(LinkError::Rpc(_))) => {
                    Some(match is_typed(configured_in) {
                        true => "check that the program or url on the command line is an MCP server".to_owned(),
                        false => format!(
                            "check that the program or url of the entry in {configured_in} is an MCP server; correct or \
                             remove the entry"
                        ),
                    })
                }
                State::Connecting if error.is_none() => Some(format!(
                    "call again later; a call waits `call_timeout` for its server, which can be raised in {}",
                    place_of_settings(configured_in)
                )),
                _ => error.as_deref().and_then(|error| match error {
                    // This call has made the host try again, but has not waited for that.
                    LinkError::NeedsAuth { refused: Some(part), .. } => {
                        Some(format!("correct the {part} of {}, then call again", entry(configured_in)))
                    }
                    error => unconnected_hint(error, configured_in),
                }),
            },
            Self::Link { error, configured_in, .. } => link_hint(error, configured_in),
        }
    }
}

fn enabling_hint(server: &str, source: &Source) -> String {
    match source.path {
        Some(_) => format!("set \"enabled\": true in {source}"),
        None => format!("remove the entry that disables `{server}` from the configuration"),
    }
}

/// Returns where settings of a server stand. A server that is given only on the command line has no entry to change.
fn place_of_settings(source: &Source) -> String {
    if is_typed(source) { "an entry of `--mcp-config`".to_owned() } else { source.to_string() }
}

/// Returns whether the user typed the server itself on the command line.
fn is_typed(source: &Source) -> bool {
    source.path.is_none() && source.scope == "command line"
}

/// Returns the words for what configures a server.
fn entry(source: &Source) -> String {
    if is_typed(source) { "the server on the command line".to_owned() } else { format!("the entry in {source}") }
}

/// Returns the words for the URL of a server.
fn url(source: &Source) -> String {
    if is_typed(source) { "the url".to_owned() } else { format!("the url in {source}") }
}

/// Returns the next step after an error of a connection on which no call was sent.
fn unconnected_hint(error: &LinkError, source: &Source) -> Option<String> {
    let (settings, url) = (place_of_settings(source), url(source));
    match error {
        LinkError::Http { status: 404 | 405 | 415, .. } => {
            Some(format!("check that {url} is that of the MCP endpoint"))
        }
        LinkError::Broken { .. } | LinkError::SessionNotFound { not_executed: false } | LinkError::Http { .. } => {
            Some(format!("check that the server runs and that {url} is right"))
        }
        LinkError::TimedOut { setting, .. } => Some(format!("if it is only slow, raise `{setting}` in {settings}")),
        LinkError::TooLarge { setting, .. } => Some(format!("raise `{setting}` in {settings}")),
        LinkError::RateLimited { .. } => Some("try again later".to_owned()),
        LinkError::NoToken { .. } => Some("try again later; if the error stays, sign in again".to_owned()),
        _ => link_hint(error, source),
    }
}

fn link_hint(error: &LinkError, source: &Source) -> Option<String> {
    let (settings, entry, url) = (place_of_settings(source), entry(source), url(source));
    let hint = match error {
        LinkError::Spawn(_) | LinkError::Resolve(_) | LinkError::Config { .. } => format!("correct {entry}"),
        LinkError::Container { next, .. } => format!("{next}; the entry is in {source}"),
        LinkError::Exited { .. } => {
            "start its command by hand to see what it says; the next call starts it again".to_owned()
        }
        LinkError::Closed { .. } => {
            "start its command by hand to see what it says, or check its url; the next call connects again".to_owned()
        }
        LinkError::SlowStart { noise, .. } if !noise.is_empty() => {
            "the server may send only MCP messages: have it write logs to stderr, and check that its command starts an \
             MCP server"
                .to_owned()
        }
        LinkError::SlowStart { .. } => format!(
            "if it is only slow, raise `startup_timeout` in {settings}; if not, start its command by hand, or check its url"
        ),
        LinkError::TimedOut { setting, .. } => {
            format!("if it is only slow, raise `{setting}` in {settings}; the call was not repeated")
        }
        LinkError::TooLarge { setting: setting @ Setting::MaxListBytes, .. } => {
            format!("raise `{setting}` in {settings}")
        }
        LinkError::TooLarge { setting, .. } => format!("ask for less, or raise `{setting}` in {settings}"),
        LinkError::Refused(refused) => refused.hint(),
        LinkError::UnsupportedVersion { .. } => "install another version of the server".to_owned(),
        LinkError::Unparsable { .. } | LinkError::InvalidEvent { .. } | LinkError::Protocol { .. } => {
            "the fault is in the server: install another version of it, or tell its authors".to_owned()
        }
        LinkError::Http { status: 413, .. } => "the call was not carried out; send less".to_owned(),
        LinkError::Http { status: 404 | 405 | 415, .. } => {
            format!("the call was not carried out; check that {url} is that of the MCP endpoint")
        }
        LinkError::Unreachable { .. } | LinkError::Http { .. } => {
            format!("check that the server runs and that {url} is right")
        }
        LinkError::Redirect { next, .. } if is_typed(source) => format!("{next} the command line"),
        LinkError::Redirect { next, .. } => format!("{next} {source}"),
        LinkError::NeedsAuth { how: Some(how), .. } => how.clone(),
        LinkError::NoToken { .. } => "call again later; if the error stays, sign in again".to_owned(),
        LinkError::Helper { .. } => {
            format!("run the program of `headers_helper` in {source} by hand to see what it says")
        }
        LinkError::NeedsAuth { refused: Some(part), .. } => {
            format!("correct the {part} of {entry}; the next call tries again")
        }
        LinkError::NeedsAuth { .. } if is_typed(source) => format!("give it an `Authorization` header in {settings}"),
        LinkError::NeedsAuth { .. } => format!("give the entry in {source} an `Authorization` header"),
        LinkError::SessionNotFound { not_executed: true } => {
            "the call was not carried out; the next call begins a new session".to_owned()
        }
        LinkError::SessionNotFound { not_executed: false } | LinkError::Broken { .. } => {
            "it is not known whether the call was carried out; it was not repeated".to_owned()
        }
        LinkError::NotRecorded(_) => {
            "a recording answers only the requests that it contains: make the same request, or record this one as well"
                .to_owned()
        }
        LinkError::RateLimited { .. } => "the call was not carried out; call again later".to_owned(),
        _ => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        link::{RefusedPart, RpcError},
        spec::ServerName,
    };

    #[test]
    fn the_hint_for_a_server_that_was_typed_names_no_file() {
        let typed = Source { scope: "command line".to_owned(), path: None };
        let unreachable = LinkError::Unreachable { origin: String::new(), why: String::new(), source: None };
        let config = LinkError::Config { code: "X", why: String::new() };
        let http = |status| LinkError::Http { status, body: String::new() };
        let needs_auth = |refused| LinkError::NeedsAuth { status: 401, challenge: None, how: None, refused };
        let authorization = Some(RefusedPart::Authorization);
        for error in [config, unreachable, http(404), http(500), needs_auth(None), needs_auth(authorization)] {
            for hint in [link_hint(&error, &typed), unconnected_hint(&error, &typed)] {
                let hint = hint.unwrap();
                assert!(!hint.contains("in command line"), "{hint}");
            }
            let hint = link_hint(&error, &Source::file("user", "/home/ada/mcp.json")).unwrap();
            assert!(hint.contains("in /home/ada/mcp.json"), "{hint}");
        }
        let no_mcp = RpcError { code: -32601, message: String::new(), data: None };
        let failed = State::Failed { error: String::new().into() };
        for (state, error) in [(failed, Some(Arc::new(LinkError::Rpc(no_mcp)))), (State::Connecting, None)] {
            let server = ServerName::new("web").unwrap();
            let not_ready = CallError::NotReady { server, state, configured_in: Box::new(typed.clone()), error };
            let hint = not_ready.hint().unwrap();
            assert!(!hint.contains("in command line"), "{hint}");
        }
    }

    #[test]
    fn the_hint_for_a_refused_part_of_an_entry_names_that_part() {
        let hint = |refused| {
            let error = LinkError::NeedsAuth { status: 401, challenge: None, how: None, refused };
            (error.to_string(), link_hint(&error, &Source::program()).unwrap())
        };
        let (error, next) = hint(Some(RefusedPart::HeadersHelper));
        assert_eq!(error, "the server refuses the headers of `headers_helper` of its entry (HTTP 401)");
        assert!(next.starts_with("correct the headers of `headers_helper`") && next.contains("next call"), "{next}");
        let (error, next) = hint(None);
        assert_eq!(error, "the server asks for a sign-in (HTTP 401)");
        assert!(next.starts_with("give the entry"), "{next}");
    }

    /// `doctor` shows these hints as well, and there is no call at all.
    #[test]
    fn the_hint_for_a_server_that_did_not_connect_speaks_of_no_call() {
        let broken = LinkError::Broken { why: String::new() };
        let slow = LinkError::TimedOut {
            what: "a piece of the body",
            after: Duration::from_secs(3),
            setting: Setting::ReadTimeout,
        };
        let no_endpoint = LinkError::Http { status: 404, body: String::new() };
        let unknown_session = LinkError::SessionNotFound { not_executed: true }.for_requests_under_way();
        for error in [broken.clone(), slow, no_endpoint, unknown_session] {
            let not_ready = CallError::NotReady {
                server: ServerName::new("web").unwrap(),
                state: State::Failed { error: error.to_string().into() },
                configured_in: Box::new(Source::program()),
                error: Some(Arc::new(error)),
            };
            let hint = not_ready.hint().unwrap();
            assert!(!hint.contains("call") && hint.contains("program"), "{not_ready}: {hint}");
        }
        let sent = CallError::Link {
            server: ServerName::new("web").unwrap(),
            what: "echo".to_owned(),
            configured_in: Box::new(Source::program()),
            error: broken,
        };
        assert!(sent.hint().unwrap().contains("not known whether the call was carried out"));
    }

    #[test]
    fn the_hint_for_a_silent_server_is_for_one_with_a_url_too() {
        let after = Duration::from_secs(5);
        let silent = LinkError::SlowStart { after, stderr: String::new(), noise: String::new() };
        let closed = LinkError::Closed { why: "the event stream ended".to_owned(), stderr: String::new() };
        for error in [silent, closed] {
            let hint = link_hint(&error, &Source::program()).unwrap();
            assert!(hint.contains("its url") && hint.contains("its command"), "{error}: {hint}");
        }
    }

    /// It is certain that the call did not run only if the server refused the request itself.
    #[test]
    fn only_errors_that_are_certain_say_that_the_call_did_not_run() {
        let http = |status| LinkError::Http { status, body: String::new() };
        let says = |error: &LinkError| {
            link_hint(error, &Source::program()).is_some_and(|hint| hint.contains("the call was not carried out"))
        };
        let certain = [
            LinkError::SessionNotFound { not_executed: true },
            LinkError::RateLimited { retry_after: None },
            http(404),
            http(405),
            http(413),
            http(415),
        ];
        for error in &certain {
            assert!(says(error), "{error}");
        }
        let unread = LinkError::SessionNotFound { not_executed: true };
        let of_another = unread.for_requests_under_way();
        let broken = LinkError::Broken { why: String::new() };
        for error in [&of_another, &broken, &http(400), &http(408), &http(409), &http(500), &http(502), &http(504)] {
            assert!(!says(error), "{error}");
        }
    }
}
