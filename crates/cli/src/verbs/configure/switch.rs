//! Runs `toolrack enable` and `toolrack disable`. An entry is the configuration of one server in a file.

use clap::Args;
use toolrack_config::{
    Entry, Scope as ConfigScope,
    edit::{self, EditTarget, Options},
};

use super::edits::{self, Document};
use crate::{
    args::WriteArgs,
    context::Context,
    error::{Exit, Failure},
    verbs::reach,
};

/// `enable` and `disable`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack disable github
  toolrack enable github
  toolrack disable builtin

A project's server is switched for you alone, in a file of your own, unless you say `--scope project`.")]
pub(crate) struct SwitchArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

pub(crate) async fn enable(args: SwitchArgs, context: &Context) -> Result<Exit, Failure> {
    switch(args, true, context).await
}

pub(crate) async fn disable(args: SwitchArgs, context: &Context) -> Result<Exit, Failure> {
    switch(args, false, context).await
}

async fn switch(args: SwitchArgs, enabled: bool, context: &Context) -> Result<Exit, Failure> {
    let name = args.server.as_str();
    let state_word = if enabled { "enabled" } else { "disabled" };
    let loaded = context.load().await?;
    let entry = edits::find_entry(&loaded, name)?;
    if !entry.is_valid {
        // For a broken entry, this failure names the place of the entry.
        return Err(reach::no_such_server(name, &loaded, Exit::Usage));
    }
    let edit_target = match args.write.scope {
        Some(scope) => edits::target_in_scope(scope, Some(entry), context),
        None => EditTarget::for_switching(entry, &context.places, &context.folder)
            .map_err(|_| edits::not_editable(entry))?,
    };

    let (path, server, dry_run) = (edit_target.path.clone(), name.to_owned(), args.write.dry_run);
    let options = Options { dry_run, ..Options::default() };
    let is_override = entry.switched_by.as_ref().is_some_and(|source| source.path.as_ref() == Some(&path));
    // An `enabled` outside the entry's own file is removed if the entry itself already has the new state.
    let is_override_needless = is_override && entry.enabled != enabled && entry.enabled_itself == enabled;
    let edit_result = edits::run(name, move || {
        if is_override_needless {
            edit::remove(&path, &server, options)
        } else {
            edit::switch(&path, &server, enabled, options)
        }
    })
    .await?;
    let done_message = if edit_result.diff.is_empty() {
        format!("{name} is {state_word} already, in {}", edits::path_text(&edit_result.path))
    } else {
        format!("{state_word} {name} in {}", edits::path_text(&edit_result.path))
    };
    if !dry_run {
        keep_approval(entry, &edit_target, context).await?;
    }
    edits::report(&done_message, &Document::new(name, edit_target.scope, &edit_result, dry_run), context).await?;
    if !dry_run
        && let Some(current_entry) = context.read().await.entry(name)
        && current_entry.enabled != enabled
    {
        let deciding_source = current_entry.switched_by.as_ref().unwrap_or(&current_entry.source);
        context.screen.warning(&format!("`{name}` is still not {state_word}: {deciding_source} decides"));
    }
    Ok(Exit::Ok)
}

/// Switching an entry in a project's file changes the content of the entry. Approves the new content if the user has
/// approved the old one and nothing else has changed.
async fn keep_approval(entry: &Entry, edit_target: &EditTarget, context: &Context) -> Result<(), Failure> {
    let is_own_entry =
        edit_target.scope == ConfigScope::Project && entry.source.path.as_ref() == Some(&edit_target.path);
    if !is_own_entry || entry.trust != toolrack_host::spec::Trust::Trusted {
        return Ok(());
    }
    let loaded = context.read().await;
    match loaded.entry(&entry.name) {
        Some(current_entry) if current_entry.hash_unswitched == entry.hash_unswitched => {
            context.approve(current_entry).await
        }
        _ => Ok(()),
    }
}
