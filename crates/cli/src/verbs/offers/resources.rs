//! `toolrack resources` and `toolrack read`

pub(crate) mod render;

use std::path::PathBuf;

use clap::Args;
use toolrack_host::{Host, ServerName};

use super::{call, given};
use crate::{
    args::{OffersArgs, OnceArgs},
    error::{Exit, Failure},
    notebook::OfferList,
    verbs::reach,
    wire::World,
};
use render::{Offer, ReadDocument};

/// `read`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack read docs file:///readme.md
  toolrack read docs file:///logo.png -o logo.png
  toolrack read https://example.com/mcp file:///readme.md
  toolrack read file:///readme.md -- npx -y my-server")]
pub(crate) struct ReadArgs {
    /// Which server, by name or address; not where its command follows behind `--`
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Which resource
    #[arg(value_name = "URI")]
    pub(crate) uri: Option<String>,

    /// Write it into this file as it is, decoded if it is no text; - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) once: OnceArgs,
}

pub(crate) async fn list(OffersArgs { only: args, .. }: OffersArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let (offers, complaints) = super::of_named(world, &loaded, &args.servers, offer).await?;
    let conceal = world.concealer();
    let list = |offer: &Offer| (offer.server.clone(), OfferList::of_resources(&offer.resources, &conceal));
    world.note_offers(&loaded, offers.iter().map(list).collect()).await;
    let warnings = reach::messages(&complaints);
    let document = render::document(&offers, &warnings);
    super::show(world, &complaints, &document, || render::page(&offers), "there are no resources").await?;
    reach::conclude(world, complaints, &args.servers)
}

/// What `servers` have, and the failures of those that do not answer.
pub(crate) async fn offers(host: &Host, servers: &[ServerName]) -> (Vec<Offer>, Vec<Failure>) {
    super::of_each(host, servers, offer).await
}

async fn offer(host: Host, server: ServerName) -> Result<Offer, Failure> {
    let (resources, templates) =
        futures::future::try_join(host.resources(server.as_str()), host.resource_templates(server.as_str()))
            .await
            .map_err(|error| Failure::of_call(&error))?;
    Ok(Offer { server: server.to_string(), resources, templates })
}

pub(crate) async fn read(args: ReadArgs, world: &World) -> Result<Exit, Failure> {
    let (host, server) = reach::connect_to(world, &world.load().await?, &args.server).await?;
    let uri = args.uri.unwrap_or_default();
    let contents = host.read_resource(server.as_str(), &uri).await.map_err(|error| Failure::of_call(&error))?;
    if world.screen.json() {
        let document = ReadDocument { server: server.as_str(), uri: &uri, contents: &contents };
        world.screen.document(&document).await?;
    } else {
        let pieces: Vec<_> = contents.iter().map(call::render::raw_contents).collect();
        let plain = Some(render::read_plain(&contents));
        let pages = given::Pages { shown: render::read_page(&contents), plain };
        given::give(&pieces, pages, args.output.as_deref(), &world.screen).await?;
    }
    Ok(Exit::Ok)
}
