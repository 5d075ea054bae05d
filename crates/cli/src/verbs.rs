//! What each verb does: load, connect, ask the host, show.
//!
//! A verb prints its result and returns; [`crate::run`] closes what it started, whether the verb ended or was
//! interrupted.

mod add;
mod ask;
mod audit;
pub(crate) mod call;
mod chat;
mod config;
mod daemon;
mod doctor;
mod edits;
mod gateway;
mod get;
mod given;
mod import;
mod input;
pub(crate) mod itself;
mod list;
mod logs;
mod policy;
mod prompts;
mod remove;
mod resources;
mod secret;
mod serve;
pub(crate) mod sessions;
mod sign_in;
mod switch;
mod test;
mod tools;
mod trust;
mod why;

use std::{collections::BTreeSet, ffi::OsString};

use toolrack_config::Loaded;
use toolrack_host::{Dashes, Desired, Host, NameStyle, Naming, ServerName, ServerStatus, State};

use crate::{
    args::Verb,
    error::{Exit, Failure},
    output, suggest,
    wire::World,
};

/// Runs `verb`; `words` is the whole command line it came from.
pub(crate) async fn run(verb: Verb, words: &[OsString], world: &World) -> Result<Exit, Failure> {
    // Verbs that show what is wrong go on.
    if !matches!(verb, Verb::Config(_) | Verb::Doctor(_) | Verb::Itself(_)) && !verb.can_be_lent() {
        world.refuse_broken().await?;
    }
    match verb {
        Verb::Add(args) => {
            let after_dashes = args.follows_dashes(words);
            add::run(args, after_dashes, world).await
        }
        Verb::AddJson(args) => add::json(args, world).await,
        Verb::Import(args) => import::run(args, world).await,
        Verb::Get(args) => get::run(args, world).await,
        Verb::Remove(args) => remove::run(args, world).await,
        Verb::Enable(args) => switch::run(args, true, world).await,
        Verb::Disable(args) => switch::run(args, false, world).await,
        Verb::Call(_)
        | Verb::Tools(_)
        | Verb::List(_)
        | Verb::Resources(_)
        | Verb::Read(_)
        | Verb::Prompts(_)
        | Verb::Prompt(_) => run_lent(verb, world).await,
        Verb::Ask(args) => Box::pin(ask::run(*args, world)).await,
        Verb::Chat(args) => Box::pin(chat::run(*args, world)).await,
        Verb::Serve(args) => Box::pin(serve::run(args, world)).await,
        Verb::Daemon(verb) => daemon::run(verb, words, world).await,
        Verb::Gateway(args) => Box::pin(gateway::run(args, world)).await,
        Verb::Login(args) => Box::pin(sign_in::login(args, world)).await,
        Verb::Logout(args) => Box::pin(sign_in::logout(args, world)).await,
        Verb::Auth(verb) => Box::pin(sign_in::auth(verb, world)).await,
        Verb::Why(args) => why::run(args, world).await,
        Verb::Test(args) => test::run(args, world).await,
        Verb::Logs(args) => logs::run(args, world).await,
        Verb::Audit(verb) => audit::run(verb, world).await,
        Verb::Policy(verb) => policy::run(verb, world).await,
        Verb::Pending(args) => trust::pending(args, world).await,
        Verb::Trust(args) => trust::trust(args, world).await,
        Verb::Untrust(args) => trust::untrust(args, world).await,
        Verb::Secret(verb) => secret::run(verb, world).await,
        Verb::Sessions(verb) => sessions::run(verb, world).await,
        Verb::Doctor(args) => doctor::run(args, world).await,
        Verb::Config(verb) => config::run(verb, world).await,
        Verb::Itself(verb) => itself::run(verb, words, &world.screen).await,
    }
}

/// Checks what only the process that was typed can see, before anything is started or a daemon is asked.
///
/// # Errors
/// When the file for a result cannot be written, or `--json` wants the result elsewhere.
pub(crate) fn check(verb: &Verb, json: bool) -> Result<(), Failure> {
    let output = match verb {
        Verb::Call(args) => args.output.as_deref(),
        Verb::Read(args) => args.output.as_deref(),
        _ => None,
    };
    match output {
        // The library detects this only where both stand behind the verb.
        Some(_) if json => {
            Err(Failure::usage("`--output` writes content as it is, and `--json` prints a document: leave one out"))
        }
        Some(file) if !output::is_stdout(file) => output::check(file),
        _ => Ok(()),
    }
}

