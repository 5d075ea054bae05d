//! Runs `toolrack get`.

pub(crate) mod render;

use clap::Args;

use super::edits;
use crate::{
    context::Context,
    error::{Exit, Failure},
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

pub(crate) async fn run(args: GetArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let entry = edits::find_entry(&loaded, &args.server)?;
    if context.screen.prints_json() {
        context.screen.document(&Document::new(entry, &loaded)).await?;
    } else {
        context.screen.page(render::page(entry, &loaded, context.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}
