//! `toolrack add`

use std::{path::PathBuf, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolrack_config::{
    edit::{self, EditError, Edited, Options},
    project_root,
    trust::content_hash,
};
use toolrack_host::ServerName;

use crate::{
    args::{AddArgs, AddOptions, Scope, Target, TransportKind},
    error::{Exit, Failure, with_causes},
    render::list::{self, Server},
    wire::World,
};

/// `add --json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    name: &'a str,
    scope: &'static str,
    path: PathBuf,
    created: bool,
    /// How the server is, unless it was not to be tried.
    server: Option<Server>,
}

pub(super) async fn run(args: AddArgs, after_dashes: bool, world: &World) -> Result<Exit, Failure> {
    let name = ServerName::new(args.name.as_str()).map_err(|error| Failure::usage(error.to_string()))?;
    let (target, options) = args.target(after_dashes).map_err(|error| misunderstood(&error))?;
    let entry = entry(&target, &options, world);
    let scope = options.scope.unwrap_or_default();
    let hash = content_hash(&entry);
    let edited = write(file(scope, world), name.clone(), entry).await?;
    if scope == Scope::Project {
        approve(&name, &hash, world).await?;
    }

    if !world.screen.json() {
        let kind = kind(&target, &options);
        let path = edited.path.display();
        let line = format!("added the {kind} server {name} to {path}");
        world.screen.page(line).await?;
    }
    for problem in &edited.warnings {
        world.screen.problem(problem);
    }
    let tried = if options.no_test { None } else { try_it(&name, &edited, world).await? };
    let (server, failure) = tried.map_or((None, None), |tried| (Some(tried.server), tried.failure));
    if world.screen.json() {
        let document =
            Document { name: name.as_str(), scope: word(scope), path: edited.path, created: edited.created, server };
        world.screen.document(&document).await?;
    } else if let (Some(server), None) = (server, &failure) {
        let page = list::page(&[server], world.screen.look());
        world.screen.page(page).await?;
    }
    // It is written all the same: the failure says what to do next, and its exit code that something is to be done.
    failure.map_or(Ok(Exit::Ok), Err)
}

/// How a new server turned out.
struct Tried {
    server: Server,
    failure: Option<Failure>,
}

/// The words after a URL that are no options.
fn misunderstood(error: &clap::Error) -> Failure {
    let rendered = error.render().to_string();
    let first = rendered.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    Failure::usage(message).hint("toolrack add --help")
}

/// What is written to the file; what is wrong with it is found by the one who writes.
fn entry(target: &Target, options: &AddOptions, world: &World) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Map<String, Value> {
        let pairs = pairs.iter().cloned();
        pairs.map(|(name, value)| (name, value.into())).collect()
    };
    let mut entry = Map::new();
    entry.insert("type".into(), kind(target, options).into());
    match target {
        Target::Command { command, arguments } => {
            entry.insert("command".into(), command.as_str().into());
            if !arguments.is_empty() {
                entry.insert("args".into(), json!(arguments));
            }
        }
        Target::Url(url) => {
            entry.insert("url".into(), url.as_str().into());
        }
    }
    if !options.env.is_empty() {
        entry.insert("env".into(), pairs(&options.env).into());
    }
    if !options.header.is_empty() {
        entry.insert("headers".into(), pairs(&options.header).into());
    }
    if let Some(cwd) = &options.cwd {
        // The file is read from other folders too, so a relative path would mean something else each time.
        let cwd = world.folder.join(cwd);
        entry.insert("cwd".into(), cwd.to_string_lossy().into());
    }
    if let Some(timeout) = options.timeout {
        entry.insert("call_timeout".into(), seconds(timeout));
    }
    entry.into()
}

fn kind(target: &Target, options: &AddOptions) -> &'static str {
    match (target, options.transport) {
        (Target::Command { .. }, _) => "stdio",
        (Target::Url(_), Some(TransportKind::Sse)) => "sse",
        (Target::Url(_), _) => "http",
    }
}

fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { json!(time.as_secs()) } else { json!(time.as_secs_f64()) }
}

fn file(scope: Scope, world: &World) -> PathBuf {
    match scope {
        Scope::User => world.places.user_file(),
        Scope::Project => project_root(&world.folder).join(".mcp.json"),
        Scope::Local => world.places.local_file(&project_root(&world.folder)),
    }
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
        Scope::Local => "local",
    }
}

async fn write(path: PathBuf, name: ServerName, entry: Value) -> Result<Edited, Failure> {
    let server = name.clone();
    // It may wait for another process that edits the same file.
    let edited = tokio::task::spawn_blocking(move || edit::add(&path, name.as_str(), &entry, Options::default()))
        .await
        .map_err(|_| Failure::new(Exit::Other, "INTERNAL", "the file was not written"))?;
    edited.map_err(|error| {
        let (exit, code) = match error {
            EditError::Exists { .. } => (Exit::Usage, "EXISTS"),
            EditError::Busy { .. } | EditError::Io { .. } => (Exit::Other, "NOT_WRITTEN"),
            _ => (Exit::Usage, "CONFIG"),
        };
        Failure::new(exit, code, with_causes(&error)).server(server.as_str())
    })
}

/// Whoever adds an entry to a project has agreed to run it; everybody else still has to.
async fn approve(name: &ServerName, hash: &str, world: &World) -> Result<(), Failure> {
    let loaded = world.read().await;
    match loaded.entry(name.as_str()) {
        // Only what was typed just now, and not what somebody else has put in its place meanwhile.
        Some(entry) if entry.hash == hash => world.approve(entry).await,
        _ => Ok(()),
    }
}

/// How the new server turns out when it is connected as every other command would connect it.
async fn try_it(name: &ServerName, edited: &Edited, world: &World) -> Result<Option<Tried>, Failure> {
    let loaded = world.load().await?;
    let entry = loaded.entry(name.as_str());
    if entry.and_then(|entry| entry.source.path.as_ref()) != Some(&edited.path) {
        let other = entry.map_or_else(|| "nothing".to_owned(), |entry| entry.source.to_string());
        world.screen.warning(&format!("it is not used here: what counts for `{name}` is {other}"));
        return Ok(None);
    }
    let desired = super::only(&loaded, &[name.to_string()])?;
    let host = world.connect(desired).await?;
    let Some(status) = host.status().into_iter().find(|server| server.name == *name) else {
        return Ok(None);
    };
    let failure = super::unusable(&host, &status).await;
    Ok(Some(Tried { server: status.into(), failure }))
}