/// Runs one of the verbs that [can be lent](Verb::can_be_lent).
///
/// # Errors
/// As the verb itself; any other one is refused.
pub(crate) async fn run_lent(verb: Verb, world: &World) -> Result<Exit, Failure> {
    world.refuse_broken().await?;
    match verb {
        Verb::Call(args) => call::run(args, world).await,
        Verb::Tools(args) => tools::run(args, world).await,
        Verb::List(args) => list::run(args, world).await,
        Verb::Resources(args) => resources::list(args, world).await,
        Verb::Read(args) => resources::read(args, world).await,
        Verb::Prompts(args) => prompts::list(args, world).await,
        Verb::Prompt(args) => prompts::get(args, world).await,
        _ => Err(Failure::new(Exit::Other, "INTERNAL", "this is not for a daemon to do")),
    }
}

/// The desired servers without those that were not named; all of them when none was.
///
/// # Errors
/// When a named server does not exist, or its entry is broken.
fn only(loaded: &Loaded, named: &[String]) -> Result<Desired, Failure> {
    for name in named {
        if !loaded.desired.contains_key(name.as_str()) {
            return Err(no_such_server(name, loaded, Exit::Usage));
        }
    }
    let mut desired = loaded.desired.clone();
    if !named.is_empty() {
        desired.retain(|name, _| named.iter().any(|named| named == name.as_str()));
    }
    Ok(desired)
}

/// Connects the `named` servers; when none is named, all of them as they are: those that cannot be used are shown as
/// such, and a daemon that has tried them knows as much as another attempt would tell.
///
/// # Errors
/// As [`only`] and [`World::connect`].
async fn looked_at(world: &World, loaded: &Loaded, named: &[String]) -> Result<Host, Failure> {
    let desired = only(loaded, named)?;
    if named.is_empty() { world.look_at(desired).await } else { world.connect(desired).await }
}

/// The failure for a name that no server has, or whose entry is broken.
fn no_such_server(name: &str, loaded: &Loaded, exit: Exit) -> Failure {
    if let Some(entry) = loaded.entry(name) {
        let line = entry.line.map_or_else(String::new, |line| format!(":{line}"));
        let source = &entry.source;
        return Failure::config(format!("the entry of `{name}` is broken ({source}{line})"))
            .hint("correct what is reported above")
            .server(name);
    }
    if !loaded.is_whole {
        return Failure::config(format!("there is no server `{name}` in the files that could be read"))
            .hint("correct what is reported above")
            .server(name);
    }
    let known = loaded.desired.keys().map(ServerName::as_str);
    let hint = match suggest::closest(name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`toolrack list` shows all servers".to_owned(),
    };
    Failure::new(exit, "UNKNOWN_SERVER", format!("there is no server `{name}`")).hint(hint).server(name)
}

/// What a selector means, as far as the configuration tells. It is resolved once and passed on as this.
enum Meant {
    /// This tool of this server; the server itself where `tool` is empty.
    Of { server: ServerName, tool: String },
    /// A name as a model sees it: only the catalog knows its server, which is one of these.
    Name(BTreeSet<ServerName>),
}

impl Meant {
    /// What `selector` means: the server is what stands before the `/`, or before a `.` if a server is called that.
    ///
    /// # Errors
    /// When a server is named that does not exist.
    fn by(selector: &str, loaded: &Loaded) -> Result<Self, Failure> {
        let known = |name: &str| {
            let entry = loaded.desired.get_key_value(name);
            entry.map(|(name, _)| name.clone())
        };
        if let Some((server, tool)) = selector.split_once('/') {
            return match known(server) {
                Some(server) => Ok(Self::Of { server, tool: tool.to_owned() }),
                None => Err(no_such_server(server, loaded, Exit::Tool).tool(tool)),
            };
        }
        if let Some(server) = known(selector) {
            return Ok(Self::Of { server, tool: String::new() });
        }
        // The longest name wins: names may hold dots themselves.
        let at_dot = selector.rmatch_indices('.').find_map(|(at, _)| Some((known(&selector[..at])?, at)));
        if let Some((server, at)) = at_dot {
            return Ok(Self::Of { server, tool: selector[at + 1..].to_owned() });
        }
        let servers = loaded.desired.keys();
        // A style that hides the server says nothing about it.
        let showing = NameStyle::PRESETS.into_iter().filter(NameStyle::is_stable);
        let namings: Vec<_> = showing
            .flat_map(|style| {
                let naming = |dashes| Naming { style: style.clone(), dashes, ..Naming::default() };
                [Dashes::Keep, Dashes::Underscore].map(naming)
            })
            .collect();
        let owners =
            servers.clone().filter(|server| namings.iter().any(|naming| naming.may_be_of(server.as_str(), selector)));
        let owners: BTreeSet<_> = owners.cloned().collect();
        Ok(Self::Name(if owners.is_empty() { servers.cloned().collect() } else { owners }))
    }

