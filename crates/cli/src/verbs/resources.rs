//! `toolrack resources` and `toolrack read`

use futures::future::join_all;
use toolrack_host::{Host, ServerName};

use crate::{
    args::{ReadArgs, ServersArgs},
    error::{Exit, Failure},
    render::{
        call,
        resources::{self, Offer, ReadDocument},
    },
    wire::World,
};

pub(super) async fn list(args: ServersArgs, world: &World) -> Result<Exit, Failure> {
    let host = super::looked_at(world, &world.load().await?, &args.servers).await?;
    let mut complaints = super::complaints(&host, &args.servers);
    let (offers, failures) = offers(&host, &super::connected(&host)).await;
    complaints.extend(failures);
    if world.screen.json() {
        let warnings = super::messages(&complaints);
        let document = resources::document(&offers, &warnings);
        world.screen.document(&document).await?;
    } else {
        let page = resources::page(&offers);
        if page.is_empty() && complaints.is_empty() {
            world.screen.note("there are no resources");
        }
        world.screen.page(page).await?;
    }
    super::conclude(world, complaints, &args.servers)
}

/// What `servers` have, and the failures of those that do not answer.
pub(super) async fn offers(host: &Host, servers: &[ServerName]) -> (Vec<Offer>, Vec<Failure>) {
    let (mut offers, mut failures) = (Vec::new(), Vec::new());
    for answer in join_all(servers.iter().map(|server| offer(host, server))).await {
        match answer {
            Ok(offer) => offers.push(offer),
            Err(failure) => failures.push(failure),
        }
    }
    (offers, failures)
}

async fn offer(host: &Host, server: &ServerName) -> Result<Offer, Failure> {
    let (resources, templates) =
        futures::future::try_join(host.resources(server.as_str()), host.resource_templates(server.as_str()))
            .await
            .map_err(|error| Failure::of_call(&error))?;
    Ok(Offer { server: server.to_string(), resources, templates })
}

pub(super) async fn read(args: ReadArgs, world: &World) -> Result<Exit, Failure> {
    let (host, server) = super::connect_to(world, &world.load().await?, &args.server).await?;
    let contents = host.read_resource(server.as_str(), &args.uri).await.map_err(|error| Failure::of_call(&error))?;
    if world.screen.json() {
        let document = ReadDocument { server: server.as_str(), uri: &args.uri, contents: &contents };
        world.screen.document(&document).await?;
    } else {
        let pieces: Vec<_> = contents.iter().map(call::raw_contents).collect();
        let plain = Some(resources::read_plain(&contents));
        let pages = super::given::Pages { shown: resources::read_page(&contents), plain };
        super::given::give(&pieces, pages, args.output.as_deref(), &world.screen).await?;
    }
    Ok(Exit::Ok)
}
