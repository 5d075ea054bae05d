//! Runs `toolrack connect`, which puts Toolrack into the configuration file of another program (a client).

mod args;
mod render;

use std::path::{Path, PathBuf};

use clap::Parser;
use toolrack_config::{
    connect::{self, Change, ClientFile, ConnectError, Reach},
    edit::EditError,
    import::Client,
};
use url::Url;

use super::serve::record::DaemonRecord;
use crate::{
    context::Context,
    error::{Exit, Failure},
    verbs::{Cli, Verb},
};
pub(crate) use args::ConnectArgs;
use render::{ClientRow, Document, Request};

/// The name of this program on a path.
const PROGRAM: &str = "toolrack";

/// The default address at which a daemon serves clients.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7717/mcp";

/// How many times a change is computed and written if the other program keeps writing its file meanwhile. Without
/// `--yes` there is only one attempt, because the user agreed to exactly that change.
const MAX_ATTEMPTS: usize = 3;

/// Runs the command. `context` is what a command works with: its configuration, database, screen and servers.
pub(crate) async fn run(args: ConnectArgs, context: &Context) -> Result<Exit, Failure> {
    let Some(client) = args.client else {
        return list(context).await;
    };
    let client_file = find_client_file(client, args.project, context)?;
    let reach = if args.undo { None } else { Some(choose_reach(client, &args, context)?) };
    let spawn_computation = || {
        // A later undo reads what is stored in this folder.
        let undo_folder = context.places.data().join("connections");
        let (client_file, name, reach) = (client_file.clone(), args.name.clone(), reach.clone());
        // The file may be large, or on a slow network drive.
        tokio::task::spawn_blocking(move || match reach {
            Some(reach) => connect::connect(&client_file, &name, &reach, &undo_folder),
            None => connect::undo(&client_file, &name, &undo_folder),
        })
    };
    let compute = || async {
        spawn_computation().await.map_err(|_| task_failed())?.map_err(|error| connect_failure(error, client, &args))
    };
    let mut change = compute().await?;
    if !args.dry_run && !change.is_nothing() {
        if !args.yes {
            require_agreement(&change, client, context).await?;
        }
        for attempt in 1.. {
            match write_change(change).await? {
                (written_change, Ok(())) => {
                    change = written_change;
                    break;
                }
                (_, Err(ConnectError::Changed { .. })) if args.yes && attempt < MAX_ATTEMPTS => {
                    change = compute().await?
                }
                (_, Err(error)) => return Err(connect_failure(error, client, &args)),
            }
        }
    }
    let request = Request {
        client,
        name: &args.name,
        for_project: args.project,
        is_undo: args.undo,
        dry_run: args.dry_run,
        reach: reach.as_ref(),
    };
    print_outcome(&request, &change, context).await
}

/// Writes the change; returns it with the outcome.
async fn write_change(change: Change) -> Result<(Change, Result<(), ConnectError>), Failure> {
    tokio::task::spawn_blocking(move || {
        let result = change.write();
        (change, result)
    })
    .await
    .map_err(|_| task_failed())
}

fn task_failed() -> Failure {
    Failure::new(Exit::Other, "INTERNAL", "the file was not written")
}

fn find_client_file(client: Client, for_project: bool, context: &Context) -> Result<ClientFile, Failure> {
    let find_file = if for_project { ClientFile::of_project } else { ClientFile::of_user };
    find_file(client, &context.environment, &context.folder).map_err(|error| Failure::config(error.to_string()))
}

/// Shows the change and asks the user to agree to it.
async fn require_agreement(change: &Change, client: Client, context: &Context) -> Result<(), Failure> {
    context
        .require_askable_user(&format!("the file of {client} changes only when a user agrees to it"))
        .map_err(|failure| failure.hint("`--dry-run` shows the change, `--yes` agrees to it"))?;
    context.screen.message(change.diff().trim_end());
    if context.confirm(&format!("{}?", render::question(change))).await {
        return Ok(());
    }
    Err(Failure::new(Exit::Denied, "NOT_AGREED", "nothing was written"))
}

