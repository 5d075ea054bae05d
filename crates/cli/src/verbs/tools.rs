//! `toolrack tools`

use toolrack_host::CatalogTool;

use crate::{
    args::ToolsArgs,
    error::{Exit, Failure},
    render::tools,
    wire::World,
};

pub(super) async fn run(args: ToolsArgs, world: &World) -> Result<Exit, Failure> {
    let named = &args.only.servers;
    let desired = super::only(&world.load().await?, named)?;
    let host = world.connect(desired).await?;
    let servers = host.status();
    let complaints = super::complaints(&host, named).await;
    let catalog = host.catalog();
    let mut found: Vec<_> = catalog.tools().collect();
    found.sort_by(|a, b| a.server.cmp(&b.server));
    if let Some(words) = &args.search {
        found.retain(|entry| matches(entry, words));
    }
    if world.screen.json() {
        let mut warnings = super::messages(&complaints);
        warnings.extend(servers.into_iter().flat_map(|server| server.warnings));
        let document = tools::document(&found, &warnings);
        world.screen.document(&document).await?;
    } else {
        let page = tools::page(&found, args.schema);
        world.screen.page(page).await?;
        for server in &servers {
            for warning in &server.warnings {
                world.screen.warning(&format!("`{}`: {warning}", server.name));
            }
        }
        if found.is_empty() && complaints.is_empty() {
            let none = if args.search.is_some() { "no tool matches" } else { "there are no tools" };
            world.screen.note(none);
        }
    }
    super::conclude(world, complaints, named)
}

/// Whether name or description hold every one of `words`, whatever their case.
fn matches(entry: &CatalogTool, words: &str) -> bool {
    let tool = entry.tool();
    let description = tool.description.as_deref().unwrap_or_default();
    let text = format!("{}/{} {} {description}", entry.server, tool.name, entry.name).to_lowercase();
    words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}
