//! Finds the servers that the arguments of a verb name, and reports those that cannot be used. An entry is the
//! configuration of one server in a file. The catalog is the host's list of all tools.

use std::collections::BTreeSet;

use toolrack_config::{Loaded, closest};
use toolrack_host::{Dashes, Desired, Host, NameStyle, Naming, ServerName, ServerStatus, State};

use crate::{
    args::ONE_OFF_NAME,
    context::Context,
    error::{Exit, Failure},
};

/// Returns the servers in `server_names`, or all servers if `server_names` is empty.
///
/// # Errors
/// When a named server does not exist, or its entry is broken.
pub(crate) fn select_servers(loaded: &Loaded, server_names: &[String]) -> Result<Desired, Failure> {
    for name in server_names {
        if !loaded.desired.contains_key(name.as_str()) {
            return Err(no_such_server(name, loaded, Exit::Usage));
        }
    }
    let mut desired = loaded.desired.clone();
    if !server_names.is_empty() {
        desired.retain(|name, _| server_names.iter().any(|other| other == name.as_str()));
    }
    Ok(desired)
}

/// Connects the servers in `server_names`, or all servers if `server_names` is empty. If `server_names` is empty and a
/// running daemon provides the servers, failed servers are not tried again: the verb shows them as failed.
///
/// # Errors
/// As for [`select_servers`] and [`Context::connect`].
pub(crate) async fn connect_for_list(
    context: &Context,
    loaded: &Loaded,
    server_names: &[String],
) -> Result<Host, Failure> {
    let desired = select_servers(loaded, server_names)?;
    if server_names.is_empty() { context.connect_for_list(desired).await } else { context.connect(desired).await }
}

/// Returns the failure for a name that no server has, or whose entry is broken.
pub(crate) fn no_such_server(name: &str, loaded: &Loaded, exit: Exit) -> Failure {
    if let Some(entry) = loaded.entry(name) {
        let line = entry.line.map_or_else(String::new, |line| format!(":{line}"));
        let source = &entry.source;
        return Failure::config(format!("the entry of `{name}` is broken ({source}{line})"))
            .hint("correct the problems that are reported above")
            .server(name);
    }
    if !loaded.is_complete {
        return Failure::config(format!("there is no server `{name}` in the files that could be read"))
            .hint("correct the problems that are reported above")
            .server(name);
    }
    let known_names = loaded.desired.keys().map(ServerName::as_str);
    Failure::new(exit, "UNKNOWN_SERVER", format!("there is no server `{name}`"))
        .with_suggestion(closest(name, known_names), "`toolrack list` shows all servers")
        .server(name)
}

/// The target of a selector, as far as the configuration determines it. A selector is a user's name for a tool:
/// `server/tool`, `server.tool`, or the name that a model sees.
pub(crate) enum Target {
    /// This tool of this server; the server itself if `tool` is empty.
    Tool { server: ServerName, tool: String },
    /// A name as a model sees it: only the catalog knows its server, which is one of these.
    ModelName(BTreeSet<ServerName>),
}

/// Splits `selector` into the server and the tool (or prompt), where the command line itself describes the server. That
/// server always has the name [`ONE_OFF_NAME`]. `selector` may begin with `ONE_OFF_NAME/`, because other commands print
/// it so.
pub(crate) fn split_one_off_selector(selector: &str) -> (String, String) {
    let name = selector.strip_prefix(ONE_OFF_NAME).and_then(|rest| rest.strip_prefix('/'));
    (ONE_OFF_NAME.to_owned(), name.unwrap_or(selector).to_owned())
}

