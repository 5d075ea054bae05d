//! `toolrack list`

use crate::{
    args::ServersArgs,
    error::{Exit, Failure},
    render::list::{self, Document, Server},
    wire::World,
};

pub(super) async fn run(args: ServersArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let mut servers = list::broken(&loaded, &args.servers);
    let mut named = args.servers.clone();
    named.retain(|name| loaded.entry(name).is_none_or(|entry| entry.is_valid));
    // Where only broken ones were named there is nothing to connect to.
    if args.servers.is_empty() || !named.is_empty() {
        let desired = super::only(&loaded, &named)?;
        let host = world.connect(desired).await?;
        servers.extend(host.status().into_iter().map(Server::from));
    }
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    if world.screen.json() {
        world.screen.document(&Document { servers }).await?;
        return Ok(Exit::Ok);
    }
    if servers.is_empty() {
        world.screen.note("no servers are configured; `toolrack add NAME -- COMMAND` adds one");
    }
    let page = list::page(&servers, world.screen.look());
    world.screen.page(page).await?;
    Ok(Exit::Ok)
}
