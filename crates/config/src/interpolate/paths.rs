//! Resolves the fields of an entry (the configuration of one server) that are paths: fills in their placeholders, and
//! puts the home folder in the place of a leading `~`.

use std::path::{Path, PathBuf};

use toolrack_host::{
    Confinement, ResolveError,
    spec::{Sandbox, Stdio},
};

use super::Values;
use crate::{home::below_home, placeholder::BareName};

impl Values {
    /// Returns the confinement of a sandbox, with its paths filled in.
    pub(super) fn confinement(&self, sandbox: &Sandbox) -> Result<Confinement, ResolveError> {
        let home = self.environment.get("HOME").map(PathBuf::from);
        let paths = |field: &str, paths: &[String]| {
            let path = |(index, path): (usize, &String)| self.resolve_path(&format!("sandbox.{field}[{index}]"), path);
            paths.iter().enumerate().map(path).collect::<Result<Vec<_>, _>>()
        };
        let read: Vec<PathBuf> = paths("read", &sandbox.read)?;
        let write = paths("write", &sandbox.write)?;
        Ok(Confinement { read, write, home, ..sandbox.confinement() })
    }

    /// Returns the path `path`, the value of `field`, with its placeholders and a leading `~` replaced.
    pub(super) fn resolve_path(&self, field: &str, path: &str) -> Result<PathBuf, ResolveError> {
        let path = self.resolve(field, path, BareName::Literal)?;
        let Some(rest) = below_home(&path) else { return Ok(path.into()) };
        let home = self.environment.home().ok_or_else(|| {
            ResolveError::new(format!("`{field}`: `~` is the home folder, and none is known; set the variable HOME"))
        })?;
        Ok(home.join(rest))
    }

    /// As [`Self::resolve_path`], for a path that must be text.
    pub(super) fn resolve_text_path(&self, field: &str, path: &str) -> Result<String, ResolveError> {
        let path = self.resolve_path(field, path)?;
        path.into_os_string().into_string().map_err(|_| ResolveError::new(format!("`{field}` is not UTF-8 text")))
    }

    /// Returns the command and the working folder of `spec`. In a container, both are paths in its image, where `~` has
    /// no meaning.
    pub(super) fn program(&self, spec: &Stdio) -> Result<(String, Option<PathBuf>), ResolveError> {
        let resolve = |field: &str, text: &str| match spec.container {
            Some(_) => self.resolve(field, text, BareName::Literal),
            None => self.resolve_text_path(field, text),
        };
        let command = resolve("command", &spec.command)?;
        let folder = match spec.cwd.as_deref().and_then(Path::to_str) {
            Some(text) => Some(resolve("cwd", text)?.into()),
            None => spec.cwd.clone(),
        };
        Ok((command, folder))
    }
}
