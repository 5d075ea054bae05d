use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::verbs::about_program::script::script;

/// A folder with a user's files, and the project `work` in which the user presses TAB.
struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    fn new(servers: serde_json::Value) -> Self {
        let test_folder = Self { folder: tempfile::tempdir().unwrap() };
        test_folder.write("mcp.json", &json!({ "mcpServers": servers }).to_string());
        std::fs::create_dir(test_folder.work()).unwrap();
        test_folder
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// The completions of the last of these words.
    fn offers_in(&self, shell: Shell, words: &[&str]) -> Vec<String> {
        let home = self.folder.path().to_str().unwrap();
        let index = words.len().to_string();
        let environment = Environment::new([("HOME", home), ("TOOLRACK_HOME", home), (INDEX, index.as_str())]);
        let words: Vec<OsString> = ["toolrack", "--", "toolrack"].iter().chain(words).map(Into::into).collect();
        let mut answer = Vec::new();
        answer_to(shell, &words, &environment, &self.work(), &mut answer).unwrap();
        String::from_utf8(answer).unwrap().lines().map(str::to_owned).collect()
    }

    fn offers(&self, words: &[&str]) -> Vec<String> {
        self.offers_in(Shell::Bash, words)
    }
}

fn test_folder() -> TestFolder {
    TestFolder::new(json!({
        "fs": { "command": "x" },
        "web": { "url": "https://example.com/mcp" },
        "off": { "command": "x", "enabled": false },
    }))
}

#[test]
fn an_argument_whose_name_says_what_it_takes_is_completed() {
    fn unlisted(command: &clap::Command, found: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let names = arg.get_value_names().unwrap_or_default();
            let words = names.iter().flat_map(|name| name.split(|letter: char| !letter.is_ascii_uppercase()));
            let says_what = words.into_iter().any(|word| SAID.contains(&word));
            if says_what && offer::value_kind(arg) == Some(ValueKind::Nothing) {
                found.push(format!("{}: {arg}", command.get_name()));
            }
        }
        command.get_subcommands().for_each(|command| unlisted(command, found));
    }
    const SAID: &[&str] =
        &["AGENT", "DIR", "FILE", "PROMPT", "RESOURCE", "SECRET", "SERVER", "SESSION", "TOOL", "VARIABLE"];
    let mut command = Cli::command();
    command.build();
    let mut found = Vec::new();
    unlisted(&command, &mut found);
    assert!(found.is_empty(), "say in completion/offer.rs what is offered for the value names of {found:#?}");
}

#[test]
fn servers_are_offered_as_they_are_configured_now() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["list", ""]), ["builtin", "fs", "off", "web"]);
    test_folder.write("mcp.json", r#"{ "mcpServers": { "new": { "command": "x" } } }"#);
    assert_eq!(test_folder.offers(&["list", "n"]), ["new"]);
}

#[test]
fn sessions_are_offered_with_the_newest_first_and_their_titles() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["sessions", "show", "l"]), [] as [&str; 0], "there is no database");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let prefixes: Vec<String> = runtime.block_on(async {
        let store = toolrack_store::Store::open(test_folder.folder.path().join("toolrack.db")).await.unwrap();
        for title in ["Invoices\u{1b}[2J", "Files"] {
            let new = toolrack_store::NewSession { title: title.to_owned(), ..Default::default() };
            store.create_session(&new).await.unwrap();
        }
        let query = toolrack_store::SessionQuery { limit: 9, ..Default::default() };
        let sessions = store.sessions(&query).await.unwrap();
        store.close().await;
        sessions.into_iter().map(|session| session.prefix).collect()
    });
    let all = [prefixes[0].as_str(), prefixes[1].as_str(), "last"];
    assert_eq!(test_folder.offers(&["sessions", "show", ""]), all);
    assert_eq!(test_folder.offers(&["sessions", "delete", prefixes[0].as_str(), &prefixes[1]]), [prefixes[1].as_str()]);
    let described = test_folder.offers_in(Shell::Fish, &["sessions", "export", ""]);
    let expected =
        [format!("{}\tFiles", all[0]), format!("{}\tInvoices\\u{{1b}}[2J", all[1]), "last\tFiles".to_owned()];
    assert_eq!(described, expected);
}

#[test]
fn a_tool_is_offered_in_two_steps() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["call", "b"]), ["builtin/"]);
    assert_eq!(test_folder.offers(&["call", "builtin/l"]), ["builtin/list_directory"]);
    assert_eq!(test_folder.offers(&["why", "fs/"]), [] as [&str; 0], "it was never connected");
    assert_eq!(test_folder.offers(&["prompt", "f"]), ["fs/"]);
}

#[test]
fn a_command_that_is_recorded_is_completed_like_any_other() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["record", "tape", "reso"]), ["resources"]);
    assert_eq!(test_folder.offers(&["replay", "tape", "call", "builtin/l"]), ["builtin/list_directory"]);
    assert_eq!(test_folder.offers(&["record", "tape", "call", "builtin/read_text_file", "pa"]), ["path="]);
    assert_eq!(test_folder.offers(&["record", "--max-s"]), ["--max-size"]);
}

