//! Runs `toolrack trust diff` and `toolrack trust approve`. A tool is in quarantine if its definition differs from its
//! pin, which is the definition that the user trusted.

use toolrack_config::Loaded;
use toolrack_host::{Caller, DefinitionHash, Way, pins::PinnedServer};
use toolrack_store::QuarantinedTool;

use super::{
    args::{TrustApproveArgs, TrustDiffArgs},
    quarantine::{self, ApproveDocument, ShownTool},
};
use crate::{
    context::Context,
    database,
    error::{Exit, Failure},
    render::count,
    verbs::reach,
};

pub(super) async fn diff(args: TrustDiffArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let quarantined_tools = select_quarantined(&loaded, &args.targets, context).await?;
    let shown_tools: Vec<_> = quarantined_tools.iter().map(ShownTool::new).collect();
    if context.screen.prints_json() {
        context.screen.document(&quarantine::Document { quarantined: &shown_tools }).await?;
    } else {
        if shown_tools.is_empty() {
            context.screen.note("no tool is in quarantine here");
        }
        context.screen.page(quarantine::page(&shown_tools, context.screen.layout())).await?;
        if !shown_tools.is_empty() {
            context.screen.note("`toolrack trust approve SERVER/TOOL` approves the present definition of a tool");
        }
    }
    let must_fail = args.exit_code && !shown_tools.is_empty();
    Ok(if must_fail { Exit::NotTrusted } else { Exit::Ok })
}

pub(super) async fn approve(args: TrustApproveArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let mut quarantined_tools = select_quarantined(&loaded, &args.targets, context).await?;
    if let Some(hash) = &args.hash {
        let hash = DefinitionHash::parse(hash).ok_or_else(|| {
            Failure::usage("the value of --hash is not a hash")
                .hint("give `hash` of `toolrack trust diff --json`, 64 digits")
        })?;
        let count_before = quarantined_tools.len();
        quarantined_tools.retain(|quarantined| quarantined.mismatch.definition.hash == hash);
        if quarantined_tools.is_empty() && count_before > 0 {
            return Err(changed_failure("no tool here has that definition any more"));
        }
    }
    let shown_tools: Vec<_> = quarantined_tools.iter().map(ShownTool::new).collect();
    // A user who gives a hash has seen the definition that it belongs to.
    let must_ask = !args.yes && (args.hash.is_none() || context.screen.is_interactive());
    if shown_tools.is_empty() {
        context.screen.note("none of these tools is in quarantine here");
    } else if must_ask {
        context.require_askable_user("a tool that has changed is used again only when a user approves it")?;
        context.screen.message(&quarantine::page(&shown_tools, context.screen.layout()));
        let question = format!("Use {} as shown?", count(shown_tools.len(), "tool"));
        if !context.confirm(&question).await {
            return Err(Failure::new(Exit::NotTrusted, "NOT_TRUSTED", "nothing was approved"));
        }
    }
    for QuarantinedTool { pinned_server, mismatch, .. } in &quarantined_tools {
        // Approve exactly what was shown: a tool that has changed meanwhile has another hash.
        let release_result = context
            .store()?
            .release(pinned_server, &mismatch.tool, mismatch.definition.hash, &Caller::local(Way::Cli))
            .await;
        if !release_result.map_err(|error| database::unusable(&error).server(pinned_server.server.as_str()))? {
            let message =
                format!("`{}/{}` has changed meanwhile, or was approved already", pinned_server.server, mismatch.tool);
            return Err(changed_failure(&message).server(pinned_server.server.as_str()).tool(&*mismatch.tool));
        }
    }
    if context.screen.prints_json() {
        context.screen.document(&ApproveDocument { approved: &shown_tools }).await?;
    } else {
        let was_seen = must_ask;
        context.screen.page(quarantine::approved_page(&shown_tools, was_seen, context.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}

fn changed_failure(message: &str) -> Failure {
    Failure::new(Exit::NotTrusted, "CHANGED", message).hint("look at it again with `toolrack trust diff`")
}

/// Returns the tools in quarantine that `targets` name. A target is a server, or a single tool as `server/tool`.
/// Without targets, returns all tools in quarantine here.
///
/// # Errors
/// When a named server does not exist, or the database cannot be read.
async fn select_quarantined(
    loaded: &Loaded,
    targets: &[String],
    context: &Context,
) -> Result<Vec<QuarantinedTool>, Failure> {
    let mut selectors = Vec::new();
    for target in targets {
        let (server, tool) =
            target.split_once('/').map_or((target.as_str(), None), |(server, tool)| (server, Some(tool)));
        if !loaded.desired.contains_key(server) {
            return Err(reach::no_such_server(server, loaded, Exit::Usage));
        }
        selectors.push((server, tool));
    }
    let is_selected = |quarantined: &QuarantinedTool| {
        let matches_tool = |(server, tool): &(&str, Option<&str>)| {
            quarantined.pinned_server.server.as_str() == *server
                && tool.is_none_or(|tool| tool == quarantined.mismatch.tool)
        };
        selectors.is_empty() || selectors.iter().any(matches_tool)
    };
    let mut quarantined_tools = quarantined_here(loaded, context).await?;
    quarantined_tools.retain(is_selected);
    Ok(quarantined_tools)
}

/// Returns the tools in quarantine whose servers are configured here.
///
/// # Errors
/// When the database cannot be read.
pub(in crate::verbs) async fn quarantined_here(
    loaded: &Loaded,
    context: &Context,
) -> Result<Vec<QuarantinedTool>, Failure> {
    let is_configured_here = |quarantined: &QuarantinedTool| {
        let spec = loaded.desired.get(&quarantined.pinned_server.server);
        spec.is_some_and(|spec| PinnedServer::of(&quarantined.pinned_server.server, spec) == quarantined.pinned_server)
    };
    let mut quarantined_tools = context.store()?.quarantine().await.map_err(|error| database::unusable(&error))?;
    quarantined_tools.retain(is_configured_here);
    Ok(quarantined_tools)
}
