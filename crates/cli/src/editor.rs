//! Lets the user change a text in an editor.

use std::{io::Write as _, path::PathBuf, process::Stdio, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{process::Command, time::timeout};
use toolrack_config::Environment;

use crate::error::in_words;

/// The most bytes of an edited text.
const MAX_BYTES: usize = 1024 * 1024;
/// How long an editor may stay open.
const EDITOR_TIMEOUT: Duration = Duration::from_secs(3600);

/// The editor of the user.
#[derive(Clone, Debug)]
pub(crate) struct Editor {
    /// The command line in `$VISUAL` or `$EDITOR`.
    command: Option<String>,
    /// The folder for temporary files.
    folder: PathBuf,
}

/// The outcome of an edit.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EditOutcome {
    Text(String),
    /// The editor failed, for this reason.
    Failed(String),
    /// No editor is set.
    NoEditor,
}

impl Editor {
    /// The editor that `$VISUAL`, or else `$EDITOR`, names.
    pub(crate) fn from_environment(environment: &Environment) -> Self {
        let variable = |name: &str| {
            let value = environment.get(name)?.to_str()?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let command = variable("VISUAL").or_else(|| variable("EDITOR"));
        let folder = variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        Self { command, folder }
    }

    /// No editor, for a command whose user is at the terminal of another process.
    pub(crate) fn none() -> Self {
        Self { command: None, folder: PathBuf::new() }
    }

    /// Returns whether the user has set an editor.
    pub(crate) fn is_set(&self) -> bool {
        self.command.is_some()
    }

    /// Opens `text` in the editor and returns the content of the file when the editor ends.
    pub(crate) async fn edit(&self, text: &str) -> EditOutcome {
        let Some(command) = &self.command else {
            return EditOutcome::NoEditor;
        };
        match self.run(command, text).await {
            Ok(text) => EditOutcome::Text(text),
            Err(why) => EditOutcome::Failed(format!("the editor `{command}` failed: {why}")),
        }
    }

    async fn run(&self, command: &str, text: &str) -> Result<String, String> {
        let words = shell_words::split(command).map_err(|_| "a quote is not closed".to_owned())?;
        let (program, args) = words.split_first().ok_or("the command is empty")?;
        // Only the user can read the file, and it is removed in every case.
        let file = tempfile::Builder::new().prefix("toolrack-").suffix(".json").tempfile_in(&self.folder);
        let mut file = file.map_err(|error| format!("no file in {}: {}", self.folder.display(), in_words(&error)))?;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(|error| in_words(&error))?;
        let mut editor = Command::new(program);
        // Stdout is for data. The editor draws on the terminal, to which stderr goes.
        let terminal = std::io::stderr();
        let terminal = std::os::fd::AsFd::as_fd(&terminal).try_clone_to_owned().map_err(|error| in_words(&error))?;
        editor.args(args).arg(file.path()).stdout(Stdio::from(terminal)).kill_on_drop(true);
        let exit_status =
            timeout(EDITOR_TIMEOUT, editor.status()).await.map_err(|_| "it was open for an hour".to_owned())?;
        let status = exit_status.map_err(|error| in_words(&error))?;
        if !status.success() {
            return Err(format!("it ended with {status}"));
        }
        // Read the file by its path, because some editors replace it.
        let size = std::fs::metadata(file.path()).map_err(|error| in_words(&error))?.len();
        if size > MAX_BYTES as u64 {
            return Err("the text is larger than 1 MiB".to_owned());
        }
        std::fs::read_to_string(file.path()).map_err(|error| in_words(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn edited(folder: &std::path::Path, visual: &str, editor: &str) -> EditOutcome {
        let variables = [("VISUAL", visual), ("EDITOR", editor), ("TMPDIR", folder.to_str().unwrap())];
        let edited = Editor::from_environment(&Environment::new(variables)).edit("old\n").await;
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "a file is left");
        edited
    }

    #[tokio::test]
    async fn the_edited_text_is_read_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(edited(folder, "sed -i s/old/new/", "false").await, EditOutcome::Text("new\n".to_owned()));
        assert_eq!(edited(folder, "", "true").await, EditOutcome::Text("old\n".to_owned()));
        assert_eq!(edited(folder, "", " ").await, EditOutcome::NoEditor);
    }

    #[tokio::test]
    async fn a_failed_editor_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for (command, why) in [
            ("false", "it ended with exit status: 1"),
            ("/nonexistent/editor", "no such file"),
            ("'vi", "a quote is not closed"),
            ("truncate -s 2M", "the text is larger than 1 MiB"),
            ("rm", "no such file"),
        ] {
            let EditOutcome::Failed(told) = edited(folder, command, "true").await else { panic!("{command}") };
            assert!(told.starts_with(&format!("the editor `{command}` failed: ")) && told.contains(why), "{told}");
        }
    }
}