#[test]
fn arguments_of_a_tool_are_offered_by_name() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["call", "builtin/read_text_file", ""]), ["path=", "head=", "tail="]);
    assert_eq!(
        test_folder.offers(&["call", "--timeout", "2s", "builtin/search_files", "path=.", "pa"]),
        ["pattern=", "path="]
    );
    let nothing_else = test_folder.offers(&["call", "builtin/nope", ""]);
    assert!(nothing_else.iter().all(|offer| offer.starts_with("--")), "{nothing_else:?}");
}

#[test]
fn commands_below_others_have_arguments_of_a_tool_too() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["policy", "test", "builtin/read_text_file", ""]), ["path=", "head=", "tail="]);
    test_folder.write("work/more.json", r#"{ "mcpServers": { "more": { "command": "x" } } }"#);
    assert_eq!(test_folder.offers(&["policy", "--mcp-config", "more.json", "test", "m"]), ["more/"]);
}

#[test]
fn a_server_is_offered_and_behind_it_its_tools_where_both_are_shown() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["tools", "b"]), ["builtin"]);
    assert_eq!(test_folder.offers(&["tools", "builtin/l"]), ["builtin/list_directory"]);
}

#[test]
fn the_names_of_secrets_are_offered_without_their_key() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["secret", "rm", "g"]), [] as [&str; 0], "there is no database");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = toolrack_store::Store::open(test_folder.folder.path().join("toolrack.db")).await.unwrap();
        let key = toolrack_store::VaultKey::from_bytes([7; 32]);
        let vault = toolrack_store::Vault::open(&store, key).await.unwrap();
        for name in ["github", "gitlab"] {
            vault.put(toolrack_store::Space::Secret, name, b"canary").await.unwrap();
        }
        store.close().await;
    });
    assert_eq!(test_folder.offers(&["secret", "rm", "git"]), ["github", "gitlab"]);
    assert_eq!(test_folder.offers(&["secret", "set", "githu"]), ["github"]);
}

#[test]
fn options_are_offered_when_one_is_begun() {
    let test_folder = test_folder();
    assert_eq!(test_folder.offers(&["call", "--no"]), ["--no-validate", "--no-input", "--no-daemon"]);
    assert_eq!(test_folder.offers(&["add", "--scope", ""]), ["user", "project", "local"]);
    assert_eq!(test_folder.offers(&["add", "x", "-t", "h"]), ["http"]);
    assert_eq!(test_folder.offers(&["completions", "z"]), ["zsh"]);
    assert_eq!(test_folder.offers(&["add", "--env", "TOOLRACK_H"]), ["TOOLRACK_HOME"]);
    assert_eq!(test_folder.offers(&["config", "path", "--scope", "l"]), ["local"]);
    test_folder.write("toolrack.toml", "[[agents]]\nid = \"coder\"\n[[agents.mcp]]\nname = \"own\"\ncommand = \"x\"\n");
    assert_eq!(test_folder.offers(&["--agent", "c"]), ["coder"]);
    assert_eq!(test_folder.offers(&["--agent", "coder", "list", "o"]), ["off", "own"]);
}

