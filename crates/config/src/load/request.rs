//! Defines the inputs of [`load`](super::load()): which files to read, and for which agent.

use std::path::{Path, PathBuf};

use toolrack_host::Desired;

use crate::{document::Document, model::CheckName, places::Places, problem::Problem};

/// A configuration without a file that could be read again: JSON on the command line or from a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedConfig {
    /// The place where it was typed, for problems: `--mcp-config`, `stdin`, the name of a pipe.
    pub place: String,
    /// The JSON, in the format of a file of servers.
    pub text: String,
}

impl TypedConfig {
    /// Reads `path` now if it gives its content only once: a pipe, such as that of `<(command)`, or a device. Such a
    /// path must not be in [`Request::mcp_config`], whose files are read again with each loading. Returns `None` for a
    /// regular file, a folder, and a path that does not exist. Blocks until the writer closes the pipe.
    ///
    /// # Errors
    /// When it cannot be read, is larger than 4 MiB, or is not UTF-8 text.
    pub fn read_stream(path: &Path) -> Result<Option<Self>, Box<Problem>> {
        let document = Document::read_stream(path)?;
        Ok(document.map(|document| Self { place: path.display().to_string(), text: document.text }))
    }
}

/// The inputs of loading.
#[derive(Clone, Debug)]
pub struct Request {
    /// The user's folders and files.
    pub places: Places,
    /// The working folder, which decides the project.
    pub cwd: PathBuf,
    /// Files named on the command line (`--mcp-config`), the strongest last. A missing file is an error, and so is
    /// anything but a regular file; [`TypedConfig::read_stream`] reads pipes.
    pub mcp_config: Vec<PathBuf>,
    /// Configurations that were typed or piped, stronger than every file.
    pub typed: Vec<TypedConfig>,
    /// Use only the servers of [`Self::mcp_config`], [`Self::typed`] and the built-in ones (`--strict-mcp-config`).
    /// Rules about calls and the settings of the model still apply.
    pub strict: bool,
    /// Servers that are built into the program. They are the weakest layer: files can replace or disable them.
    pub built_in: Desired,
    /// Servers that a member of a team has added, if the configuration is loaded for that member. Files can replace
    /// them.
    pub of_member: Desired,
    /// The agent whose own servers (`[[agents.mcp]]`) replace all others of the same name. It is an error if no file
    /// defines the agent.
    pub agent: Option<String>,
    /// Checks whether a text names a model. Without it, every text does.
    pub check_model: Option<CheckName>,
}

impl Request {
    /// Creates a request for everything that is configured for `cwd`.
    pub fn new(places: Places, cwd: impl Into<PathBuf>) -> Self {
        Self {
            places,
            cwd: cwd.into(),
            mcp_config: Vec::new(),
            typed: Vec::new(),
            strict: false,
            built_in: Desired::new(),
            of_member: Desired::new(),
            agent: None,
            check_model: None,
        }
    }
}
