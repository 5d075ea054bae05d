//! Finds the folders of configuration and data.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::environment::Environment;

/// The folders and files that belong to one user.
///
/// | | default | with `TOOLRACK_HOME` |
/// |---|---|---|
/// | settings | `$XDG_CONFIG_HOME/toolrack/toolrack.toml` | `$TOOLRACK_HOME/toolrack.toml` |
/// | user servers | `$XDG_CONFIG_HOME/toolrack/mcp.json`, or `TOOLRACK_MCP_CONFIG` | `$TOOLRACK_HOME/mcp.json`, or
/// `TOOLRACK_MCP_CONFIG` |
/// | local servers | `$XDG_CONFIG_HOME/toolrack/projects/…/mcp.json` | `$TOOLRACK_HOME/projects/…/mcp.json` |
/// | data | `$XDG_DATA_HOME/toolrack/` | `$TOOLRACK_HOME/` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    config: PathBuf,
    data: PathBuf,
    /// The file that `TOOLRACK_MCP_CONFIG` names.
    chosen_user_file: Option<PathBuf>,
}

/// The environment does not name the folder of the user's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no home folder is known: set `HOME`, or `TOOLRACK_HOME` to a folder for configuration and data")]
pub struct NoHome;

impl Places {
    /// Creates the places that `environment` names.
    ///
    /// # Errors
    /// [`NoHome`] if a folder below the home folder is needed, because neither `TOOLRACK_HOME` nor both XDG variables
    /// are set, and the home folder is unknown.
    pub fn from_env(environment: &Environment) -> Result<Self, NoHome> {
        let mut places = match environment.own_path("TOOLRACK_HOME") {
            Some(home) => Self::under(home),
            None => {
                let base_folder =
                    |variable, default| xdg_folder(environment, variable, default).map(|base| base.join("toolrack"));
                Self {
                    config: base_folder("XDG_CONFIG_HOME", ".config")?,
                    data: base_folder("XDG_DATA_HOME", ".local/share")?,
                    chosen_user_file: None,
                }
            }
        };
        places.chosen_user_file = environment.own_path("TOOLRACK_MCP_CONFIG").map(absolute);
        Ok(places)
    }

    /// Creates places with configuration and data together below `home`.
    #[must_use]
    pub fn under(home: impl Into<PathBuf>) -> Self {
        let home = absolute(home.into());
        Self { config: home.clone(), data: home, chosen_user_file: None }
    }

    /// Returns the folder of configuration files.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the folder of data, such as the database.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns the folder that contains the working folder of each server ([`Self::own_folder`]).
    #[must_use]
    pub fn own_folders(&self) -> PathBuf {
        self.data.join("cwd")
    }

    /// Returns the working folder of the server `name`, if its entry does not name one.
    /// [`Interpolate`](crate::Interpolate) creates it.
    #[must_use]
    pub fn own_folder(&self, name: &str) -> PathBuf {
        // The hash distinguishes servers whose names get the same prefix.
        let hash = Sha256::digest(name);
        let to_safe_char = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        let prefix: String = name.chars().map(to_safe_char).take(32).collect();
        self.own_folders().join(format!("{prefix}-{}", HEXLOWER.encode(&hash[..4])))
    }

    /// Returns the user's `toolrack.toml`: the settings, and the servers that every agent has (`[[defaults.mcp]]`).
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.config.join("toolrack.toml")
    }

    /// Returns the file with the user's servers.
    #[must_use]
    pub fn user_file(&self) -> PathBuf {
        self.chosen_user_file.clone().unwrap_or_else(|| self.config.join("mcp.json"))
    }

    /// Returns whether `TOOLRACK_MCP_CONFIG` chose [`Self::user_file`], so that its absence is worth a warning.
    #[must_use]
    pub fn user_file_is_chosen(&self) -> bool {
        self.chosen_user_file.is_some()
    }

    /// Returns the file with the user's private servers for the project at `root`.
    ///
    /// The file is among the user's own files, because a file in the project may come from the repository.
    #[must_use]
    pub fn local_file(&self, root: &Path) -> PathBuf {
        let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let hash = HEXLOWER.encode(&hash[..5]);
        let name: String = root
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(40)
            .collect();
        self.config.join("projects").join(format!("{name}-{hash}")).join("mcp.json")
    }
}

/// Returns the XDG base folder that `variable` names, or else the folder `default` below the home folder. Ignores a
/// relative path, which is invalid (XDG Base Directory Specification 0.8).
fn xdg_folder(environment: &Environment, variable: &str, default: &str) -> Result<PathBuf, NoHome> {
    match environment.path(variable).filter(|path| path.is_absolute()) {
        Some(path) => Ok(path),
        None => Ok(environment.home().ok_or(NoHome)?.join(default)),
    }
}

/// Returns `path` as an absolute path, or unchanged if the current folder is unknown.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Returns the root of the project that `cwd` is in: the nearest folder from `cwd` upward that contains `.git`, or else
/// `cwd` itself.
#[must_use]
pub fn project_root(cwd: &Path) -> PathBuf {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    cwd.ancestors()
        .find(|folder| folder.join(".git").symlink_metadata().is_ok())
        .map_or_else(|| cwd.clone(), Path::to_owned)
}

/// Returns the folders from the project's root down to `cwd`. A later folder takes precedence.
pub(crate) fn project_folders(cwd: &Path) -> Vec<PathBuf> {
    let root = project_root(cwd);
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let mut folders: Vec<_> =
        cwd.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned).collect();
    folders.reverse();
    folders
}

