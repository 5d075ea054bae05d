//! `toolrack call`

use std::{io::Read, sync::Arc};

use serde_json::{Map, Value};
use toolrack_host::{Call, Catalog, CatalogTool, Host, ServerName, ToolOutcome, mcp::Progress};

use crate::{
    args::CallArgs,
    arguments::{self, BadArguments},
    error::{Exit, Failure},
    render::{call, size},
    wire::World,
};

/// Bytes that `--args` may hold: what a message to a server may be.
const MAX_ARGS: u64 = 8 * 1024 * 1024;

pub(super) async fn run(args: CallArgs, world: &World) -> Result<Exit, Failure> {
    // Mistakes in what was typed are found before anything is started.
    let given = arguments::parse(&args.arguments)?;
    let base = base(args.args.clone()).await?;

    let loaded = world.load().await?;
    let named = super::server_of(&args.selector, &loaded)?;
    let mut desired = loaded.desired;
    if let Some(named) = &named {
        desired.retain(|name, _| name == named);
    }
    let host = world.connect(desired).await?;
    let catalog = host.catalog();
    let found = find(&host, &catalog, &args.selector, named.as_ref())?;
    let (server, tool) = (&found.server, found.tool());
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let of_tool = |failure: Failure| {
        failure
            .hint(format!("`toolrack tools {server} --schema` shows what it takes"))
            .server(server.as_str())
            .tool(&tool.name)
    };
    let arguments = arguments::fit(base, given, &schema).map_err(|error| of_tool(error.into()))?;
    if !args.no_validate {
        for remark in arguments::unnamed(&arguments, &schema) {
            world.screen.warning(&remark);
        }
        arguments::check(&arguments, schema).await.map_err(|error| of_tool(error.into()))?;
    }

    let mut request = Call::new(format!("{server}/{}", tool.name), arguments);
    if let Some(timeout) = args.timeout {
        request = request.timeout(timeout);
    }
    let screen = Arc::clone(&world.screen);
    let request = request.on_progress(Arc::new(move |progress| screen.progress(&in_words(&progress))));
    let outcome =
        host.call(request).await.map_err(|error| super::failed(&error).server(server.as_str()).tool(&tool.name))?;
    show(outcome, world).await
}

/// `3 of 10: copying`
fn in_words(progress: &Progress) -> String {
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

/// The tool that `selector` means.
fn find<'a>(
    host: &Host,
    catalog: &'a Catalog,
    selector: &str,
    named: Option<&ServerName>,
) -> Result<&'a CatalogTool, Failure> {
    catalog.select(selector).map_err(|unknown| {
        // A server that is not there has no tools: that is the better reason.
        let absent = host
            .status()
            .into_iter()
            .filter(|server| Some(&server.name) == named)
            .find_map(|server| super::unusable(&server));
        if let Some(absent) = absent {
            return absent;
        }
        let hint = match (unknown.suggestions.as_slice(), named) {
            ([], Some(server)) => format!("`toolrack tools {server}` shows its tools"),
            ([], None) => "`toolrack tools` shows all tools".to_owned(),
            (names, _) => format!("did you mean `{}`?", names.join("` or `")),
        };
        let message = format!("there is no tool `{selector}`");
        let mut failure = Failure::new(Exit::Tool, "UNKNOWN_TOOL", message).hint(hint);
        failure.server = named.map(ToString::to_string);
        failure.tool = Some(selector.split_once('/').map_or(selector, |(_, tool)| tool).to_owned());
        failure
    })
}

/// The object of `--args`: JSON as typed, `@FILE`, or `-` for stdin.
async fn base(args: Option<String>) -> Result<Map<String, Value>, Failure> {
    let Some(args) = args else {
        return Ok(Map::new());
    };
    // Stdin may stay silent for as long as it likes; a signal must be heard meanwhile.
    let read = tokio::task::spawn_blocking(move || read_args(args)).await;
    let json = read.map_err(|_| Failure::new(Exit::Other, "INTERNAL", "cannot read --args"))??;
    Ok(arguments::parse_object(&json)?)
}

fn read_args(args: String) -> Result<String, Failure> {
    let (mut from, place): (Box<dyn Read>, String) = if args == "-" {
        (Box::new(std::io::stdin().lock()), "stdin".to_owned())
    } else if let Some(path) = args.strip_prefix('@') {
        let file = std::fs::File::open(path).map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
        (Box::new(file), path.to_owned())
    } else {
        return Ok(args);
    };
    let mut json = String::new();
    from.by_ref()
        .take(MAX_ARGS + 1)
        .read_to_string(&mut json)
        .map_err(|error| Failure::usage(format!("cannot read {place}: {error}")))?;
    if json.len() as u64 > MAX_ARGS {
        return Err(Failure::usage(format!("{place} is too large: arguments may have {}", size(MAX_ARGS))));
    }
    Ok(json)
}

impl From<BadArguments> for Failure {
    fn from(error: BadArguments) -> Self {
        Self::new(Exit::Usage, "BAD_ARGUMENTS", error.to_string())
    }
}

async fn show(outcome: ToolOutcome, world: &World) -> Result<Exit, Failure> {
    if world.screen.json() {
        // Its serialised form is the documented shape of `call --json`.
        world.screen.document(&outcome).await?;
    } else {
        world.screen.page(call::page(&outcome)).await?;
        for warning in &outcome.warnings {
            world.screen.warning(warning);
        }
        for artifact in &outcome.artifacts {
            let size = size(artifact.bytes as u64);
            world.screen.note(&format!("the whole result ({size}) is in {}", artifact.handle));
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
