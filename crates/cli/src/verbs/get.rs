//! `toolrack get`

use super::edits;
use crate::{
    args::GetArgs,
    error::{Exit, Failure},
    render::entry::{self, Document},
    wire::World,
};

pub(super) async fn run(args: GetArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let found = edits::entry(&loaded, &args.server)?;
    if world.screen.json() {
        world.screen.document(&Document::of(found, &loaded)).await?;
    } else {
        world.screen.page(entry::page(found, &loaded, world.screen.look())).await?;
    }
    Ok(Exit::Ok)
}
