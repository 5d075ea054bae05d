//! Runs `toolrack remove`. An entry is the configuration of one server in a file; a scope says in which file.

use clap::Args;
use toolrack_config::{
    Entry, Scope as ConfigScope,
    edit::{self, EditTarget, NoEditTarget, Options},
};

use super::edits::{self, Document};
use crate::{
    args::{Scope, WriteArgs},
    context::Context,
    error::{Exit, Failure},
};

/// `remove`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack remove github
  toolrack remove github --scope project --dry-run")]
pub(crate) struct RemoveArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

pub(crate) async fn run(args: RemoveArgs, context: &Context) -> Result<Exit, Failure> {
    let name = args.server.as_str();
    let loaded = context.load().await?;
    let entry = edits::find_entry(&loaded, name)?;
    let edit_target = match args.write.scope {
        // The file of this scope may have no entry of the server, but only an `enabled` for it.
        Some(scope) => edits::target_in_scope(scope, Some(entry), context),
        None => single_edit_target(entry)?,
    };

    let (path, server, dry_run) = (edit_target.path.clone(), name.to_owned(), args.write.dry_run);
    let options = Options { dry_run, ..Options::default() };
    let edit_result = edits::run(name, move || edit::remove(&path, &server, options)).await?;
    if let (ConfigScope::Project, Some(project), false) = (edit_target.scope, &entry.project, dry_run) {
        // If the entry is added again later, it needs a new approval.
        context.revoke(project, name).await?;
    }
    if !dry_run {
        forget_switch(entry, &edit_target, context).await?;
    }
    let done_message = format!("removed the server {name} from {}", edits::path_text(&edit_result.path));
    edits::report(&done_message, &Document::new(name, edit_target.scope, &edit_result, dry_run), context).await?;
    if !dry_run && let Some(remaining) = context.read().await.entry(name) {
        context.screen.note(&format!("`{name}` now means the entry of {} ({})", remaining.source, remaining.scope));
    }
    Ok(Exit::Ok)
}

/// Removes the `enabled` of a removed entry from the user's own file for this project.
async fn forget_switch(entry: &Entry, edit_target: &EditTarget, context: &Context) -> Result<(), Failure> {
    let local_path = edits::target_for_new_entry(Scope::Local, context).path;
    let is_switched_here = entry.switched_by.as_ref().and_then(|source| source.path.as_ref()) == Some(&local_path);
    // Entries of the same name in other files (`shadows`) remain, and the `enabled` then applies to one of them.
    if !is_switched_here || edit_target.path == local_path || !entry.shadows.is_empty() {
        return Ok(());
    }
    let name = entry.name.clone();
    edits::run(&entry.name, move || edit::remove(&local_path, &name, Options::default())).await.map(drop)
}

/// Returns the file of the entry, if only one file has the entry.
fn single_edit_target(entry: &Entry) -> Result<EditTarget, Failure> {
    let name = entry.name.as_str();
    EditTarget::single_file_of(entry).map_err(|no_target| match no_target {
        NoEditTarget::CommandLine => edits::not_editable(entry),
        NoEditTarget::BuiltIn => Failure::usage(format!("`{name}` is a part of toolrack and cannot be removed"))
            .hint(format!("toolrack disable {name}"))
            .server(name),
        NoEditTarget::Several(targets) => {
            let scopes: Vec<_> = targets.iter().map(|edit_target| edit_target.scope.as_str()).collect();
            let message = format!("`{name}` is configured more than once: {}", scopes.join(", "));
            let hint = format!("say which one: toolrack remove {name} --scope {}", scopes[0]);
            Failure::usage(message).hint(hint).server(name)
        }
    })
}
