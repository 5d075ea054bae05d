//! Runs `toolrack config path`, `show` and `validate`. An entry is the configuration of one server in a file. `Context`
//! is what a command works with: its configuration, database, screen and servers.

mod files;
mod model;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use toolrack_config::{Problem, Severity};

use super::{edits, get::render as entry_render};
use crate::{
    args::Scope,
    context::Context,
    error::{Exit, Failure},
    render::count,
    verbs::safety::secret,
};

/// `config …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack config path
  toolrack config show
  toolrack config validate")]
pub(crate) enum ConfigVerb {
    /// Print the files that apply here; a later one overrides an earlier one
    #[command(after_help = "Examples:
  toolrack config path
  $EDITOR \"$(toolrack config path --scope user)\"")]
    Path(PathArgs),
    /// Print the combined configuration of all files, and where each entry comes from
    #[command(after_help = "Example:
  toolrack config show --json")]
    Show,
    /// Check files without using them; exit code 2 when something is wrong
    #[command(after_help = "Examples:
  toolrack config validate
  toolrack config validate .mcp.json --strict

With --strict, warnings are failures too.")]
    Validate(ValidateArgs),
}

/// `config path`.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// Only the file of this scope
    #[arg(short, long, value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,
}

/// `config validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// These files; without one, all that apply here
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `config path --json`.
#[derive(Debug, Serialize)]
struct PathDocument {
    files: Vec<files::File>,
}

/// `config show --json`.
#[derive(Debug, Serialize)]
struct ShowDocument<'a> {
    servers: Vec<entry_render::Document<'a>>,
    /// The settings of the model, by key; `null` when there are none.
    model: serde_json::Value,
    problems: &'a [Problem],
}

/// `config validate --json`.
#[derive(Debug, Serialize)]
struct ValidateDocument<'a> {
    valid: bool,
    problems: &'a [Problem],
    /// Secrets that entries name, but that are not set.
    unset_secrets: &'a [String],
}

pub(crate) async fn run(verb: ConfigVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        ConfigVerb::Path(args) => path(args.scope, context).await,
        ConfigVerb::Show => show(context).await,
        ConfigVerb::Validate(args) => validate(args.files, context.is_strict(), context).await,
    }
}

async fn path(scope: Option<Scope>, context: &Context) -> Result<Exit, Failure> {
    let files: Vec<_> = match scope {
        Some(scope) => {
            let edit_target = edits::target_for_new_entry(scope, context);
            vec![files::File::new(edit_target.scope, edit_target.path)]
        }
        None => context.read().await.files.into_iter().map(|file| files::File::new(file.scope, file.path)).collect(),
    };
    if context.screen.prints_json() {
        context.screen.document(&PathDocument { files }).await?;
    } else if scope.is_some() {
        // Only the path, so that `$(…)` can use it.
        context.screen.verbatim(files.iter().map(|file| edits::path_text(file.path())).collect()).await?;
    } else {
        context.screen.page(files::page(&files, context.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}

async fn show(context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    if context.screen.prints_json() {
        let servers = loaded.entries.iter().map(|entry| entry_render::Document::new(entry, &loaded)).collect();
        let problems = &loaded.problems;
        let model = loaded.settings.model.view();
        context.screen.document(&ShowDocument { servers, model, problems }).await?;
    } else {
        let layout = context.screen.layout();
        let servers = loaded.entries.iter().map(|entry| entry_render::page(entry, &loaded, layout));
        let blocks: Vec<_> = servers.chain(model::page(&loaded.settings.model, &context.places.settings())).collect();
        context.screen.page(blocks.join("\n\n")).await?;
    }
    Ok(Exit::Ok)
}

async fn validate(files: Vec<PathBuf>, is_strict: bool, context: &Context) -> Result<Exit, Failure> {
    let loaded = if files.is_empty() { context.read().await } else { context.read_files(&files).await };
    let mut problems = loaded.problems.clone();
    if files.is_empty() {
        // These are warnings about rules of `[policy]` that name no configured server. The servers of single files are
        // not all servers.
        problems.extend(loaded.idle_rules());
    }
    let (errors, warnings): (Vec<&Problem>, Vec<_>) =
        problems.iter().partition(|problem| problem.severity == Severity::Error);
    let valid = errors.is_empty() && (!is_strict || warnings.is_empty());
    let unset_secrets = secret::unset_secrets(&loaded, context).await;
    if context.screen.prints_json() {
        context
            .screen
            .document(&ValidateDocument { valid, problems: &problems, unset_secrets: &unset_secrets })
            .await?;
        return Ok(if valid { Exit::Ok } else { Exit::Usage });
    }
    for problem in &problems {
        context.screen.problem(problem);
    }
    for name in &unset_secrets {
        context.screen.note(&format!("the secret `{name}` is not set: toolrack secret set {name}"));
    }
    let counts = format!("{} and {}", count(errors.len(), "error"), count(warnings.len(), "warning"));
    let files_read = loaded.files.iter().filter(|file| file.path.exists()).count();
    if !valid {
        return Err(Failure::config(format!("{counts} in {}", count(files_read, "file"))));
    }
    let page =
        format!("{} read, {} configured, {counts}", count(files_read, "file"), count(loaded.entries.len(), "server"));
    context.screen.page(page).await?;
    Ok(Exit::Ok)
}
