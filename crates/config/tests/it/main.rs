//! Everything below goes through the public API, with real files in a temporary folder.
#![expect(clippy::expect_used, reason = "helpers of tests")]

mod bytes;
mod clients;
mod examples;
mod places;
mod processes;
mod properties;
mod reference;

use std::{fs, path::Path};

use toolrack_config::{Loaded, Places, Request, load, trust::NoLedger};

/// Loads `text` as the user's file of this name.
fn load_text(name: &str, text: impl AsRef<[u8]>) -> Loaded {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join(name);
    fs::write(&path, text).expect("a file");
    load_file(home.path(), &path)
}

fn load_file(home: &Path, path: &Path) -> Loaded {
    let mut request = Request::new(Places::under(home), home);
    request.mcp_config = vec![path.to_owned()];
    request.strict = true;
    load(&request, &NoLedger)
}
