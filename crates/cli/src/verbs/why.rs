//! `toolrack why`

use super::Meant;
use crate::{
    args::WhyArgs,
    error::{Exit, Failure},
    render::why,
    wire::World,
};

pub(super) async fn run(args: WhyArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let meant = Meant::by(&args.selector, &loaded)?;
    let mut desired = loaded.desired;
    desired.retain(|name, _| meant.may_be(name));
    let host = world.connect(desired).await?;
    let why = match &meant {
        Meant::Of { server, tool } => host.why_of(server, tool, &args.selector),
        Meant::Name(_) => host.why(&args.selector),
    };
    if world.screen.json() {
        world.screen.document(&why).await?;
    } else {
        let page = why::page(&why, world.screen.look());
        world.screen.page(page).await?;
    }
    // The server that was asked about cannot be used: that is how the command ends, as it does for a call.
    let status = host.status().into_iter().find(|status| !why.present && Some(&status.name) == meant.server());
    if let Some(failure) = status.and_then(|status| super::unusable(&host, &status)) {
        return Err(failure);
    }
    Ok(if why.known { Exit::Ok } else { Exit::Tool })
}
