//! Lists the configuration files from the weakest layer to the strongest, and says which parts of each file are used.

use std::path::{Path, PathBuf};

use toolrack_host::spec::Source;

use super::{Request, Scope};
use crate::{
    document::Document,
    places::{UsersFiles, project_folders},
    problem::Problem,
    settings::FileOwner,
};

/// The files of a project, the stronger one last.
const PROJECT_FILES: &[&str] = &[".mcp.json", ".toolrack/mcp.json"];

/// The file of a project with rules about calls.
pub(super) const PROJECT_POLICY: &str = ".toolrack/toolrack.toml";

/// A file of a layer.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) scope: Scope,
    pub(super) path: PathBuf,
    /// The folder in which the servers of the file run by default; `None` if each runs in a folder of its own.
    pub(super) folder: Option<PathBuf>,
    /// The problem to report when the file is missing.
    pub(super) missing_problem: Option<Problem>,
    pub(super) used_parts: UsedParts,
    /// The text of a typed configuration without a file; [`Self::path`] then only describes where it was typed.
    pub(super) text: Option<String>,
}

/// The parts of a file that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedParts {
    Servers,
    /// Servers and settings: the user's `toolrack.toml`.
    All,
    /// The settings of the user's `toolrack.toml`, without its servers and agents (`--strict-mcp-config`).
    SettingsAlone,
    /// Only `[policy]`: of a `toolrack.toml` other than the user's.
    Policy,
}

/// Returns the files that are used, the weakest first.
pub(super) fn layers(request: &Request, project: &Path) -> Vec<Layer> {
    let places = &request.places;
    let layer = |scope, path| Layer {
        scope,
        path,
        folder: None,
        missing_problem: None,
        used_parts: UsedParts::Servers,
        text: None,
    };
    let policy_layer = |scope, path| Layer { used_parts: UsedParts::Policy, ..layer(scope, path) };
    let mut layers = Vec::new();
    if request.strict {
        layers.push(Layer { used_parts: UsedParts::SettingsAlone, ..layer(Scope::User, places.settings()) });
    } else {
        layers.push(Layer { used_parts: UsedParts::All, ..layer(Scope::User, places.settings()) });
        layers.push(Layer {
            missing_problem: places
                .user_file_is_chosen()
                .then(|| Problem::warning("the file that `TOOLRACK_MCP_CONFIG` names does not exist")),
            ..layer(Scope::User, places.user_file())
        });
    }
    let servers_layer = |scope, folder: &Path, path| Layer { folder: Some(folder.to_owned()), ..layer(scope, path) };
    let local_file = places.local_file(project);
    let local_policy = local_file.with_file_name("toolrack.toml");
    let users_files = UsersFiles::new([&*places.settings(), &*places.user_file(), &*local_file, &*local_policy]);
    for folder in project_folders(&request.cwd) {
        let files = PROJECT_FILES.iter().filter(|_| !request.strict).map(|file| folder.join(file));
        let files = files.filter(|file| !users_files.contain(file));
        layers.extend(files.map(|file| servers_layer(Scope::Project, &folder, file)));
        let policy_file = folder.join(PROJECT_POLICY);
        if !users_files.contain(&policy_file) {
            layers.push(policy_layer(Scope::Project, policy_file));
        }
    }
    layers.push(policy_layer(Scope::Local, local_policy));
    if !request.strict {
        layers.push(servers_layer(Scope::Local, project, local_file));
    }
    layers.extend(request.mcp_config.iter().map(|path| Layer {
        missing_problem: Some(Problem::error("the file does not exist")),
        ..layer(Scope::CommandLine, request.cwd.join(path))
    }));
    layers.extend(request.typed.iter().map(|typed| Layer {
        text: Some(typed.text.clone()),
        ..layer(Scope::CommandLine, PathBuf::from(&typed.place))
    }));
    layers
}

impl Layer {
    /// Reads the file; `None` when it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn document(&self) -> Result<Option<Document>, Box<Problem>> {
        if let Some(text) = &self.text {
            return Ok(Some(Document::new(Some(self.path.clone()), text)));
        }
        Document::read(&self.path)
    }

    /// Returns the source of the layer's servers. A typed configuration has no file as its source. Its servers are then
    /// distinguished by their commands, so that stored facts about one server do not apply to another.
    pub(super) fn source(&self) -> Source {
        match self.text {
            Some(_) => Source { scope: self.scope.as_str().to_owned(), path: None },
            None => Source::file(self.scope.as_str(), &self.path),
        }
    }

    /// Returns who has written the file: the user, or a project.
    pub(super) fn owner(&self) -> FileOwner {
        if self.scope == Scope::Project { FileOwner::Project } else { FileOwner::User }
    }
}