/// The real paths of the user's own files, as far as they exist. With `TOOLRACK_HOME=~/.toolrack`, one of them is also
/// where a project in the home folder has its file. It then counts only as the user's file: as a project's file, it
/// would wait for the user's agreement, and replace itself.
pub(crate) struct UsersFiles(Vec<PathBuf>);

impl UsersFiles {
    pub(crate) fn new<'f>(files: impl IntoIterator<Item = &'f Path>) -> Self {
        Self(files.into_iter().filter_map(|file| file.canonicalize().ok()).collect())
    }

    /// Returns whether `file` is one of the user's files, or a link to one.
    pub(crate) fn contain(&self, file: &Path) -> bool {
        file.canonicalize().is_ok_and(|file| self.0.contains(&file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdg_folders_are_honoured_and_relative_ones_ignored() {
        let environment =
            Environment::new([("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "/etc/ada"), ("XDG_DATA_HOME", "relative")]);
        let places = Places::from_env(&environment).unwrap();
        assert_eq!(places.user_file(), Path::new("/etc/ada/toolrack/mcp.json"));
        assert_eq!(places.data(), Path::new("/home/ada/.local/share/toolrack"));
        assert!(!places.user_file_is_chosen());
    }

    #[test]
    fn toolrack_home_holds_configuration_and_data() {
        let environment = Environment::new([("TOOLRACK_HOME", "/rack")]);
        let places = Places::from_env(&environment).unwrap();
        assert_eq!(places.settings(), Path::new("/rack/toolrack.toml"));
        assert_eq!(places.data(), Path::new("/rack"));
    }

    #[test]
    fn toolrack_mcp_config_replaces_the_user_file_only() {
        let environment = Environment::new([("HOME", "/home/ada"), ("TOOLRACK_MCP_CONFIG", "/x.json")]);
        let places = Places::from_env(&environment).unwrap();
        assert_eq!(places.user_file(), Path::new("/x.json"));
        assert!(places.user_file_is_chosen());
        assert!(places.settings().starts_with("/home/ada/.config"));
    }

    #[test]
    fn a_home_that_no_shell_has_expanded_is_below_the_home_folder() {
        let variables = [("HOME", "/home/ada"), ("TOOLRACK_HOME", "~/.toolrack"), ("TOOLRACK_MCP_CONFIG", "~/x.json")];
        let places = Places::from_env(&Environment::new(variables)).unwrap();
        assert_eq!(places.data(), Path::new("/home/ada/.toolrack"));
        assert_eq!(places.user_file(), Path::new("/home/ada/x.json"));
    }

    #[test]
    fn no_home_is_an_error_that_says_what_to_set() {
        let error = Places::from_env(&Environment::default()).unwrap_err();
        assert!(error.to_string().contains("TOOLRACK_HOME"));
    }

    #[test]
    fn local_files_of_two_projects_of_one_name_differ() {
        let places = Places::under("/rack");
        let one = places.local_file(Path::new("/a/shop"));
        let two = places.local_file(Path::new("/b/shop"));
        assert_ne!(one, two);
        assert!(one.starts_with("/rack/projects"));
    }

    #[test]
    fn a_project_reaches_from_the_git_root_down_to_the_working_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(project_folders(&deep), std::slice::from_ref(&deep));

        std::fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(project_root(&deep), root);
        assert_eq!(project_folders(&deep), [root.clone(), root.join("a"), deep]);
    }

    #[test]
    fn a_server_s_own_folder_is_one_path_segment_for_any_name() {
        let places = Places::under("/rack");
        let names = [
            "a",
            "A",
            "a b",
            "a_b",
            "../../etc",
            "/",
            "",
            ".",
            "..",
            "\u{e4}",
            "a\0b",
            &"x".repeat(500),
            &"x".repeat(501),
        ];
        let mut folders = std::collections::HashSet::new();
        for name in names {
            let folder = places.own_folder(name);
            assert_eq!(folder.parent(), Some(&*places.own_folders()), "{name:?}");
            let own = folder.file_name().unwrap().to_str().unwrap();
            assert!(own.len() <= 41 && own.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{own}");
            assert_eq!(places.own_folder(name), folder, "the same each time");
            assert!(folders.insert(folder), "{name:?} shares its folder");
        }
    }

    #[test]
    fn the_private_file_of_a_project_is_below_the_users_folder_for_any_name() {
        let places = Places::under("/rack");
        for root in ["/", "/a b/\u{e4}", "/x/..", "/very/deep/", "/a\nb"] {
            let file = places.local_file(Path::new(root));
            assert!(file.starts_with("/rack/projects") && file.ends_with("mcp.json"), "{root}");
            assert_eq!(file.components().count(), 5, "{}", file.display());
        }
    }

    #[test]
    fn a_relative_home_is_below_the_working_folder() {
        let places =
            Places::from_env(&Environment::new([("TOOLRACK_HOME", "rack"), ("TOOLRACK_MCP_CONFIG", "x.json")]));
        let places = places.unwrap();
        assert!(places.config().is_absolute() && places.config().ends_with("rack"), "{places:?}");
        assert!(places.user_file().is_absolute() && places.user_file().ends_with("x.json"), "{places:?}");
        // Empty variables count as unset.
        let empty = [("TOOLRACK_HOME", ""), ("TOOLRACK_MCP_CONFIG", ""), ("XDG_CONFIG_HOME", ""), ("HOME", "/h")];
        let places = Places::from_env(&Environment::new(empty)).unwrap();
        assert_eq!(places.user_file(), Path::new("/h/.config/toolrack/mcp.json"));
        assert!(!places.user_file_is_chosen());
    }
}
