//! Runs `toolrack config path`, `show` and `validate`. `World` is what a command works with: its configuration,
//! database, screen and servers.

mod files;
mod model;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use toolrack_config::{Problem, Severity};

use super::{edits, get::render as entry};
use crate::{
    args::Scope,
    error::{Exit, Failure},
    render::count,
    verbs::safety::secret,
    wire::World,
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
struct Paths {
    files: Vec<files::File>,
}

/// `config show --json`.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    servers: Vec<entry::Document<'a>>,
    /// The settings of the model, by key; `null` when there are none.
    model: serde_json::Value,
    problems: &'a [Problem],
}

/// `config validate --json`.
#[derive(Debug, Serialize)]
struct Validated<'a> {
    valid: bool,
    problems: &'a [Problem],
    /// Secrets that entries name and that are not set.
    unset_secrets: &'a [String],
}

pub(crate) async fn run(verb: ConfigVerb, world: &World) -> Result<Exit, Failure> {
    match verb {
        ConfigVerb::Path(args) => path(args.scope, world).await,
        ConfigVerb::Show => show(world).await,
        ConfigVerb::Validate(args) => validate(args.files, world.is_strict(), world).await,
    }
}

async fn path(scope: Option<Scope>, world: &World) -> Result<Exit, Failure> {
    let files: Vec<_> = match scope {
        Some(scope) => {
            let place = edits::place_for_new(scope, world);
            vec![files::File::new(place.scope, place.path)]
        }
        None => world.read().await.files.into_iter().map(|file| files::File::new(file.scope, file.path)).collect(),
    };
    if world.screen.json() {
        world.screen.document(&Paths { files }).await?;
    } else if scope.is_some() {
        // Only the path, so that `$(…)` can use it.
        world.screen.verbatim(files.iter().map(|file| edits::path_text(file.path())).collect()).await?;
    } else {
        world.screen.page(files::page(&files, world.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}

async fn show(world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    if world.screen.json() {
        let servers = loaded.entries.iter().map(|entry| entry::Document::new(entry, &loaded)).collect();
        let problems = &loaded.problems;
        let model = loaded.settings.model.view();
        world.screen.document(&Shown { servers, model, problems }).await?;
    } else {
        let layout = world.screen.layout();
        let servers = loaded.entries.iter().map(|entry| entry::page(entry, &loaded, layout));
        let blocks: Vec<_> = servers.chain(model::page(&loaded.settings.model, &world.places.settings())).collect();
        world.screen.page(blocks.join("\n\n")).await?;
    }
    Ok(Exit::Ok)
}

async fn validate(files: Vec<PathBuf>, strict: bool, world: &World) -> Result<Exit, Failure> {
    let loaded = if files.is_empty() { world.read().await } else { world.read_only(&files).await };
    let mut problems = loaded.problems.clone();
    problems.extend(loaded.idle_rules());
    let (errors, warnings): (Vec<&Problem>, Vec<_>) =
        problems.iter().partition(|problem| problem.severity == Severity::Error);
    let valid = errors.is_empty() && (!strict || warnings.is_empty());
    let unset = secret::unset_secrets(&loaded, world).await;
    if world.screen.json() {
        world.screen.document(&Validated { valid, problems: &problems, unset_secrets: &unset }).await?;
        return Ok(if valid { Exit::Ok } else { Exit::Usage });
    }
    for problem in &problems {
        world.screen.problem(problem);
    }
    for name in &unset {
        world.screen.note(&format!("the secret `{name}` is not set: toolrack secret set {name}"));
    }
    let counts = format!("{} and {}", count(errors.len(), "error"), count(warnings.len(), "warning"));
    let files_read = loaded.files.iter().filter(|file| file.path.exists()).count();
    if !valid {
        return Err(Failure::config(format!("{counts} in {}", count(files_read, "file"))));
    }
    let page =
        format!("{} read, {} configured, {counts}", count(files_read, "file"), count(loaded.entries.len(), "server"));
    world.screen.page(page).await?;
    Ok(Exit::Ok)
}