impl Target {
    /// Returns the target of `selector` at the server that the command line describes for this one command.
    ///
    /// # Errors
    /// Never: the name of that server is valid.
    pub(crate) fn of_one_off(selector: &str) -> Result<Self, Failure> {
        let (server, tool) = split_one_off_selector(selector);
        let server = ServerName::new(server).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self::Tool { server, tool })
    }

    /// Returns the target of `selector`. Its server is the part before the `/`, or before a `.` if a server has that
    /// name.
    ///
    /// # Errors
    /// When a server is named that does not exist.
    pub(crate) fn parse(selector: &str, loaded: &Loaded) -> Result<Self, Failure> {
        let find_server = |name: &str| {
            let entry = loaded.desired.get_key_value(name);
            entry.map(|(name, _)| name.clone())
        };
        if let Some((server, tool)) = selector.split_once('/') {
            return match find_server(server) {
                Some(server) => Ok(Self::Tool { server, tool: tool.to_owned() }),
                None => Err(no_such_server(server, loaded, Exit::Tool).tool(tool)),
            };
        }
        if let Some(server) = find_server(selector) {
            return Ok(Self::Tool { server, tool: String::new() });
        }
        // The longest name wins, because names of servers may contain dots.
        let split_at_dot =
            selector.rmatch_indices('.').find_map(|(dot, _)| Some((find_server(&selector[..dot])?, dot)));
        if let Some((server, dot)) = split_at_dot {
            return Ok(Self::Tool { server, tool: selector[dot + 1..].to_owned() });
        }
        let servers = loaded.desired.keys();
        // The name that a model sees contains the server's name only in the stable styles, so only these narrow down
        // the servers.
        let styles = NameStyle::PRESETS.into_iter().filter(NameStyle::is_stable);
        let namings: Vec<_> = styles
            .flat_map(|style| {
                let naming = |dashes| Naming { style: style.clone(), dashes, ..Naming::default() };
                [Dashes::Keep, Dashes::Underscore].map(naming)
            })
            .collect();
        let owners =
            servers.clone().filter(|server| namings.iter().any(|naming| naming.may_produce(server.as_str(), selector)));
        let owners: BTreeSet<_> = owners.cloned().collect();
        // A name in another style may belong to any server.
        Ok(Self::ModelName(if owners.is_empty() { servers.cloned().collect() } else { owners }))
    }

    /// Returns the server, if the configuration alone determines the server.
    pub(crate) fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Tool { server, .. } => Some(server),
            Self::ModelName(_) => None,
        }
    }

    /// Returns whether `server` may have the target. Callers start only such servers and wait only for them.
    pub(crate) fn may_be_on(&self, server: &ServerName) -> bool {
        match self {
            Self::Tool { server: target_server, .. } => target_server == server,
            Self::ModelName(owners) => owners.contains(server),
        }
    }
}

/// Returns the failure that says why `server` cannot be used, or `None` if the server can be used.
pub(crate) fn server_failure(host: &Host, server: &ServerStatus) -> Option<Failure> {
    match &server.state {
        State::Connected { .. } | State::Idle { .. } => None,
        State::ToolsFailed { error } => {
            let name = &server.name;
            let message = format!("`{name}` is connected, but its tools cannot be listed: {error}");
            Some(Failure::new(Exit::Unreachable, "TOOLS_FAILED", message).server(name.as_str()))
        }
        _ => host.not_ready(&server.name).map(|error| Failure::from_call_error(&error)),
    }
}

/// Returns a failure for each server that cannot be used, except for disabled servers that are not in `server_names`.
pub(crate) fn server_failures(host: &Host, server_names: &[String]) -> Vec<Failure> {
    let must_be_usable = |server: &ServerStatus| {
        server.state != State::Disabled || server_names.iter().any(|name| name == server.name.as_str())
    };
    host.status()
        .iter()
        .filter(|server| must_be_usable(server))
        .filter_map(|server| server_failure(host, server))
        .collect()
}

/// Returns the messages of `failures`, for the `warnings` of a JSON document.
pub(crate) fn failure_messages(failures: &[Failure]) -> Vec<String> {
    failures.iter().map(|failure| failure.message.clone()).collect()
}

/// Ends a verb that shows what several servers offer.
///
/// A server that cannot be used causes only a warning, because the other servers were shown. If the user named servers,
/// the first of these failures fails the command.
pub(crate) fn conclude(context: &Context, failures: Vec<Failure>, server_names: &[String]) -> Result<Exit, Failure> {
    let mut failures = failures.into_iter();
    let first_failure = if server_names.is_empty() { None } else { failures.next() };
    // In JSON, the document contains the warnings.
    if !context.screen.prints_json() {
        failures.for_each(|failure| context.screen.warning(&failure.message));
    }
    first_failure.map_or(Ok(Exit::Ok), Err)
}

/// Returns the servers that can be asked for resources and prompts: the connected servers, and the idle ones, which
/// start with a request.
pub(crate) fn servers_to_ask(host: &Host) -> Vec<ServerName> {
    let can_be_asked = |server: &ServerStatus| {
        matches!(server.state, State::Connected { .. } | State::ToolsFailed { .. } | State::Idle { .. })
    };
    host.status().into_iter().filter(can_be_asked).map(|server| server.name).collect()
}

/// Starts a host that runs only `name`.
///
/// # Errors
/// When there is no such server or it cannot be used.
pub(crate) async fn connect_to(context: &Context, loaded: &Loaded, name: &str) -> Result<(Host, ServerName), Failure> {
    let desired = select_servers(loaded, &[name.to_owned()])?;
    let host = context.connect(desired).await?;
    let servers = host.status();
    let Some(server) = servers.into_iter().find(|server| server.name.as_str() == name) else {
        return Err(Failure::new(Exit::Unreachable, "SERVER_FAILED", format!("`{name}` is not connected")));
    };
    match server_failure(&host, &server) {
        // A server whose tools cannot be listed may still have the prompts and resources that the verb needs.
        Some(failure) if !matches!(server.state, State::ToolsFailed { .. }) => Err(failure),
        _ => Ok((host, server.name)),
    }
}
