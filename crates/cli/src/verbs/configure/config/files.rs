//! Shows the configuration files that `config path` lists.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toolrack_config::Scope;
use toolrack_host::text;

use crate::render::{Cell, Layout, Sign, Tone, columns};

/// A configuration file that is used here, or would be if it existed.
#[derive(Debug, Serialize)]
pub(crate) struct File {
    scope: &'static str,
    path: PathBuf,
    exists: bool,
}

impl File {
    pub(crate) fn new(scope: Scope, path: PathBuf) -> Self {
        Self { scope: scope.as_str(), exists: path.exists(), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns a line for each file. Later files override earlier ones.
pub(crate) fn page(files: &[File], layout: Layout) -> String {
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let (sign, tone) = if file.exists { (Sign::Good, Tone::Good) } else { (Sign::Off, Tone::Faint) };
            let path = text::for_line(&file.path.display().to_string()).into_owned();
            let path = if file.exists { path } else { format!("{path} (not there)") };
            vec![
                Cell::new(tone, layout.sign(sign)),
                Cell::new(Tone::Plain, file.scope),
                Cell::new(if file.exists { Tone::Plain } else { Tone::Faint }, path),
            ]
        })
        .collect();
    columns(&rows).join("\n")
}