#[test]
fn files_that_are_named_on_the_line_count() {
    let test_folder = test_folder();
    test_folder.write("work/more.json", r#"{ "mcpServers": { "more": { "command": "x" } } }"#);
    assert_eq!(test_folder.offers(&["--mcp-config", "more.json", "list", "m"]), ["more"]);
    assert_eq!(test_folder.offers(&["list", "--mcp-config=more.json", "m"]), ["more"]);
    let strict = ["list", "--strict-mcp-config", "--mcp-config", "more.json", ""];
    assert_eq!(test_folder.offers(&strict), ["builtin", "more"]);
    assert_eq!(test_folder.offers(&["--mcp-config", "nope.json", "list", "f"]), ["fs"]);
    assert_eq!(test_folder.offers(&["--mcp-config", "~/work/more.json", "list", "m"]), ["more"]);
    assert_eq!(test_folder.offers(&["--mcp-config", "/dev/stdin", "list", "f"]), ["fs"]);
}

#[test]
fn names_of_files_are_offered_where_the_shell_does_not_do_it() {
    let test_folder = test_folder();
    test_folder.write("work/more.json", "{}");
    std::fs::create_dir(test_folder.work().join("src")).unwrap();
    assert_eq!(test_folder.offers_in(Shell::Fish, &["--mcp-config", ""]), ["more.json", "src/"]);
    assert_eq!(test_folder.offers_in(Shell::Fish, &["call", "builtin/file_info", "path=m"]), ["path=more.json"]);
    assert_eq!(test_folder.offers_in(Shell::Fish, &["--root", ""]), [".", "src/"]);
    assert_eq!(test_folder.offers(&["--mcp-config", ""]), [] as [&str; 0]);
}

#[test]
fn completion_offers_only_plain_names_of_a_project() {
    let test_folder = test_folder();
    let hostile = json!({ "mcpServers": {
        "theirs": { "command": "x", "args": ["canary"] },
        "$(touch pwned)": { "command": "x" },
        "`id`": { "command": "x" },
        "-rf": { "command": "x" },
        "a b": { "command": "x" },
        "*": { "command": "x" },
    } });
    test_folder.write("work/.mcp.json", &hostile.to_string());
    // The other shells pass the words through the environment of the process; other tests drive them for real.
    for shell in [Shell::Bash, Shell::Fish, Shell::Powershell] {
        let offers = test_folder.offers_in(shell, &["list", ""]).join("\n");
        assert!(offers.contains("theirs"), "{shell:?}: {offers}");
        for bad in ["canary", "pwned", "`", "-rf", "a b", "*"] {
            assert!(!offers.contains(bad), "{shell:?}: {offers}");
        }
    }
    // The state after it was connected once and the approval was revoked.
    let data = CompletionData::new(
        Environment::new([("TOOLRACK_HOME", test_folder.folder.path())]),
        test_folder.work(),
        &Global::default(),
    );
    data.note_a_tool("theirs");
    for line in [&["call", "theirs/"][..], &["prompt", "theirs/"], &["read", "theirs", "x"]] {
        assert_eq!(test_folder.offers(line), [] as [&str; 0]);
    }
}

#[test]
fn a_tool_that_was_seen_is_offered_until_its_entry_changes() {
    let test_folder = test_folder();
    let data = CompletionData::new(
        Environment::new([("TOOLRACK_HOME", test_folder.folder.path())]),
        test_folder.work(),
        &Global::default(),
    );
    data.note_a_tool("fs");
    assert_eq!(test_folder.offers(&["call", "fs/"]), ["fs/seen"]);
    assert_eq!(test_folder.offers(&["call", "fs/seen", ""]), ["mode="]);
    assert_eq!(test_folder.offers(&["call", "fs/seen", "mode=f"]), ["mode=fast"]);
    assert_eq!(test_folder.offers(&["read", "fs", "x"]), ["x://seen"]);
    assert_eq!(test_folder.offers(&["read", "web", "x"]), [] as [&str; 0]);
    assert_eq!(test_folder.offers(&["prompt", "fs/"]), ["fs/greet"]);
    assert_eq!(test_folder.offers(&["prompt", "fs/greet", "w"]), ["who="]);
    assert_eq!(test_folder.offers(&["call", "fs/greet", "w"]), [] as [&str; 0], "that is not a tool");
    test_folder.write("mcp.json", r#"{ "mcpServers": { "fs": { "command": "x", "args": ["changed"] } } }"#);
    for line in [&["call", "fs/"][..], &["prompt", "fs/"], &["read", "fs", "x"]] {
        assert_eq!(test_folder.offers(line), [] as [&str; 0]);
    }
}

#[test]
fn nonsense_offers_nothing_and_fails_nothing() {
    let test_folder = test_folder();
    test_folder.write("mcp.json", "{ broken");
    assert_eq!(test_folder.offers(&["list", ""]), ["builtin"]);
    for words in [["nope", ""], ["call", "$("], ["call", "'"], ["--", ""], ["-", "-"], ["\u{fffd}", "\u{1b}"]] {
        for shell in [Shell::Bash, Shell::Fish, Shell::Powershell] {
            let _ = test_folder.offers_in(shell, &words);
        }
    }
    let words: Vec<OsString> = vec!["toolrack".into()];
    let environment = Environment::new([("TOOLRACK_HOME", test_folder.folder.path())]);
    let _ = answer_to(Shell::Bash, &words, &environment, &test_folder.work(), &mut Vec::new());
}

#[test]
fn a_script_calls_the_program_that_printed_it() {
    let folder = Some(Path::new("/home/ada"));
    for shell in Shell::value_variants() {
        let by_name = script(*shell, OsStr::new("toolrack"), folder);
        assert!(by_name.contains("toolrack") && !by_name.contains("/home/ada"), "{by_name}");
        let by_path = script(*shell, OsStr::new("my tools/toolrack"), folder);
        assert!(by_path.contains("'/home/ada/my tools/toolrack'"), "{by_path}");
        assert!(by_path.contains(VARIABLE), "{by_path}");
        for placeholder in ["NAME ", " NAME", "VARIABLE", "PROGRAM", "Invoke-Expression"] {
            assert!(!by_path.contains(placeholder), "{by_path}");
        }
    }
}

#[test]
fn a_path_with_quotes_is_one_word_in_the_script() {
    let path = OsStr::new(r"/it's \here/toolrack");
    let of = |shell| script(shell, path, None);
    assert!(of(Shell::Fish).contains(r"'/it\'s \\here/toolrack' --"));
    assert!(of(Shell::Powershell).contains(r"'/it''s \here/toolrack' --"));
    assert!(of(Shell::Elvish).contains(r"'/it''s \here/toolrack' --"));
    assert!(of(Shell::Bash).contains(r"'/it'\''s \here/toolrack' --"));
}
