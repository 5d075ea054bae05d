//! Runs `toolrack tools`. `Context` is what a command works with: its configuration, database, screen and servers.

pub(crate) mod render;
mod single_tool;

use clap::Args;
use toolrack_config::Loaded;
use toolrack_host::{Catalog, CatalogTool, Host, Selection, ServerStatus, text};

use super::call;
use crate::{
    args::OneOffArgs,
    context::Context,
    error::{Exit, Failure, quarantine_hint},
    verbs::{reach, safety::policy},
};
use render::{Detail, ListedTool};

/// The most bytes of the searched words that a message repeats.
const MAX_REPEATED_BYTES: usize = 200;

/// `tools`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack tools
  toolrack tools --search 'rename a file'
  toolrack tools github --search 'create issue' --limit 3
  toolrack tools fs --schema
  toolrack tools fs/read_text_file
  toolrack tools https://example.com/mcp
  toolrack tools -- npx -y my-server")]
pub(crate) struct ToolsArgs {
    /// Only these servers; the others are not started. Or one tool, to show it in full. Or the URL of a server, for this
    /// one time
    #[arg(value_name = "SERVER | TOOL")]
    pub(crate) servers: Vec<String>,

    /// Only tools that fit these words, the best first: a task as you would say it, or parts of a name
    #[arg(long, value_name = "WORDS")]
    pub(crate) search: Option<String>,

    /// Show at most this many of the tools that `--search` finds
    #[arg(long, value_name = "COUNT", default_value_t = 10, requires = "search")]
    pub(crate) limit: usize,

    /// Show the JSON Schema of the arguments too
    #[arg(long)]
    pub(crate) schema: bool,