async fn print_outcome(request: &Request<'_>, change: &Change, context: &Context) -> Result<Exit, Failure> {
    let screen = &context.screen;
    if screen.prints_json() {
        screen.document(&Document::new(request, change)).await?;
        return Ok(Exit::Ok);
    }
    if request.dry_run && !change.is_nothing() {
        screen.page(change.diff()).await?;
        return Ok(Exit::Ok);
    }
    screen.page(render::outcome(request, change)).await?;
    if let Some(next_step) = render::next_step(request, change) {
        screen.note(&next_step);
    }
    Ok(Exit::Ok)
}

/// Decides how the client will reach Toolrack: by HTTP, or by a gateway that it starts.
fn choose_reach(client: Client, args: &ConnectArgs, context: &Context) -> Result<Reach, Failure> {
    if let Some(url) = &args.http {
        let running_daemon = || DaemonRecord::read(context.places.data()).filter(DaemonRecord::is_alive);
        let default_url = || running_daemon().map_or_else(|| DEFAULT_ADDRESS.to_owned(), |daemon| daemon.mcp_url());
        // clap passes an empty text if `--http` has no value.
        let url = if url.is_empty() { default_url() } else { url.clone() };
        if !is_endpoint(&url) {
            let message = format!(
                "`{url}` is no endpoint of a daemon: it must begin with http:// or https://, and end with /mcp"
            );
            return Err(Failure::usage(message).hint(format!("leave it out, or write {DEFAULT_ADDRESS}")));
        }
        return Ok(Reach::Http { url });
    }
    let words = [PROGRAM, "gateway"].into_iter().chain(args.gateway.iter().map(String::as_str));
    match Cli::try_parse_from(words).map(|cli| cli.verb) {
        Ok(Verb::Gateway(_)) => {}
        Ok(_) => return Err(Failure::usage("what follows `--` must be options of `toolrack gateway`")),
        Err(error) => {
            let error = error.render().to_string();
            let first_line = error.lines().next().unwrap_or_default();
            let message = format!("`toolrack gateway` would refuse this: {}", first_line.trim_start_matches("error: "));
            return Err(Failure::usage(message).hint("toolrack gateway --help"));
        }
    }
    let args = std::iter::once("gateway".to_owned()).chain(args.gateway.iter().cloned()).collect();
    Ok(Reach::Program { command: command_name(client, context)?, args })
}

/// Returns whether `url` can be an endpoint of a daemon for MCP clients. Without `/mcp` at its end, no client would
/// find anything there, and an undo would not recognize the entry that it has to remove.
fn is_endpoint(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.path().trim_end_matches('/').ends_with("/mcp")
    })
}

/// Returns the command with which the client starts this program: the name of the program if the PATH leads to it, and
/// otherwise the full path.
fn command_name(client: Client, context: &Context) -> Result<String, Failure> {
    let this_program = std::env::current_exe()
        .map_err(|_| Failure::new(Exit::Other, "INTERNAL", "the system does not say where this program is"))?;
    let path = context.environment.get("PATH");
    let program_on_path = path.and_then(|path| which::which_in(PROGRAM, Some(path), &context.folder).ok());
    let program_on_path = program_on_path.filter(|program_on_path| is_same_file(program_on_path, &this_program));
    let command = match program_on_path {
        Some(_) if !starts_from_the_desktop(client) => PathBuf::from(PROGRAM),
        Some(program_on_path) => program_on_path,
        None => this_program,
    };
    command.into_os_string().into_string().map_err(|_| {
        Failure::usage("the path of this program is not text, and cannot be written into a file")
            .hint("put it on the PATH")
    })
}

/// Returns whether users start the client from the desktop. Such a client does not have the PATH that a shell sets.
fn starts_from_the_desktop(client: Client) -> bool {
    match client {
        Client::ClaudeDesktop | Client::Cursor | Client::VsCode | Client::Windsurf | Client::Zed | Client::Qbit => true,
        Client::ClaudeCode | Client::Codex | Client::Gemini | Client::OpenCode | Client::Synapse => false,
    }
}

