//! Shows which programs are connected to Toolrack, and how their files change.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toolrack_config::{
    Environment,
    connect::{self, Change, ClientFile, ConnectError, Reach, TOKEN_VARIABLE},
    edit::EditError,
    import::Client,
};
use toolrack_host::text;

use super::PROGRAM;
use crate::{
    error::with_causes,
    render::{Cell, Layout, Sign, Tone, columns, paint},
};

/// The change that the user asked for.
pub(super) struct Request<'a> {
    pub(super) client: Client,
    pub(super) name: &'a str,
    pub(super) for_project: bool,
    pub(super) is_undo: bool,
    pub(super) dry_run: bool,
    pub(super) reach: Option<&'a Reach>,
}

/// `connect PROGRAM --json`.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    client: Client,
    name: &'a str,
    path: &'a Path,
    connected: bool,
    created: bool,
    removed: bool,
    /// Whether an undo restores, or has now restored, exactly the bytes that the file had before the program was
    /// connected.
    exact: bool,
    dry_run: bool,
    diff: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(request: &Request<'a>, change: &'a Change) -> Self {
        Self {
            client: request.client,
            name: request.name,
            path: change.path(),
            connected: !request.is_undo,
            created: change.creates(),
            removed: change.removes(),
            exact: change.is_exact(),
            dry_run: request.dry_run,
            diff: change.diff(),
        }
    }
}

/// `connect --json`.
#[derive(Debug, Serialize)]
pub(super) struct ClientsDocument<'a> {
    pub(super) clients: &'a [ClientRow],
}

/// A program that can be connected, as `connect` lists it.
#[derive(Debug, Serialize)]
pub(super) struct ClientRow {
    pub(super) client: Client,
    title: &'static str,
    /// Whether this machine has the program or its files.
    found: bool,
    /// The program's configuration file for this user, which may not exist.
    path: Option<PathBuf>,
    /// The names under which that file has Toolrack.
    connected: Vec<String>,
    /// The names under which the program's file of this project has Toolrack.
    connected_here: Vec<String>,
    /// Why a file of the program cannot be read.
    pub(super) problem: Option<String>,
}

impl ClientRow {
    pub(super) fn read(client: Client, environment: &Environment, folder: &Path) -> Self {
        let file = ClientFile::of_user(client, environment, folder);
        let names_in = |file: &Result<ClientFile, ConnectError>| match file {
            Ok(file) => connect::names(file).map_err(|error| error_line(&error)),
            // The program has no such file.
            Err(_) => Ok(Vec::new()),
        };
        let (connected, connected_here) =
            (names_in(&file), names_in(&ClientFile::of_project(client, environment, folder)));
        let problem = connected.as_ref().err().or(connected_here.as_ref().err()).cloned();
        Self {
            client,
            title: client.title(),
            found: connect::is_installed(client, environment, folder),
            path: file.ok().map(|file| file.path),
            connected: connected.unwrap_or_default(),
            connected_here: connected_here.unwrap_or_default(),
            problem,
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.found || self.is_connected() || self.problem.is_some()
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.connected.is_empty() || !self.connected_here.is_empty()
    }

    fn state(&self) -> (Sign, Tone, String) {
        if self.problem.is_some() {
            return (Sign::Bad, Tone::Bad, "its file cannot be read".to_owned());
        }
        let project_names = self.connected_here.iter().map(|name| format!("{name} (this project)"));
        let names: Vec<String> = self.connected.iter().cloned().chain(project_names).collect();
        match names.is_empty() {
            true => (Sign::Off, Tone::Faint, "not connected".to_owned()),
            false => (Sign::Good, Tone::Good, format!("connected as {}", names.join(", "))),
        }
    }
}

/// Lists the installed programs, each on a line, and all others on one line.
pub(super) fn clients_page(rows: &[ClientRow], layout: Layout) -> String {
    let cells = rows.iter().filter(|row| row.is_present()).map(|row| {
        let (sign, tone, state) = row.state();
        let path = row.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        vec![
            Cell::new(tone, layout.sign(sign)),
            Cell::new(Tone::Strong, row.client.id()),
            Cell::new(tone, text::for_line(&state)),
            Cell::new(Tone::Faint, text::for_line(&path)),
        ]
    });
    let mut lines = columns(&cells.collect::<Vec<_>>());
    let absent_clients: Vec<&str> = rows.iter().filter(|row| !row.is_present()).map(|row| row.client.id()).collect();
    if !absent_clients.is_empty() {
        lines.push(paint(Tone::Faint, &format!("not found here: {}", absent_clients.join(", "))));
    }
    lines.join("\n")
}

/// Returns the question to the user, without a question mark.
pub(super) fn question(change: &Change) -> String {
    let path = path_text(change.path());
    match (change.creates(), change.removes()) {
        (true, _) => format!("Make {path}"),
        (_, true) => format!("Remove {path}"),
        _ => format!("Change {path}"),
    }
}

/// Returns the line that says what was done.
pub(super) fn outcome(request: &Request<'_>, change: &Change) -> String {
    let (client, name, path) = (request.client, text::for_line(request.name), path_text(change.path()));
    match (request.is_undo, change.is_nothing()) {
        (false, true) => format!("{client} is connected already: {path} has the same entry {name}"),
        (false, false) => format!("connected {client}: {name} is in {path}"),
        (true, _) if change.removes() => format!("disconnected {client}: {path} was created for it, and is removed"),
        (true, _) if change.is_exact() => format!("disconnected {client}: {path} is exactly as it was before"),
        (true, _) => {
            format!(
                "disconnected {client}: {name} was taken out of {path}, which has changed since and keeps everything else"
            )
        }
    }
}

/// Returns the remaining step for the user, if there is one.
pub(super) fn next_step(request: &Request<'_>, change: &Change) -> Option<String> {
    if request.is_undo || change.is_nothing() {
        return None;
    }
    let client = request.client;
    let activation = match request.reach {
        Some(Reach::Http { .. }) => format!(
            "start the daemon with `toolrack up --token-file FILE`, and {client} with {TOKEN_VARIABLE} set to the token \
             in FILE"
        ),
        _ => format!("{client} has the tools when it is restarted"),
    };
    let mut undo = vec!["toolrack", "connect", client.id(), "--undo"];
    if request.for_project {
        undo.push("--project");
    }
    if request.name != PROGRAM {
        undo.extend(["--name", request.name]);
    }
    Some(format!("{activation}; `{}` undoes this", shell_words::join(undo)))
}

/// Returns the reason of the failure, without its excerpt of a file.
pub(super) fn error_line(error: &ConnectError) -> String {
    match error {
        // The line of the failure begins with `error: ` already.
        ConnectError::Edit(EditError::Unreadable(problem)) => format!("{problem:#}").replacen(": error: ", ": ", 1),
        error => with_causes(error),
    }
}

fn path_text(path: &Path) -> String {
    text::for_line(&path.display().to_string()).into_owned()
}
