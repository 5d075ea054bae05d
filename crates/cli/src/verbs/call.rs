//! `toolrack call`

use std::{path::Path, sync::Arc};

use serde_json::{Map, Value};
use toolrack_config::Loaded;
use toolrack_host::{
    Call, CallError, Caller, CatalogTool, Host, LinkError, ServerName, ToolOutcome, Unknown, Way, mcp::Progress,
};

use super::{given, input};
use crate::{
    args::CallArgs,
    arguments::{self, BadArguments},
    error::{Exit, Failure},
    render::{call, size},
    screen::Screen,
    suggest,
    wire::World,
};

pub(super) async fn run(args: CallArgs, world: &World) -> Result<Exit, Failure> {
    // Mistakes in what was typed are found before anything is started.
    let given = arguments::parse(&args.arguments)?;
    let base = base(args.args.clone(), world).await?;

    let loaded = world.load().await?;
    // The call of one in quarantine is refused at the door.
    let (host, found) = named(&args.selector, &loaded, world).await?;
    let (server, tool) = (&found.server, found.tool());
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let of_tool = |failure: Failure| {
        failure
            .hint(format!("`toolrack tools {server} --schema` shows what it takes"))
            .server(server.as_str())
            .tool(&tool.name)
    };
    let arguments = arguments::fit(base, given, &schema, args.no_validate).map_err(|error| of_tool(error.into()))?;
    if !args.no_validate {
        for remark in arguments::unnamed(&arguments, &schema) {
            world.screen.warning(&remark);
        }
        arguments::check(&arguments, schema).await.map_err(|error| of_tool(error.into()))?;
    }

    let mut request = Call::new(format!("{server}/{}", tool.name), arguments).caller(Caller::by(Way::Cli)).whole();
    if let Some(timeout) = args.timeout {
        request = request.timeout(timeout);
    }
    let screen = Arc::clone(&world.screen);
    let request = request.on_progress(Arc::new(move |progress| screen.progress(&as_far_as(&progress))));
    let failed = |error: CallError| {
        let failure = super::failed(&error).server(server.as_str()).tool(&tool.name);
        if args.timeout.is_some() && is_silence(&error) {
            return failure.hint("if it is only slow, give it more `--timeout`; the call was not repeated");
        }
        failure
    };
    let outcome = host.call(request).await.map_err(failed)?;
    show(outcome, args.output.as_deref(), world).await
}

/// The tool that is called `selector`, which may be in quarantine, and the host that has it: with its server alone where that
/// is named, and with all otherwise.
///
/// # Errors
/// When there is no such tool, or its server cannot be used.
pub(super) async fn named(selector: &str, loaded: &Loaded, world: &World) -> Result<(Host, CatalogTool), Failure> {
    let named = super::server_of(selector, loaded)?;
    let mut desired = loaded.desired.clone();
    if let Some(named) = &named {
        desired.retain(|name, _| name == named);
    }
    let host = world.connect(desired).await?;
    let catalog = host.catalog();
    let other = || catalog.by_usual_name(selector).or_else(|| catalog.in_quarantine(selector));
    match catalog.select(selector).or_else(|unknown| other().ok_or(unknown)) {
        Ok(found) => Ok((host, found.clone())),
        Err(unknown) => Err(missing(&host, &unknown, named.as_ref())),
    }
}

/// Whether the bound was reached that `--timeout` sets.
fn is_silence(error: &CallError) -> bool {
    matches!(error, CallError::Link { error: LinkError::TimedOut { setting: "call_timeout", .. }, .. })
}

/// `3 of 10: copying`
fn as_far_as(progress: &Progress) -> String {
    let done = progress.progress;
    let done = match progress.total {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{done}: {message}"),
        None => done,
    }
}

/// Why no tool is meant by `selector`. A server that is not there has no tools: that is the better reason.
fn missing(host: &Host, unknown: &Unknown, named: Option<&ServerName>) -> Failure {
    for server in host.status() {
        if Some(&server.name) == named
            && let Some(failure) = super::unusable(host, &server)
        {
            return failure;
        }
    }
    let selector = unknown.selector.as_str();
    let tool = named.and_then(|server| selector.get(server.as_str().len() + 1..)).unwrap_or(selector);
    let catalog = host.catalog();
    let of_server = catalog.tools().filter(|entry| Some(&entry.server) == named);
    let meant = suggest::closest(tool, of_server.map(|entry| entry.tool().name.as_str()));
    let hint = match (meant, named, unknown.suggestions.as_slice()) {
        (Some(meant), Some(server), _) => format!("did you mean `{server}/{meant}`?"),
        (_, Some(server), _) => format!("`toolrack tools {server}` shows its tools"),
        (_, None, []) => "`toolrack tools` shows all tools".to_owned(),
        (_, None, names) => format!("did you mean `{}`?", names.join("` or `")),
    };
    let failure = Failure::new(Exit::Tool, "UNKNOWN_TOOL", format!("there is no tool `{selector}`"));
    Failure { server: named.map(ToString::to_string), ..failure.hint(hint).tool(tool) }
}

/// The object of `--args`.
async fn base(args: Option<String>, world: &World) -> Result<Map<String, Value>, Failure> {
    let Some(args) = args else {
        return Ok(Map::new());
    };
    let text = match world.brought() {
        Some(brought) => brought?,
        None => read_arguments(args, &world.screen).await?,
    };
    Ok(arguments::parse_object(&text)?)
}

/// The text that `--args` stands for.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn read_arguments(args: String, screen: &Screen) -> Result<String, Failure> {
    input::read("--args", args, screen).await
}

impl From<BadArguments> for Failure {
    fn from(error: BadArguments) -> Self {
        Self::new(Exit::Usage, "BAD_ARGUMENTS", error.to_string())
    }
}

async fn show(outcome: ToolOutcome, output: Option<&Path>, world: &World) -> Result<Exit, Failure> {
    if world.screen.json() {
        // Its serialised form is the documented shape of `call --json`.
        world.screen.document(&outcome).await?;
    } else {
        // What a tool says of its failure is not what somebody wants to find in a file.
        let output = output.filter(|_| !outcome.is_error);
        given::give(&call::raw(&outcome), call::page(&outcome), output, &world.screen).await?;
        for warning in &outcome.warnings {
            world.screen.warning(warning);
        }
        // Where a text was cut it says itself where the whole is.
        for artifact in outcome.artifacts.iter().filter(|artifact| !outcome.text.contains(&artifact.handle)) {
            let (bytes, media_type) = (size(artifact.bytes as u64), &artifact.media_type);
            world.screen.note(&format!("{media_type} of {bytes} is kept as {}", artifact.handle));
        }
    }
    if outcome.is_error {
        return Err(Failure::new(
            Exit::Tool,
            "TOOL_ERROR",
            format!("`{}/{}` reported an error", outcome.server, outcome.tool),
        )
        .server(outcome.server.as_str())
        .tool(outcome.tool));
    }
    Ok(Exit::Ok)
}