    /// Do not shorten the descriptions of a tool, its arguments and its server
    #[arg(long)]
    pub(crate) full: bool,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

pub(crate) async fn run(args: ToolsArgs, context: &Context) -> Result<Exit, Failure> {
    let server_names = &args.servers;
    let loaded = context.load().await?;
    match server_names.as_slice() {
        [word] if loaded.entry(word).is_none() => return show_single_tool(word, &args, &loaded, context).await,
        words => {
            let tool = words.iter().find(|word| word.contains('/') && loaded.entry(word).is_none());
            if let Some(tool) = tool {
                return Err(Failure::usage(format!("`{tool}` is a tool, and one is shown at a time"))
                    .hint(format!("toolrack tools {tool}")));
            }
        }
    }
    let host = reach::connect_for_list(context, &loaded, server_names).await?;
    let servers = host.status();
    let failures = reach::server_failures(&host, server_names);
    let catalog = host.catalog();
    let listed_tools = match &args.search {
        Some(words) => search(&host, words, args.limit, &Selection::all()).await,
        None => all_tools(&catalog),
    };
    let empty_message = listed_tools.is_empty().then(|| empty_list_message(&catalog, args.search.as_deref()));
    if context.screen.prints_json() {
        let mut warnings = reach::failure_messages(&failures);
        warnings.extend(servers.iter().flat_map(|server| server.warnings.clone()));
        warnings.extend(empty_message.filter(|_| args.search.is_some()));
        context.screen.document(&render::document(&listed_tools, &servers, &warnings)).await?;
    } else {
        // Leave the instructions out when all servers are shown.
        let with_instructions = if server_names.is_empty() { &[] } else { servers.as_slice() };
        let page = match args.search {
            Some(_) => render::ranked(&listed_tools, args.schema),
            None => render::page(&listed_tools, with_instructions, args.detail()),
        };
        context.screen.page(page).await?;
        for server in &servers {
            for warning in &server.warnings {
                context.screen.warning(&format!("`{}`: {warning}", server.name));
            }
        }
        if let Some(message) = unshown_tools_note(&servers).filter(|_| args.search.is_none()) {
            context.screen.note(&message);
        }
        if !context.can_answer_forms() {
            context.screen.detail("no user can be asked: servers may offer fewer tools than at a terminal");
        }
        if let Some(message) = empty_message.filter(|_| args.search.is_some() || failures.is_empty()) {
            context.screen.note(&message);
        }
    }
    reach::conclude(context, failures, server_names)
}

impl ToolsArgs {
    fn detail(&self) -> Detail {
        Detail { with_schema: self.schema, is_full: self.full }
    }
}

/// Says how many tools of these servers are not shown, and why. Returns `None` if all tools are shown.
fn unshown_tools_note(servers: &[ServerStatus]) -> Option<String> {
    let left_out: usize = servers.iter().map(|server| server.tools_hidden).sum();
    let quarantined = servers.iter().flat_map(|server| &server.quarantined).filter(|tool| !tool.usable).count();
    let unusable: usize = servers.iter().map(|server| server.unusable.len()).sum();
    let kinds = [
        (left_out, "that `tools` in an entry leaves out"),
        (quarantined, "in quarantine"),
        (unusable, "that cannot be used"),
    ];
    let reasons: Vec<_> =
        kinds.into_iter().filter(|(number, _)| *number > 0).map(|(number, why)| format!("{number} {why}")).collect();
    (!reasons.is_empty()).then(|| format!("not shown: {}", reasons.join(", ")))
}

/// Shows the tool that is called `word`, as a call would name it.
async fn show_single_tool(word: &str, args: &ToolsArgs, loaded: &Loaded, context: &Context) -> Result<Exit, Failure> {
    if args.search.is_some() {
        return Err(reach::no_such_server(word, loaded, Exit::Usage));
    }
    let (host, catalog_tool) = match call::find_tool(word, loaded, context).await {
        // The user may also have misspelt the name of a server.
        Err(failure) if failure.code == "UNKNOWN_TOOL" && failure.server.is_none() => {
            let no_server = reach::no_such_server(word, loaded, Exit::Usage);
            // The files have problems, which are the more important reason.
            if no_server.code != "UNKNOWN_SERVER" {
                return Err(no_server);
            }
            let is_similar = no_server.hint.as_ref().is_some_and(|hint| hint.starts_with("did you mean"));
            let hint = if is_similar { no_server.hint.clone() } else { failure.hint };
            return Err(Failure { message: format!("there is no server and no tool `{word}`"), hint, ..no_server });
        }
        result => result?,
    };
    let selector = catalog_tool.selector();
    if host.catalog().quarantined_tool(&selector).is_some() {
        let message = format!("`{selector}` is in quarantine: it differs from its pin");
        return Err(Failure::new(Exit::NotTrusted, "QUARANTINED", message)
            .hint(quarantine_hint(&selector))
            .server(catalog_tool.server.as_str())
            .tool(&catalog_tool.tool().name));
    }
    let verdict = policy::verdict_for_model(&catalog_tool, loaded);
    if context.screen.prints_json() {
        let servers: Vec<_> = host.status().into_iter().filter(|server| server.name == catalog_tool.server).collect();
        let warnings: Vec<_> = servers.iter().flat_map(|server| server.warnings.clone()).collect();
        context.screen.document(&render::single_tool_document(&catalog_tool, &verdict, &servers, &warnings)).await?;
    } else {
        context.screen.page(single_tool::page(&catalog_tool, &verdict, args.detail())).await?;
    }
    Ok(Exit::Ok)
}

/// Returns every tool, in the order of the servers.
pub(crate) fn all_tools(catalog: &Catalog) -> Vec<ListedTool> {
    let mut tools: Vec<CatalogTool> = catalog.tools().cloned().collect();
    tools.sort_by(|a, b| a.server.cmp(&b.server));
    tools.into_iter().map(|tool| ListedTool { tool, score: None }).collect()
}

/// Returns the tools that fit `words`, the best first.
pub(crate) async fn search(host: &Host, words: &str, limit: usize, selection: &Selection) -> Vec<ListedTool> {
    let hits = host.search(words, limit, selection).await;
    hits.into_iter().map(|hit| ListedTool { tool: hit.tool, score: Some(hit.score) }).collect()
}

/// Returns the message for an empty list, with similar names if the user searched.
fn empty_list_message(catalog: &Catalog, search_words: Option<&str>) -> String {
    let Some(words) = search_words else {
        return "there are no tools".to_owned();
    };
    let message = format!("no tool fits `{}`", text::for_line(&text::clip(words, MAX_REPEATED_BYTES)));
    let similar_names = catalog.select(words).err().map(|unknown| unknown.suggestions).unwrap_or_default();
    match similar_names.as_slice() {
        [] => message,
        names => format!(
            "{message}; did you mean {}?",
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
        ),
    }
}
