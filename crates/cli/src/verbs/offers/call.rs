//! Runs `toolrack call`. `Context` is what a command works with: its configuration, database, screen and servers.
//!
//! A tool is in quarantine if its definition has changed and the user has not approved the change; the host refuses its
//! calls. An artifact is a file of the host with a result that is too long or is not text.

pub(crate) mod render;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::{Map, Value};
use toolrack_config::{Loaded, closest};
use toolrack_host::{
    Call, CallError, Caller, CatalogTool, Host, LinkError, ServerName, ToolOutcome, UnknownTool, Way,
    spec::{Setting, Source},
    text,
};

use super::deliver;
use crate::{
    args::{OneOffArgs, parse_duration},
    arguments::{self, BadArguments},
    builtin,
    context::Context,
    error::{Exit, Failure},
    render::{progress, size},
    screen::Screen,
    verbs::{
        input,
        reach::{self, Target},
    },
};

/// `call`.
#[derive(Debug, Args)]
#[command(after_help = "How values are read:
  path=README.md       a value, read as the tool's schema says: text, number, true or false
  paths=a paths=b      several values for a list
  filter:='{\"a\": 1}'   JSON as it stands
  '{\"path\": \".\"}'      a JSON object sets several at once

For a server that is not configured, write the tool after its address, or before `--` and its command.

Examples:
  toolrack call fs/read_text_file path=README.md head=10
  toolrack call https://example.com/mcp echo message=hi
  toolrack call echo message=hi -- npx -y my-server
  toolrack call fs/edit --args @edit.json
  toolrack call browser/screenshot -o page.png
  echo '{\"path\": \".\"}' | toolrack call builtin/list_directory --args -")]
pub(crate) struct CallArgs {
    /// The tool: server/tool, server.tool, or the name that a model sees; after the address of a server, only the
    /// tool's own name
    #[arg(value_name = "TOOL")]
    pub(crate) selector: String,

    /// The arguments of the tool: NAME=VALUE or NAME:=JSON
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,

    /// All arguments as one JSON object: the JSON itself, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,

    /// End the call after this long without a sign of life, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// Send the arguments even if they do not fit the tool's schema
    #[arg(long)]
    pub(crate) no_validate: bool,

