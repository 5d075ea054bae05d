//! Runs `toolrack get`.

pub(crate) mod render;

use clap::Args;

use super::edits;
use crate::{
    error::{Exit, Failure},
    wire::World,
};
use render::Document;

/// `get`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack get github

Nothing is started. Secrets are not shown; ${NAME} is shown as it is written.")]
pub(crate) struct GetArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
}

pub(crate) async fn run(args: GetArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let found = edits::entry(&loaded, &args.server)?;
    if world.screen.json() {
        world.screen.document(&Document::new(found, &loaded)).await?;
    } else {
        world.screen.page(render::page(found, &loaded, world.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}
