//! Checks configuration files without using them.

use super::{
    Loaded, Request, Scope,
    layers::{Layer, PROJECT_POLICY, UsedParts, layers},
    load_layers,
};
use crate::{
    places::{UsersFiles, project_root},
    trust::NoLedger,
};

/// Reads the files that `request` names ([`Request::mcp_config`], [`Request::typed`]) and no others, to find their
/// mistakes. It reads all settings of a file called `toolrack.toml`, but only `[policy]` of a project's file
/// (`.toolrack/toolrack.toml`). The user's own settings may have that name, too, as with `TOOLRACK_HOME=~/.toolrack`.
#[must_use]
pub fn check(request: &Request) -> Loaded {
    let project = project_root(&request.cwd);
    let named_layers = layers(request, &project).into_iter().filter(|layer| layer.scope == Scope::CommandLine);
    let users_settings = UsersFiles::new([&*request.places.settings()]);
    let named_layers = named_layers.map(|layer| {
        if layer.path.ends_with(PROJECT_POLICY) && !users_settings.contain(&layer.path) {
            Layer { scope: Scope::Project, used_parts: UsedParts::Policy, ..layer }
        } else if layer.path.file_name().is_some_and(|name| name == "toolrack.toml") {
            Layer { used_parts: UsedParts::All, ..layer }
        } else {
            layer
        }
    });
    load_layers(request, named_layers.collect(), project, &NoLedger)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::Places;

    #[test]
    fn named_files_are_checked_with_their_settings_and_no_other_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        write("home/toolrack.toml", "unset = \"canary\"\n");
        write("good.json", r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
        write("new/toolrack.toml", "[[defaults.mcp]]\nname = \"a\"\ncommand = \"x\"\n[policy]\ndenny = \"a/*\"\n");
        write(".toolrack/toolrack.toml", "pins = \"off\"\n[policy]\nallow = \"a/*\"\n");
        let fields_with_home = |home: &str, files: &[&str]| -> Vec<String> {
            let mcp_config: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            let request = Request { mcp_config, ..Request::new(Places::under(root.join(home)), &root) };
            check(&request).problems.into_iter().filter_map(|problem| problem.field).collect()
        };
        let fields = |files: &[&str]| fields_with_home("home", files);
        assert_eq!(fields(&["good.json"]), [""; 0], "other files are not read");
        assert_eq!(fields(&["good.json", "new/toolrack.toml"]), ["policy.denny"]);
        assert_eq!(fields(&[".toolrack/toolrack.toml"]), ["pins", "policy.allow"], "a project can only forbid");
        let users_own = fields_with_home(".toolrack", &[".toolrack/toolrack.toml"]);
        assert_eq!(users_own, [""; 0], "the user's own settings, in a folder of that name");
        assert!(
            !check(&Request { mcp_config: vec!["none.json".into()], ..Request::new(Places::under(&root), &root) })
                .is_complete
        );
    }
}