fn is_same_file(first: &Path, second: &Path) -> bool {
    matches!((first.canonicalize(), second.canonicalize()), (Ok(first), Ok(second)) if first == second)
}

/// Shows which clients exist, and which of them are connected.
async fn list(context: &Context) -> Result<Exit, Failure> {
    let (environment, folder) = (context.environment.clone(), context.folder.clone());
    let rows = tokio::task::spawn_blocking(move || {
        let rows = Client::ALL.iter().map(|client| ClientRow::read(*client, &environment, &folder));
        rows.collect::<Vec<_>>()
    });
    let rows =
        rows.await.map_err(|_| Failure::new(Exit::Other, "INTERNAL", "the files of other programs were not read"))?;
    if context.screen.prints_json() {
        context.screen.document(&render::ClientsDocument { clients: &rows }).await?;
        return Ok(Exit::Ok);
    }
    context.screen.page(render::clients_page(&rows, context.screen.layout())).await?;
    rows.iter().filter_map(|row| row.problem.as_ref()).for_each(|problem| context.screen.warning(problem));
    if let Some(row) = rows.iter().find(|row| row.is_present() && !row.is_connected() && row.problem.is_none()) {
        context.screen.note(&format!("`toolrack connect {}` gives it the tools of all servers", row.client.id()));
    }
    Ok(Exit::Ok)
}

fn connect_failure(error: ConnectError, client: Client, args: &ConnectArgs) -> Failure {
    let (exit, code) = match &error {
        ConnectError::Taken { .. } => (Exit::Usage, "EXISTS"),
        ConnectError::NotConnected { .. } => (Exit::Usage, "NOT_CONNECTED"),
        ConnectError::Changed { .. }
        | ConnectError::WriteProtected { .. }
        | ConnectError::NotKept { .. }
        | ConnectError::Edit(EditError::Busy { .. } | EditError::Io { .. }) => (Exit::Other, "NOT_WRITTEN"),
        _ => (Exit::Usage, "CONFIG"),
    };
    let failure = Failure::new(exit, code, render::error_line(&error));
    match error {
        ConnectError::Edit(EditError::Unreadable(_)) => {
            failure.hint("nothing was changed in it: correct it, and try again")
        }
        // An undo found no entry of Toolrack under the name that the user gave, or left out.
        ConnectError::Taken { .. } | ConnectError::NotConnected { .. } if args.undo => {
            failure.hint("`toolrack connect` shows which programs are connected, and by which name")
        }
        ConnectError::Taken { .. } => {
            let place = if args.project { " --project" } else { "" };
            failure
                .hint(format!("give Toolrack another name there: toolrack connect {}{place} --name rack", client.id()))
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use clap::Args as _;

    use super::*;

    #[test]
    fn an_endpoint_is_an_address_that_ends_with_mcp() {
        for url in [DEFAULT_ADDRESS, "https://tools.example/p/review/mcp", "http://[::1]:7717/mcp/?profile=a"] {
            assert!(is_endpoint(url), "{url}");
        }
        for url in ["http://127.0.0.1:7717", "https://tools.example/", "ftp://x/mcp", "mcp", "", "http:///mcp?"] {
            // The host of `http:///mcp?` is `mcp`, so its path is empty.
            assert!(!is_endpoint(url), "{url}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_no_mistake_of_the_user() {
        let matches = ConnectArgs::augment_args(clap::Command::new("connect")).get_matches_from(["connect", "cursor"]);
        let args = <ConnectArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        let failure = |error| connect_failure(ConnectError::Edit(error), Client::Cursor, &args);
        let path = PathBuf::from("/home/ada/.cursor/mcp.json");
        let source = io::ErrorKind::ReadOnlyFilesystem.into();
        for error in
            [EditError::Io { doing: "write", path: path.clone(), source }, EditError::Busy { path: path.clone() }]
        {
            let failure = failure(error);
            assert_eq!((failure.exit, failure.code), (Exit::Other, "NOT_WRITTEN"));
        }
        assert_eq!(failure(EditError::UnknownForm { path }).exit, Exit::Usage);
    }
}
