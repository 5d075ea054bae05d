//! Finds the files in which other programs, such as Claude Code, list their servers. Toolrack adds itself to such a
//! file.

use std::path::{Path, PathBuf};

use super::ConnectError;
use crate::{
    edit::other_programs::ServersLocation,
    environment::Environment,
    import::{Client, files_of_the_project, files_of_the_user},
    places::project_root,
};

/// The place of a program's servers: a file, which need not exist yet, and a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    /// The program.
    pub client: Client,
    /// The program's file; symbolic links are not followed.
    pub path: PathBuf,
    /// The part of that file which lists the servers.
    pub(super) servers_location: ServersLocation,
}

impl ClientFile {
    /// Returns the place where `client` lists the servers that the user of this `environment` has in every folder.
    ///
    /// # Errors
    /// [`ConnectError::NoHome`] if the home folder is not known.
    pub fn of_user(client: Client, environment: &Environment, cwd: &Path) -> Result<Self, ConnectError> {
        let file = file_of_user(client, environment).ok_or(ConnectError::NoHome(client))?;
        Ok(Self { client, path: cwd.join(file), servers_location: servers_location_of(client) })
    }

    /// Returns the place where `client` lists the servers of the project of `cwd`.
    ///
    /// For Claude Code, this is the user's private list for the project, and not its file for all users of the project,
    /// `.mcp.json`. Toolrack reads that file, too, and would become its own server.
    ///
    /// # Errors
    /// [`ConnectError::NoProject`] if `client` has no such place, and [`ConnectError::NoHome`] if that place is in the
    /// home folder, which is not known.
    pub fn of_project(client: Client, environment: &Environment, cwd: &Path) -> Result<Self, ConnectError> {
        let root = project_root(cwd);
        if client == Client::ClaudeCode {
            let keys = ["projects".to_owned(), root.display().to_string(), "mcpServers".to_owned()];
            let user_file = Self::of_user(client, environment, cwd)?;
            return Ok(Self { servers_location: ServersLocation::Under(keys.to_vec()), ..user_file });
        }
        let names: Vec<PathBuf> = files_of_the_project(client).iter().map(PathBuf::from).collect();
        let names: Vec<PathBuf> = names.into_iter().filter(|name| accepts_servers(client, name)).collect();
        let existing_name = names.iter().find(|name| root.join(name).symlink_metadata().is_ok());
        let name = existing_name.or_else(|| default_file_of(client, &names)).ok_or(ConnectError::NoProject(client))?;
        Ok(Self { client, path: root.join(name), servers_location: servers_location_of(client) })
    }
}

/// Returns whether the user's folders contain files of `client`.
#[must_use]
pub fn is_installed(client: Client, environment: &Environment, cwd: &Path) -> bool {
    let home = environment.home();
    let has_traces = |path: &Path| {
        // The home folder itself exists in any case, so it is no trace of the program.
        let folder = path.parent().filter(|folder| home.as_deref() != Some(*folder));
        path.exists() || folder.is_some_and(Path::is_dir)
    };
    // Claude Code's file is directly in the home folder, so the program's own folder is checked as well.
    let has_folder = home.as_ref().is_some_and(|home| client == Client::ClaudeCode && home.join(".claude").is_dir());
    has_folder || files_of_the_user(client, environment).iter().any(|path| has_traces(&cwd.join(path)))
}

/// Returns the part of the file in which `client` lists its servers.
fn servers_location_of(client: Client) -> ServersLocation {
    let at_key = |key: &str| ServersLocation::Under(vec![key.to_owned()]);
    match client {
        Client::ClaudeCode
        | Client::ClaudeDesktop
        | Client::Cursor
        | Client::Windsurf
        | Client::Gemini
        | Client::Qbit
        | Client::Synapse => at_key("mcpServers"),
        Client::VsCode => at_key("servers"),
        Client::Zed => at_key("context_servers"),
        Client::OpenCode => ServersLocation::OpenCode,
        Client::Codex => ServersLocation::Codex,
    }
}

/// Returns the user's file of `client` that exists. If there is none, returns a file whose folder exists; if there is
/// no such folder either, the usual file.
fn file_of_user(client: Client, environment: &Environment) -> Option<PathBuf> {
    let mut files = files_of_the_user(client, environment);
    // New servers go into VS Code's default profile. The files of the other profiles are only read.
    files.retain(|file| accepts_servers(client, file) && !file.components().any(|part| part.as_os_str() == "profiles"));
    if let Some(existing) = files.iter().find(|file| file.symlink_metadata().is_ok()) {
        return Some(existing.clone());
    }
    let files_in_existing_folders: Vec<PathBuf> =
        files.iter().filter(|file| file.parent().is_some_and(Path::is_dir)).cloned().collect();
    default_file_of(client, &files_in_existing_folders).or_else(|| default_file_of(client, &files)).cloned()
}

/// Returns whether servers may be added to `file`. VS Code also reads servers from its older `settings.json`.
fn accepts_servers(client: Client, file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    client != Client::VsCode || name == "mcp.json"
}

/// Returns the file among `files` that the program itself would create; `None` if `files` is empty.
fn default_file_of(client: Client, files: &[PathBuf]) -> Option<&PathBuf> {
    let is_macos_path = |file: &&PathBuf| file.components().any(|part| part.as_os_str() == "Library");
    match client {
        Client::OpenCode => {
            files.iter().find(|file| file.ends_with("opencode.json") && !is_in_opencode_folder(file)).or(files.first())
        }
        _ if cfg!(target_os = "macos") => files.iter().find(is_macos_path).or(files.first()),
        _ => files.first(),
    }
}

/// Returns whether `file` is in opencode's own folder of a project, which also contains other files.
fn is_in_opencode_folder(file: &Path) -> bool {
    file.starts_with(".opencode")
}
