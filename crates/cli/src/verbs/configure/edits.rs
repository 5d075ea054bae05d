//! Shares code between the verbs that edit a configuration file: it finds the file, runs the edit and reports the
//! change. An entry is the configuration of one server. A scope says which file has the entry: the user's, the
//! project's, or the user's own file for the project.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toolrack_config::{
    Entry, Loaded, Scope as ConfigScope,
    edit::{EditError, EditTarget, Edited},
};
use toolrack_host::text;

use crate::{
    args::Scope,
    context::Context,
    error::{Exit, Failure, with_causes},
    verbs::reach,
};

/// The `--json` output of every verb that edits.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    name: String,
    scope: &'static str,
    path: PathBuf,
    created: bool,
    dry_run: bool,
    /// The change in the form of a unified diff, without secrets.
    diff: String,
}

impl Document {
    pub(crate) fn new(name: &str, scope: ConfigScope, edit_result: &Edited, dry_run: bool) -> Self {
        let (path, diff) = (edit_result.path.clone(), edit_result.diff.clone());
        Self { name: name.to_owned(), scope: scope.as_str(), path, created: edit_result.created, dry_run, diff }
    }
}

impl From<Scope> for ConfigScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User,
            Scope::Project => Self::Project,
            Scope::Local => Self::Local,
        }
    }
}

/// Returns the file that new entries of `scope` are written to.
pub(crate) fn target_for_new_entry(scope: Scope, context: &Context) -> EditTarget {
    EditTarget::for_new_entry(scope.into(), &context.places, &context.folder)
}

/// Returns the file of `scope` that has the entry already. If there is none, returns the file for new entries of
/// `scope`.
pub(crate) fn target_in_scope(scope: Scope, entry: Option<&Entry>, context: &Context) -> EditTarget {
    EditTarget::in_scope(scope.into(), entry, &context.places, &context.folder)
}

/// Finds the entry called `name`, broken or not.
///
/// # Errors
/// When no entry has this name.
pub(crate) fn find_entry<'a>(loaded: &'a Loaded, name: &str) -> Result<&'a Entry, Failure> {
    loaded.entry(name).ok_or_else(|| reach::no_such_server(name, loaded, Exit::Usage))
}

/// Returns the failure for an entry of a file that the user named on the command line: such a file is not edited.
pub(crate) fn not_editable(entry: &Entry) -> Failure {
    let message = format!("`{}` comes from {}, which was named with --mcp-config", entry.name, entry.source);
    Failure::usage(message).hint("edit that file by hand").server(&*entry.name)
}

/// Approves an entry for the user who wrote it into a project's file; every other user still has to approve it.
///
/// # Errors
/// When the approval cannot be stored. The entry then waits until the user approves it.
pub(crate) async fn approve_written(name: &str, hash: &str, context: &Context) -> Result<(), Failure> {
    let loaded = context.read().await;
    match loaded.entry(name) {
        // Approve only the entry that was just written, and not one that another process has written meanwhile.
        Some(entry) if entry.hash == hash => context.approve(entry).await,
        _ => Ok(()),
    }
}

/// Runs an edit on a separate thread, because it may wait for another process that edits the same file.
///
/// # Errors
/// The errors of the edit. Nothing is written in this case.
pub(crate) async fn run(
    server: &str,
    edit: impl FnOnce() -> Result<Edited, EditError> + Send + 'static,
) -> Result<Edited, Failure> {
    let result = tokio::task::spawn_blocking(edit)
        .await
        .map_err(|_| Failure::new(Exit::Other, "INTERNAL", "the file was not written"))?;
    result.map_err(|error| {
        let (exit, code) = match error {
            EditError::Exists { .. } => (Exit::Usage, "EXISTS"),
            EditError::Missing { .. } => (Exit::Usage, "UNKNOWN_SERVER"),
            EditError::Busy { .. } | EditError::Io { .. } => (Exit::Other, "NOT_WRITTEN"),
            _ => (Exit::Usage, "CONFIG"),
        };
        let failure = Failure::new(exit, code, with_causes(&error)).server(server);
        match error {
            EditError::Exists { .. } => failure.hint("`--replace` puts the new entry in its place"),
            _ => failure,
        }
    })
}

/// Prints `done_message` after an edit, or the diff after a dry run.
pub(crate) async fn report(done_message: &str, document: &Document, context: &Context) -> Result<(), Failure> {
    if context.screen.prints_json() {
        return context.screen.document(document).await;
    }
    if !document.dry_run {
        return context.screen.page(done_message.to_owned()).await;
    }
    if document.diff.is_empty() {
        context.screen.note("nothing would change");
    }
    context.screen.page(document.diff.clone()).await
}

/// Returns the text of a path, safe to print in a line.
pub(crate) fn path_text(path: &Path) -> String {
    text::for_line(&path.display().to_string()).into_owned()
}