    /// The server, where the configuration alone tells which one it is.
    fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Of { server, .. } => Some(server),
            Self::Name(_) => None,
        }
    }

    /// Whether `server` can be the one that is meant. No other server is started or waited for.
    fn may_be(&self, server: &ServerName) -> bool {
        match self {
            Self::Of { server: named, .. } => named == server,
            Self::Name(owners) => owners.contains(server),
        }
    }
}

/// Why `server` cannot be used; `None` when it can, as far as its state tells.
fn unusable(host: &Host, server: &ServerStatus) -> Option<Failure> {
    match &server.state {
        State::Connected { .. } | State::Idle { .. } => None,
        State::ToolsFailed { error } => {
            let name = &server.name;
            let message = format!("`{name}` is connected, but its tools cannot be listed: {error}");
            Some(Failure::new(Exit::Unreachable, "TOOLS_FAILED", message).server(name.as_str()))
        }
        _ => host.not_ready(&server.name).map(|error| Failure::of_call(&error)),
    }
}

/// The failures of servers that were wanted and cannot be used. A disabled server was not wanted unless it is among
/// `named`.
fn complaints(host: &Host, named: &[String]) -> Vec<Failure> {
    let is_wanted = |server: &ServerStatus| {
        server.state != State::Disabled || named.iter().any(|name| name == server.name.as_str())
    };
    host.status().iter().filter(|server| is_wanted(server)).filter_map(|server| unusable(host, server)).collect()
}

/// The messages, for a JSON document.
fn messages(complaints: &[Failure]) -> Vec<String> {
    complaints.iter().map(|complaint| complaint.message.clone()).collect()
}

/// Ends a verb that shows what several servers offer.
///
/// Servers that cannot be used are warnings, because the others were shown; only when they were asked for by name do
/// they fail the command.
fn conclude(world: &World, complaints: Vec<Failure>, named: &[String]) -> Result<Exit, Failure> {
    let mut complaints = complaints.into_iter();
    let first = if named.is_empty() { None } else { complaints.next() };
    // A JSON document contains them.
    if !world.screen.json() {
        complaints.for_each(|complaint| world.screen.warning(&complaint.message));
    }
    first.map_or(Ok(Exit::Ok), Err)
}

/// The servers that can be asked for resources and prompts: those that are connected.
fn connected(host: &Host) -> Vec<ServerName> {
    host.status()
        .into_iter()
        .filter(|server| matches!(server.state, State::Connected { .. } | State::ToolsFailed { .. }))
        .map(|server| server.name)
        .collect()
}

/// A host that runs `name` and nothing else.
///
/// # Errors
/// When there is no such server or it cannot be used.
async fn connect_to(world: &World, loaded: &Loaded, name: &str) -> Result<(Host, ServerName), Failure> {
    let desired = only(loaded, &[name.to_owned()])?;
    let host = world.connect(desired).await?;
    let servers = host.status();
    let Some(server) = servers.into_iter().find(|server| server.name.as_str() == name) else {
        return Err(Failure::new(Exit::Unreachable, "SERVER_FAILED", format!("`{name}` is not connected")));
    };
    match unusable(&host, &server) {
        // Even without its tools, it may have what is asked for.
        Some(failure) if !matches!(server.state, State::ToolsFailed { .. }) => Err(failure),
        _ => Ok((host, server.name)),
    }
}