    /// Write the result into this file as it is, decoded if it is not text; - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

pub(crate) async fn run(args: CallArgs, context: &Context) -> Result<Exit, Failure> {
    // Check the command line before starting anything. A call such as `f(a: 1)` gets a hint with the right words.
    let corrected_words = arguments::as_command_line(&args.selector, &args.arguments);
    let with_call_hint = |failure: Failure| match &corrected_words {
        Some(words) if failure.code == "BAD_ARGUMENTS" || failure.code.starts_with("UNKNOWN_") => {
            failure.hint(format!("arguments come after the tool: toolrack call {words}"))
        }
        _ => failure,
    };
    let typed_arguments = arguments::parse(&args.arguments).map_err(|error| with_call_hint(error.into()))?;
    let base_arguments = base_arguments(args.args.clone(), context).await?;

    let loaded = context.load().await?;
    context.sample_with_configured_model(&loaded);
    // The tool may be in quarantine, because its definition differs from the trusted one. The host then refuses the
    // call below.
    let (host, catalog_tool) = find_tool(&args.selector, &loaded, context).await.map_err(with_call_hint)?;
    let (server, tool) = (&catalog_tool.server, catalog_tool.tool());
    // Leave the arguments for a tool in quarantine unchecked: its call fails anyway, and the quarantine is the more
    // important reason.
    let is_checked = !args.no_validate && host.catalog().quarantined_tool(&catalog_tool.selector()).is_none();
    // The host has left out tools whose schemas cannot be parsed.
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let with_tool_hint = |failure: Failure| {
        failure
            .hint(format!("`{}` shows what it takes", tools_command(server, &tool.name, context)))
            .server(server.as_str())
            .tool(&tool.name)
    };
    let is_lenient = !is_checked;
    let arguments = arguments::fit(base_arguments, typed_arguments, &schema, is_lenient)
        .map_err(|error| with_tool_hint(error.into()))?;
    if is_checked {
        for remark in arguments::unnamed_argument_messages(&arguments, &schema) {
            context.screen.warning(&remark);
        }
        arguments::check(&arguments, schema).await.map_err(|error| with_tool_hint(error.into()))?;
    }

    let mut request =
        Call::of(server.clone(), tool.name.clone(), arguments).caller(Caller::local(Way::Cli)).untruncated();
    if let Some(timeout) = args.timeout {
        request = request.timeout(timeout);
    }
    let screen = Arc::clone(&context.screen);
    let request = request.on_progress(Arc::new(move |progress| screen.progress(&progress::words(&progress))));
    let call_failure = |error: CallError| {
        let failure = Failure::from_call_error(&error).server(server.as_str()).tool(&tool.name);
        if args.timeout.is_some() && is_timeout(&error) {
            return failure.hint("if it is only slow, give it more `--timeout`; the call was not repeated");
        }
        failure
    };
    let outcome = host.call(request).await.map_err(call_failure)?;
    show(outcome, args.output.as_deref(), context).await
}

/// Returns the command that shows the arguments of `tool`.
fn tools_command(server: &ServerName, tool: &str, context: &Context) -> String {
    match context.one_off() {
        Some(one_off) => one_off.command_line(&format!("tools {}", shell_words::quote(tool))),
        None => format!("toolrack tools {}", shell_words::quote(&format!("{server}/{tool}"))),
    }
}

/// Returns the tool that `selector` names, and a host with only the servers that can have it. The tool may be in
/// quarantine.
///
/// # Errors
/// When there is no such tool, or its server cannot be used.
pub(crate) async fn find_tool(
    selector: &str,
    loaded: &Loaded,
    context: &Context,
) -> Result<(Host, CatalogTool), Failure> {
    let target = match context.one_off() {
        Some(_) => Target::of_one_off(selector)?,
        None => Target::parse(selector, loaded)?,
    };
    let mut desired = loaded.desired.clone();
    desired.retain(|name, _| target.may_be_on(name));
    let host = context.connect(desired).await?;
    let catalog = host.catalog();
    let catalog_tool = match &target {
        Target::Tool { server, tool } => catalog.tool_of(server, tool),
        Target::ModelName(_) => {
            let find_by_other_names = || catalog.by_usual_name(selector).or_else(|| catalog.quarantined_tool(selector));
            catalog.select(selector).ok().or_else(find_by_other_names)
        }
    };
    match catalog_tool {
        Some(catalog_tool) => Ok((host, catalog_tool.clone())),
        None => {
            let mut failure = unknown_tool(&host, &catalog.unknown(selector), &target);
            // A hint with a similar name stays as it is; only the one that names a command is changed.
            if let Some(hint) = failure.hint.as_mut().filter(|hint| hint.starts_with("`toolrack tools")) {
                // A server for one command has no name that the next command could use.
                if let Some(one_off) = context.one_off() {
                    *hint = format!("`{}` shows its tools", one_off.command_line("tools"));
                }
                if !context.can_answer_forms() && target.server().is_some_and(|server| server.as_str() != builtin::NAME)
                {
                    hint.push_str("; at a terminal, or with `--answer`, a server may offer more");
                }
            }
            Err(failure)
        }
    }
}

/// Returns whether the call failed because it took longer than `--timeout` allows.
fn is_timeout(error: &CallError) -> bool {
    matches!(error, CallError::Link { error: LinkError::TimedOut { setting: Setting::CallTimeout, .. }, .. })
}

/// Returns why the selector of `unknown` names no tool. If the server of `target` cannot be used, returns the failure
/// of that server instead.
fn unknown_tool(host: &Host, unknown: &UnknownTool, target: &Target) -> Failure {
    let named_server = target.server();
    for server in host.status() {
        if Some(&server.name) == named_server
            && let Some(failure) = reach::server_failure(host, &server)
        {
            return failure;
        }
    }
    let selector = unknown.selector.as_str();
    let tool = match target {
        Target::Tool { tool, .. } if !tool.is_empty() => tool,
        _ => selector,
    };
    if let Some(failure) = excluded_tool(host, selector, target) {
        return failure;
    }
    let catalog = host.catalog();
    let server_tools = || catalog.tools().filter(|catalog_tool| Some(&catalog_tool.server) == named_server);
    let mut message = format!("there is no tool `{selector}`");
    if named_server.is_some() && server_tools().next().is_none() {
        message.push_str(": its server is connected, and offers no tools");
    }
    let server_tools = server_tools();
    let similar_tool = closest(tool, server_tools.map(|catalog_tool| catalog_tool.tool().name.as_str()));
    let hint = match (similar_tool, named_server, unknown.suggestions.as_slice()) {
        (Some(similar_tool), Some(server), _) => format!("did you mean `{server}/{similar_tool}`?"),
        (_, Some(server), _) => format!("`toolrack tools {server}` shows its tools"),
        (_, None, []) => "`toolrack tools` shows all tools".to_owned(),
        (_, None, names) => format!("did you mean `{}`?", names.join("` or `")),
    };
    let failure = Failure::new(Exit::Tool, "UNKNOWN_TOOL", message);
    Failure { server: named_server.map(ToString::to_string), ..failure.hint(hint).tool(tool) }
}

/// Returns the failure for an excluded tool: its server lists it, but the host cannot use it.
fn excluded_tool(host: &Host, selector: &str, target: &Target) -> Option<Failure> {
    host.status().into_iter().find_map(|status| {
        let server = &status.name;
        let model_prefix = format!("mcp__{server}__");
        let tool = match target {
            Target::Tool { server: named_server, tool } if named_server == server => tool,
            Target::Tool { .. } => return None,
            Target::ModelName(_) => selector.strip_prefix(&model_prefix).unwrap_or(selector),
        };
        // The names of unusable tools are stored in this form.
        let tool = text::for_line(tool);
        let why = &status.unusable.iter().find(|unusable| unusable.name == tool)?.why;
        let message = format!("`{tool}` on the server {server} ({}) was set aside: {why}", status.source);
        let failure = Failure::new(Exit::Tool, "UNKNOWN_TOOL", message);
        let failure = failure.hint(match setting_at_end(why) {
            Some(setting) => limit_hint(setting, &status.source),
            None => format!("`toolrack why {server}/{tool}` says more; only its server can correct that"),
        });
        Some(failure.server(server.as_str()).tool(&tool))
    })
}

/// Returns the hint to raise the limit `setting` of a server from `source`.
fn limit_hint(setting: &str, source: &Source) -> String {
    // Without a file, the server was given on the command line alone, where no setting can be written.
    let place = if source.path.is_some() { source.to_string() } else { "an entry of `--mcp-config`".to_owned() };
    format!("raise `{setting}` in {place}, if you trust the server")
}

/// Returns the setting of the limit that `why` names at its end, as in `it nests too deep (max_schema_depth)`.
fn setting_at_end(why: &str) -> Option<&str> {
    let (_, setting) = why.strip_suffix(')')?.rsplit_once('(')?;
    setting.starts_with("max_").then_some(setting)
}

/// Returns the object of `--args`, or an empty object without `--args`. The caller adds the arguments that were typed
/// as words.
async fn base_arguments(args: Option<String>, context: &Context) -> Result<Map<String, Value>, Failure> {
    let Some(args) = args else {
        return Ok(Map::new());
    };
    // In a daemon, the user's process has read the text.
    let text = match context.args_text() {
        Some(args_text) => args_text?,
        None => read_arguments(args, &context.screen).await?,
    };
    Ok(arguments::parse_object(&text)?)
}

/// Returns the text that `--args` stands for: the JSON itself, or the content of the file or of stdin.
///
/// # Errors
/// When the file or stdin cannot be read.
pub(crate) async fn read_arguments(args: String, screen: &Screen) -> Result<String, Failure> {
    input::read("--args", args, screen).await
}

impl From<BadArguments> for Failure {
    fn from(error: BadArguments) -> Self {
        let failure = Self::new(Exit::Usage, "BAD_ARGUMENTS", error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Shows the result of the call, or writes it to `output`.
///
/// # Errors
/// When the result cannot be written, or the tool reported an error.
async fn show(outcome: ToolOutcome, output: Option<&Path>, context: &Context) -> Result<Exit, Failure> {
    if context.screen.prints_json() {
        // The serialized form is the documented output of `call --json`.
        context.screen.document(&outcome).await?;
    } else {
        // The error text of a tool does not belong in the output file.
        let output = output.filter(|_| !outcome.is_error);
        let plain = (!outcome.is_error).then(|| render::plain(&outcome));
        let text = deliver::TextForms { escaped: render::page(&outcome), plain };
        deliver::deliver(&render::raw_pieces(&outcome), text, output, &context.screen).await?;
        for warning in &outcome.warnings {
            context.screen.warning(warning);
        }
        // Name only the artifacts that the text does not name: a shortened text contains the handle of the whole text.
        for artifact in outcome.artifacts.iter().filter(|artifact| !outcome.text.contains(&artifact.handle)) {
            let (bytes, media_type) = (size(artifact.bytes as u64), &artifact.media_type);
            context.screen.note(&format!("{media_type} of {bytes} is kept as {}", artifact.handle));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_limit_names_the_setting_and_a_place_for_it() {
        assert_eq!(setting_at_end("it nests too deep (max_schema_depth)"), Some("max_schema_depth"));
        assert_eq!(setting_at_end("its schema is broken (at `a`)"), None);
        let typed = Source { scope: "command line".to_owned(), path: None };
        assert!(limit_hint("max_x", &typed).starts_with("raise `max_x` in an entry of `--mcp-config`,"));
        assert!(limit_hint("max_x", &Source::file("user", "/a/mcp.json")).starts_with("raise `max_x` in /a/mcp.json,"));
    }
}
