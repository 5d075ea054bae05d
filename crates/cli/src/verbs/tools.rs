//! `toolrack tools`

use toolrack_host::{Catalog, CatalogTool, Host, Selection, text};

use crate::{
    args::ToolsArgs,
    error::{Exit, Failure},
    render::tools::{self, Shown},
    wire::World,
};

pub(super) async fn run(args: ToolsArgs, world: &World) -> Result<Exit, Failure> {
    let named = &args.only.servers;
    let host = super::looked_at(world, &world.load().await?, named).await?;
    let servers = host.status();
    let complaints = super::complaints(&host, named);
    let catalog = host.catalog();
    let found = match &args.search {
        Some(words) => search(&host, words, args.limit, &Selection::all()).await,
        None => all(&catalog),
    };
    let none = found.is_empty().then(|| nothing(&catalog, args.search.as_deref()));
    if world.screen.json() {
        let mut warnings = super::messages(&complaints);
        warnings.extend(servers.into_iter().flat_map(|server| server.warnings));
        warnings.extend(none.filter(|_| args.search.is_some()));
        world.screen.document(&tools::document(&found, &warnings)).await?;
    } else {
        let page =
            if args.search.is_some() { tools::ranked(&found, args.schema) } else { tools::page(&found, args.schema) };
        world.screen.page(page).await?;
        for server in &servers {
            for warning in &server.warnings {
                world.screen.warning(&format!("`{}`: {warning}", server.name));
            }
        }
        if let Some(none) = none.filter(|_| args.search.is_some() || complaints.is_empty()) {
            world.screen.note(&none);
        }
    }
    super::conclude(world, complaints, named)
}

/// Every tool, by server.
pub(super) fn all(catalog: &Catalog) -> Vec<Shown> {
    let mut tools: Vec<CatalogTool> = catalog.tools().cloned().collect();
    tools.sort_by(|a, b| a.server.cmp(&b.server));
    tools.into_iter().map(|tool| Shown { tool, score: None }).collect()
}

/// Those that fit, the best first.
pub(super) async fn search(host: &Host, words: &str, limit: usize, of: &Selection) -> Vec<Shown> {
    let hits = host.search(words, limit, of).await;
    hits.into_iter().map(|hit| Shown { tool: hit.tool, score: Some(hit.score) }).collect()
}

/// What to say when no tool is shown, with the names that were perhaps meant.
fn nothing(catalog: &Catalog, searched: Option<&str>) -> String {
    let Some(words) = searched else {
        return "there are no tools".to_owned();
    };
    let none = format!("no tool fits `{}`", text::for_line(&text::clip(words, 200)));
    let similar = catalog.select(words).err().map(|unknown| unknown.suggestions).unwrap_or_default();
    match similar.as_slice() {
        [] => none,
        names => format!(
            "{none}; did you mean {}?",
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
        ),
    }
}
