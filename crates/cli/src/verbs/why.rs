//! `toolrack why`

use crate::{
    args::WhyArgs,
    error::{Exit, Failure},
    render::why,
    wire::World,
};

pub(super) async fn run(args: WhyArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let named = super::server_of(&args.selector, &loaded)?;
    let mut desired = loaded.desired;
    if let Some(named) = named {
        desired.retain(|name, _| *name == named);
    }
    let host = world.connect(desired).await?;
    let why = host.why(&args.selector);
    if world.screen.json() {
        world.screen.document(&why).await?;
    } else {
        let page = why::page(&why, world.screen.look());
        world.screen.page(page).await?;
    }
    Ok(if why.known { Exit::Ok } else { Exit::Tool })
}
