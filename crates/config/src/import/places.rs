//! Finds the files in which each program lists its servers.

use std::path::{Path, PathBuf};

use super::Client;
use crate::{
    environment::Environment,
    places::{UsersFiles, project_folders, project_root},
};

/// A configuration file that a program may have.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub(super) client: Client,
    pub(super) path: PathBuf,
    /// The folder for `${workspaceFolder}` and for relative paths in the file.
    pub(super) folder: PathBuf,
    /// The working folder.
    pub(super) cwd: PathBuf,
    /// The user's home folder.
    pub(super) home: Option<PathBuf>,
    pub(super) from_project: bool,
}

/// The configuration folders of VS Code and its variants.
const VS_CODE_FOLDERS: &[&str] = &["Code", "Code - Insiders", "VSCodium"];

/// The maximum number of VS Code's profiles that are read in one folder.
const MAX_PROFILES: usize = 100;

/// Returns the files of `client`, existing or not, the strongest first: the project's files from `cwd` up to its root,
/// and then the user's own files.
///
/// The files include the usual places of both Linux and macOS, because a home folder can be shared.
pub(super) fn files_of(client: Client, environment: &Environment, cwd: &Path) -> Vec<SourceFile> {
    let folders = project_folders(cwd);
    let root = project_root(cwd);
    // The last folder is `cwd` with its links resolved.
    let cwd = folders.last().cloned().unwrap_or_else(|| cwd.to_owned());
    let source_file = |path: PathBuf, folder: &Path, from_project| SourceFile {
        client,
        path,
        folder: folder.to_owned(),
        cwd: cwd.clone(),
        home: environment.home(),
        from_project,
    };
    let user_files: Vec<PathBuf> =
        files_of_the_user(client, environment).into_iter().map(|path| cwd.join(path)).collect();
    // If the home folder is the project, its files count as the user's only.
    let project_files = folders.iter().rev().flat_map(|folder| {
        let paths = files_of_the_project(client).iter().map(move |name| folder.join(name));
        paths.map(move |path| (folder, path))
    });
    let users_files = UsersFiles::new(user_files.iter().map(PathBuf::as_path));
    let project_files = project_files
        .filter(|(_, path)| !users_files.contain(path))
        .map(|(folder, path)| source_file(path, folder, true));
    let project_files: Vec<SourceFile> = project_files.collect();
    project_files.into_iter().chain(user_files.iter().map(|path| source_file(path.clone(), &root, false))).collect()
}

/// Returns the files that a project can bring, relative to each of its folders.
pub(crate) fn files_of_the_project(client: Client) -> &'static [&'static str] {
    match client {
        // Claude Code's `.mcp.json` is not listed: it is one of Toolrack's own layers.
        Client::ClaudeCode | Client::ClaudeDesktop | Client::Windsurf | Client::Synapse => &[],
        Client::Cursor => &[".cursor/mcp.json"],
        Client::VsCode => &[".vscode/mcp.json", ".vscode/settings.json"],
        Client::Codex => &[".codex/config.toml"],
        Client::Gemini => &[".gemini/settings.json"],
        Client::OpenCode => &[".opencode/opencode.jsonc", ".opencode/opencode.json", "opencode.jsonc", "opencode.json"],
        Client::Zed => &[".zed/settings.json"],
        Client::Qbit => &[".qbit/mcp.json"],
    }
}

/// Returns the files of the user, the strongest first.
pub(crate) fn files_of_the_user(client: Client, environment: &Environment) -> Vec<PathBuf> {
    let home = environment.home();
    let in_home = |path: &str| home.iter().map(|home| home.join(path)).collect::<Vec<_>>();
    // First the folder for configuration on Linux (XDG Base Directory Specification), then that on macOS.
    let xdg = environment.path("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let xdg_folders: Vec<PathBuf> = xdg.map_or_else(|| in_home(".config"), |path| vec![path]);
    let config_folders: Vec<PathBuf> =
        xdg_folders.iter().cloned().chain(in_home("Library/Application Support")).collect();
    match client {
        Client::ClaudeCode => match environment.path("CLAUDE_CONFIG_DIR") {
            Some(folder) => vec![folder.join(".claude.json")],
            None => in_home(".claude.json"),
        },
        Client::ClaudeDesktop => {
            config_folders.iter().map(|base| base.join("Claude/claude_desktop_config.json")).collect()
        }
        Client::Cursor => in_home(".cursor/mcp.json"),
        Client::VsCode => {
            let folders = config_folders
                .iter()
                .flat_map(|base| VS_CODE_FOLDERS.iter().map(move |variant| base.join(variant).join("User")));
            let folders = folders.flat_map(|folder| std::iter::once(folder.clone()).chain(profile_folders(&folder)));
            folders.flat_map(|folder| ["mcp.json", "settings.json"].map(|name| folder.join(name))).collect()
        }
        Client::Windsurf => {
            [in_home(".codeium/windsurf/mcp_config.json"), in_home(".codeium/mcp_config.json")].concat()
        }
        Client::Codex => match environment.path("CODEX_HOME") {
            Some(folder) => vec![folder.join("config.toml")],
            None => in_home(".codex/config.toml"),
        },
        Client::Gemini => in_home(".gemini/settings.json"),
        Client::OpenCode => {
            let file_names = ["opencode.jsonc", "opencode.json", "config.json"];
            let in_config_folders =
                xdg_folders.iter().flat_map(|base| file_names.map(|name| base.join("opencode").join(name)));
            environment.path("OPENCODE_CONFIG").into_iter().chain(in_config_folders).collect()
        }
        Client::Qbit => in_home(".qbit/mcp.json"),
        Client::Synapse => match environment.path("SYNAPSE_MCP_CONFIG") {
            Some(file) => vec![file],
            None => xdg_folders.iter().map(|base| base.join("synapse/mcp_servers.json")).collect(),
        },
        Client::Zed => xdg_folders.iter().map(|base| base.join("zed/settings.json")).collect(),
    }
}

/// Returns the folders of VS Code's profiles other than the default one.
fn profile_folders(user_folder: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(user_folder.join("profiles")).into_iter().flatten().flatten();
    let mut folders: Vec<_> = folders.take(MAX_PROFILES).map(|folder| folder.path()).collect();
    folders.sort();
    folders
}
