//! Configurations as the sources and the documentation of other programs show them.

use std::fs;

use serde_json::json;
use toolrack_config::{
    Loaded, Severity,
    edit::{self, Options, Revision},
};
use toolrack_host::spec::{InheritEnv, Transport};

use super::load_text;

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.desired.keys().map(|name| name.as_str()).collect()
}

macro_rules! example {
    ($file:literal) => {
        load_text($file, include_str!(concat!("examples/", $file)))
    };
}

/// The names of the servers of a configuration without problems.
fn names_without_problems(loaded: &Loaded) -> Vec<&str> {
    assert!(loaded.problems.is_empty(), "{:#?}", loaded.problems);
    names(loaded)
}

#[test]
fn configurations_of_other_programs_load_as_written() {
    assert_eq!(names_without_problems(&example!("spacebot.toml")), ["filesystem", "sentry"]);
    assert_eq!(names_without_problems(&example!("qbit-claude.json")), ["remote-server", "server-name"]);
    assert_eq!(names_without_problems(&example!("qbit-user.json")), ["filesystem", "github"]);
    assert_eq!(names_without_problems(&example!("qbit-project.json")), ["internal-api", "project-db"]);
    assert_eq!(names_without_problems(&example!("wave.json")), ["my-server"]);
    assert_eq!(names_without_problems(&example!("synapse.json")), ["filesystem"]);
    assert_eq!(names_without_problems(&example!("tavernkit.json")), ["local", "remote"]);
}

#[test]
fn placeholders_are_kept_as_written() {
    let loaded = example!("spacebot.toml");
    let Transport::Http(http) = &loaded.desired["sentry"].transport else { panic!() };
    assert_eq!(http.headers["Authorization"], "Bearer ${SENTRY_TOKEN}");
}

#[test]
fn a_vs_code_file_loads_except_for_its_inputs() {
    let loaded = example!("vscode.json");
    assert_eq!(names(&loaded), ["github", "playwright"]);
    let [problem] = &*loaded.problems else { panic!("{:#?}", loaded.problems) };
    assert_eq!((problem.entry.as_deref(), problem.line), (Some("perplexity"), Some(20)));
    assert_eq!(problem.field.as_deref(), Some("env.PERPLEXITY_API_KEY"));
}

#[test]
fn a_file_of_codex_loads_with_the_field_names_of_codex() {
    let loaded = example!("codex.toml");
    assert_eq!(names_without_problems(&loaded), ["context7", "figma"]);
    let context7 = &loaded.desired["context7"];
    assert_eq!((context7.timeouts.startup.as_secs(), context7.timeouts.call.as_secs()), (20, 90));
    let Transport::Stdio(stdio) = &context7.transport else { panic!() };
    assert_eq!(stdio.inherit_env, InheritEnv::Names(vec!["LOCAL_TOKEN".into()]));
    let figma = &loaded.desired["figma"];
    assert!(!figma.enabled);
    assert_eq!((figma.tools.allow().len(), figma.tools.deny().len()), (2, 1));
    let Transport::Http(http) = &figma.transport else { panic!() };
    assert_eq!(http.headers["Authorization"], "Bearer ${FIGMA_OAUTH_TOKEN}");
}

#[test]
fn files_of_windsurf_and_gemini_load_with_their_own_field_names() {
    let loaded = example!("windsurf.json");
    assert_eq!(names_without_problems(&loaded), ["github", "remote"]);
    assert_eq!(loaded.desired["github"].tools.deny(), ["delete_*"]);
    assert!(!loaded.desired["remote"].enabled);

    let loaded = example!("gemini.json");
    assert_eq!(names(&loaded), ["discoveredServer", "googleCloudServer", "httpServer", "pythonTools"]);
    assert_eq!(loaded.desired["pythonTools"].timeouts.call.as_secs(), 15);
    assert!(loaded.problems.iter().all(|problem| problem.severity == Severity::Warning));
    let fields: Vec<_> = loaded.problems.iter().filter_map(|problem| problem.field.as_deref()).collect();
    assert_eq!(fields, ["trust", "authProviderType"]);
}

#[test]
fn no_view_holds_a_literal_secret() {
    let loaded = load_text(
        "mcp.json",
        r#"{ "mcpServers": {
            "a": { "command": "x", "args": ["--api-key=canary"], "env": { "K": "canary", "L": "canary " } },
            "b": { "url": "https://u:canary@h/", "headers": { "X": "canary", "Y": "canary\n" } },
            "c": { "command": "canary", "url": "https://u:canary@h", "env": { "K": ["canary"] } }
        } }"#,
    );
    let shown: String = loaded
        .entries
        .iter()
        .map(|entry| entry.view.to_string())
        .chain(loaded.problems.iter().map(ToString::to_string))
        .collect();
    assert!(loaded.problems.len() >= 3, "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn revising_an_entry_writes_nothing_without_a_change_and_only_the_lines_of_a_changed_field() {
    let examples = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/examples")).expect("a folder");
    let mut entries = 0;
    for example in examples {
        let example = example.expect("a file").path();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(example.file_name().expect("a name"));
        let text = fs::read_to_string(&example).expect("a text");
        fs::write(&path, &text).expect("a file");
        let read = || {
            super::load_text(
                example.file_name().and_then(|name| name.to_str()).expect("a name"),
                fs::read_to_string(&path).expect("a text"),
            )
        };
        for entry in read().entries.iter().filter(|entry| entry.is_valid && !entry.source.to_string().contains("built"))
        {
            entries += 1;
            let case = format!("{} in {}", entry.name, example.display());
            let revise = |changed: &serde_json::Value| {
                let revision = Revision { shown: &entry.view, entry: changed, shown_hash: Some(&entry.hash) };
                edit::revise(&path, &entry.name, &revision, Options::default()).expect(&case)
            };
            assert_eq!(revise(&entry.view).diff, "", "{case}");
            let mut changed = entry.view.clone();
            changed["enabled"] = json!(!entry.enabled);
            let edited = revise(&changed);
            assert!(
                edited.diff.lines().filter(|line| line.starts_with(['+', '-'])).count() <= 6,
                "{case}: {}",
                edited.diff
            );
            let mut now = read().entry(&entry.name).expect("an entry").view.clone();
            let mut before = entry.view.clone();
            for view in [&mut now, &mut before] {
                view.as_object_mut().expect("an object").shift_remove("enabled");
            }
            assert_eq!(now, before, "{case}");
            fs::write(&path, &text).expect("a file");
        }
    }
    assert!(entries >= 20, "{entries}");
}
