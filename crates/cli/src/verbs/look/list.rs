//! Runs `toolrack list`. `Context` is what a command works with: its configuration, database, screen and servers.

pub(crate) mod render;

use clap::Args;
use toolrack_config::{Problem, Role};

use crate::{
    args::ServersArgs,
    builtin,
    context::Context,
    error::{Exit, Failure},
    verbs::reach,
};
use render::{Document, Server};

/// `list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack list
  toolrack list github fs --json
  toolrack list --exit-code || echo 'something is down'")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: ServersArgs,

    /// Fail when a server that is switched on is not connected
    #[arg(long)]
    pub(crate) exit_code: bool,
}

pub(crate) async fn run(args: ListArgs, context: &Context) -> Result<Exit, Failure> {
    let server_names = &args.filter.servers;
    let loaded = context.load().await?;
    let mut servers = render::broken_servers(&loaded, server_names);
    // Unknown names stay in this list, so that connecting refuses them.
    let mut usable_names = server_names.clone();
    usable_names.retain(|name| loaded.entry(name).is_none_or(|entry| entry.is_valid));
    // If the user named only servers whose configuration is broken, there is nothing to connect to.
    if server_names.is_empty() || !usable_names.is_empty() {
        let host = reach::connect_for_list(context, &loaded, &usable_names).await?;
        servers.extend(host.status().into_iter().map(Server::from));
        if context.screen.prints_json() {
            let findings = host.catalog().findings();
            servers.iter_mut().for_each(|server| server.count_findings(&findings));
        }
    }
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    if context.screen.prints_json() {
        context.screen.document(&Document { servers: &servers }).await?;
    } else {
        let page = render::page(&servers, context.screen.layout());
        context.screen.page(page).await?;
        // A file that could not be read may have servers.
        let are_files_readable = !loaded.problems.iter().any(Problem::is_error);
        if server_names.is_empty() && are_files_readable && servers.iter().all(|server| server.name() == builtin::NAME)
        {
            context.screen.note(match loaded.settings.role {
                Role::Worker => {
                    "no servers are configured; `toolrack add NAME -- COMMAND` adds one, `toolrack import` those of other programs"
                }
                Role::Channel => "this agent gets no tools: its `role` in toolrack.toml is \"channel\"",
            });
        }
        if servers.iter().any(Server::is_pending) {
            context.screen.note("`toolrack pending` shows what waits for you, `toolrack trust` agrees to it");
        }
        if servers.iter().any(Server::has_quarantined) {
            context.screen.note(
                "`toolrack trust diff` shows how tools have changed, `toolrack trust approve` approves the changes",
            );
        }
    }
    // If servers fail for different reasons, the lowest exit code decides.
    let lowest_exit = servers.iter().filter_map(Server::failure_exit).min_by_key(|exit| *exit as u8);
    Ok(if args.exit_code { lowest_exit.unwrap_or(Exit::Ok) } else { Exit::Ok })
}
