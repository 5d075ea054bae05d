mod fields;
mod mistakes;

use std::fs;

use serde_json::json;

use super::*;

/// A home with a project in it, both empty.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(disk.project().join(".git")).unwrap();
        disk
    }

    fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn project(&self) -> PathBuf {
        self.home().join("code/shop")
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) -> &Self {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn environment(&self) -> Environment {
        Environment::new([("HOME", self.home())])
    }

    fn look(&self, client: Client) -> Found {
        look(&self.environment(), &self.project(), &[client])
    }
}

/// The one entry of the user's file of `client`.
fn entry_in(client: Client, path: &str, text: &str) -> (Json, Vec<String>) {
    let disk = Disk::new();
    disk.write(path, text);
    let mut found = disk.look(client);
    assert!(found.problems.is_empty(), "{:#?}", found.problems);
    assert_eq!(found.offers.len(), 1, "{found:#?}");
    let offer = found.offers.remove(0);
    (offer.entry, offer.notes)
}

fn claude(entry: &Json) -> (Json, Vec<String>) {
    entry_in(Client::ClaudeCode, ".claude.json", &json!({ "mcpServers": { "x": entry } }).to_string())
}

fn cursor(entry: &Json) -> (Json, Vec<String>) {
    entry_in(Client::Cursor, ".cursor/mcp.json", &json!({ "mcpServers": { "x": entry } }).to_string())
}

fn gemini(entry: &Json) -> (Json, Vec<String>) {
    entry_in(Client::Gemini, ".gemini/settings.json", &json!({ "mcpServers": { "x": entry } }).to_string())
}

fn opencode(entry: &Json) -> (Json, Vec<String>) {
    entry_in(Client::OpenCode, ".config/opencode/opencode.json", &json!({ "mcp": { "x": entry } }).to_string())
}

fn zed(entry: &Json) -> (Json, Vec<String>) {
    entry_in(Client::Zed, ".config/zed/settings.json", &json!({ "context_servers": { "x": entry } }).to_string())
}

fn codex(fields: &str) -> (Json, Vec<String>) {
    entry_in(Client::Codex, ".codex/config.toml", &format!("[mcp_servers.x]\n{fields}\n"))
}

#[test]
fn an_empty_home_has_no_programs_to_import_from() {
    let found = look(&Disk::new().environment(), Path::new("/nonexistent"), Client::ALL);
    assert!(found.offers.is_empty() && found.problems.is_empty() && found.files.is_empty());
    let found = look(&Environment::default(), Path::new("/nonexistent"), Client::ALL);
    assert!(found.offers.is_empty() && found.problems.is_empty());
}

#[test]
fn a_server_is_offered_with_where_it_comes_from() {
    let disk = Disk::new();
    disk.write(
        ".cursor/mcp.json",
        "{\n  \"mcpServers\": {\n    \"gh\": { \"command\": \"gh-mcp\", \"env\": { \"T\": \"canary\" } }\n  }\n}",
    );
    let found = disk.look(Client::Cursor);
    assert_eq!(found.files, [disk.home().join(".cursor/mcp.json")]);
    let [offer] = &*found.offers else { panic!("{found:#?}") };
    assert_eq!((offer.client, &*offer.name, offer.line), (Client::Cursor, "gh", Some(3)));
    assert_eq!(offer.entry, json!({ "command": "gh-mcp", "env": { "T": "canary" } }));
    assert!(!offer.view.to_string().contains("canary"), "{}", offer.view);
    assert_eq!(offer.hash, crate::trust::content_hash(&offer.entry));
    assert!(!offer.from_project && offer.notes.is_empty());
    assert_eq!(found.named("gh").count(), 1);
}

#[test]
fn a_file_of_the_project_is_a_proposal_and_comes_before_the_user_s() {
    let disk = Disk::new();
    let server = |command: &str| json!({ "mcpServers": { "x": { "command": command } } }).to_string();
    disk.write(".cursor/mcp.json", &server("user")).write("code/shop/.cursor/mcp.json", &server("project"));
    disk.write("code/.cursor/mcp.json", &server("outside"));
    let found = disk.look(Client::Cursor);
    let offers: Vec<_> =
        found.offers.iter().map(|offer| (offer.entry["command"].clone(), offer.from_project)).collect();
    assert_eq!(offers, [(json!("project"), true), (json!("user"), false)]);
}

#[test]
fn a_home_that_is_its_own_project_is_the_user_s_and_read_once() {
    let disk = Disk::new();
    disk.write(".cursor/mcp.json", r#"{ "mcpServers": { "x": { "command": "x" } } }"#);
    let found = look(&disk.environment(), &disk.home(), &[Client::Cursor]);
    assert_eq!(found.offers.len(), 1);
    assert!(!found.offers[0].from_project);
}

#[test]
fn claude_code_has_private_servers_for_a_folder() {
    let disk = Disk::new();
    let (shop, home) = (disk.project(), disk.home());
    let file = json!({
        "numStartups": 3,
        "mcpServers": { "everywhere": { "type": "stdio", "command": "e" }, "quiet": { "command": "q" } },
        "projects": {
            shop.to_str().unwrap(): { "mcpServers": { "near": { "command": "near" } }, "disabledMcpServers": ["quiet"] },
            home.to_str().unwrap(): { "mcpServers": { "near": { "command": "far" }, "far": { "command": "far" } } },
            "/elsewhere": { "mcpServers": { "other": { "command": "o" } } },
        },
    });
    disk.write(".claude.json", &file.to_string());
    // `.mcp.json` is a layer of our own.
    disk.write("code/shop/.mcp.json", r#"{ "mcpServers": { "layer": { "command": "x" } } }"#);
    let found = disk.look(Client::ClaudeCode);
    let offers: Vec<_> =
        found.offers.iter().map(|offer| (&*offer.name, offer.entry["command"].as_str().unwrap())).collect();
    assert_eq!(offers, [("near", "near"), ("far", "far"), ("everywhere", "e"), ("quiet", "q")]);
    assert!(found.offers.iter().all(|offer| !offer.from_project));
    assert_eq!(found.offers[3].entry["enabled"], json!(false));
    assert!(found.offers[3].notes[0].contains("disabledMcpServers"));
}

#[test]
fn variables_say_where_files_are() {
    let disk = Disk::new();
    let server = r#"{ "mcpServers": { "x": { "command": "x" } } }"#;
    disk.write("claude/.claude.json", server).write("xdg/Claude/claude_desktop_config.json", server);
    disk.write("codex/config.toml", "[mcp_servers.x]\ncommand = \"x\"");
    disk.write("oc.json", r#"{ "mcp": { "x": { "type": "local", "command": ["x"] } } }"#);
    let at = |path: &str| disk.home().join(path);
    let environment = Environment::new([
        ("HOME", at("none")),
        ("CLAUDE_CONFIG_DIR", at("claude")),
        ("XDG_CONFIG_HOME", at("xdg")),
        ("CODEX_HOME", at("codex")),
        ("OPENCODE_CONFIG", at("oc.json")),
    ]);
    let found = look(&environment, &disk.project(), Client::ALL);
    let clients: Vec<_> = found.offers.iter().map(|offer| offer.client).collect();
    assert_eq!(clients, [Client::ClaudeCode, Client::ClaudeDesktop, Client::Codex, Client::OpenCode], "{found:#?}");
}

#[test]
fn the_folders_of_macos_are_looked_at_too() {
    let disk = Disk::new();
    let base = "Library/Application Support";
    disk.write(format!("{base}/Claude/claude_desktop_config.json"), r#"{ "mcpServers": { "d": { "command": "x" } } }"#);
    disk.write(format!("{base}/Code - Insiders/User/mcp.json"), r#"{ "servers": { "i": { "command": "x" } } }"#);
    disk.write(
        format!("{base}/VSCodium/User/settings.json"),
        r#"{ "mcp": { "servers": { "v": { "command": "x" } } } }"#,
    );
    disk.write(format!("{base}/VSCodium/User/profiles/-1f/mcp.json"), r#"{ "servers": { "p": { "command": "x" } } }"#);
    let found = look(&disk.environment(), &disk.project(), Client::ALL);
    assert_eq!(found.offers.iter().map(|offer| &*offer.name).collect::<Vec<_>>(), ["d", "i", "v", "p"]);
}

#[test]
fn a_timeout_keeps_the_meaning_of_the_other_program() {
    let server = |timeout: Json| json!({ "command": "x", "timeout": timeout });
    let (entry, _) = claude(&server(json!(600_000)));
    assert_eq!(entry, json!({ "command": "x", "call_timeout": 600, "max_call_time": 600 }));
    let (entry, notes) = claude(&server(json!(30)));
    assert_eq!(entry, json!({ "command": "x" }));
    assert!(notes[0].contains("below 1000 ms"), "{notes:?}");
    let (entry, _) = gemini(&server(json!(1500)));
    let bound = json!("1500ms");
    assert_eq!(
        entry,
        json!({ "command": "x", "startup_timeout": bound, "list_timeout": bound, "call_timeout": bound })
    );
    let (entry, _) = opencode(&json!({ "type": "local", "command": ["x"], "timeout": 5000 }));
    assert_eq!(entry, json!({ "type": "stdio", "command": "x", "startup_timeout": 5, "list_timeout": 5 }));
    let (entry, _) = opencode(&json!({
        "type": "local", "command": ["x"], "timeout": { "startup": 1, "catalog": 2000, "execution": 90_000 },
    }));
    assert_eq!(
        entry,
        json!({ "type": "stdio", "command": "x", "startup_timeout": "1ms", "list_timeout": 2, "call_timeout": 90 })
    );
    let (entry, notes) = gemini(&server(json!(999_999_999)));
    assert_eq!(entry["call_timeout"], json!(86_400));
    assert!(notes[0].contains("24 hours"), "{notes:?}");
    let (entry, notes) = cursor(&server(json!(5)));
    assert_eq!(entry, json!({ "command": "x" }));
    assert_eq!(notes, ["`timeout` is left out: it is not a known field"]);
    for nonsense in [json!("soon"), json!(0), json!(-1), json!(1e-9)] {
        assert_eq!(gemini(&server(nonsense)).1, ["`timeout` is left out: it is not a time"]);
    }
}

#[test]
fn an_address_keeps_the_meaning_of_the_other_program() {
    let kind = |(entry, _): (Json, Vec<String>)| entry["type"].as_str().unwrap().to_owned();
    let url = json!({ "url": "https://x/mcp" });
    assert_eq!(kind(gemini(&url)), "sse");
    assert_eq!(kind(cursor(&url)), "http");
    assert_eq!(kind(codex("url = \"https://x/sse\"")), "http");
    assert_eq!(kind(gemini(&json!({ "url": "https://x/mcp", "type": "http" }))), "http");
    let (entry, notes) = cursor(&json!({ "url": "https://x/sse?key=1" }));
    assert_eq!(entry["type"], json!("sse"));
    assert!(notes[0].contains("finds out by trying"), "{notes:?}");
    assert_eq!(kind(opencode(&json!({ "type": "remote", "url": "https://x/sse/" }))), "sse");
    for (first, second) in [("url", "httpUrl"), ("httpUrl", "url")] {
        // In the order of the file, which `json!` would sort.
        let text = format!(
            r#"{{ "mcpServers": {{ "x": {{ "{first}": "https://{first}", "{second}": "https://{second}" }} }} }}"#
        );
        let (entry, notes) = entry_in(Client::Gemini, ".gemini/settings.json", &text);
        assert_eq!(entry, json!({ "type": "http", "url": "https://httpUrl" }));
        assert_eq!(notes, ["`url` is left out: another address takes precedence"]);
    }
}

#[test]
fn a_server_that_the_other_program_disables_is_imported_disabled() {
    let disk = Disk::new();
    let servers = json!({ "a": { "command": "a" }, "b": { "command": "b", "enabled": true }, "c": { "command": "c" } });
    let gemini = json!({ "mcpServers": servers, "mcp": { "allowed": ["a", "c"], "excluded": ["c"] } });
    disk.write(".gemini/settings.json", &gemini.to_string());
    disk.write(
        ".config/opencode/opencode.json",
        r#"{ "mcp": { "d": { "type": "local", "command": ["d"] }, "e": { "type": "local", "command": ["e"] } },
            "tools": { "d_*": false, "e*": true, "bash": false } }"#,
    );
    let found = look(&disk.environment(), &disk.project(), &[Client::Gemini, Client::OpenCode]);
    let off = found.offers.iter().filter(|offer| offer.entry["enabled"] == json!(false));
    let off: Vec<_> = off.map(|offer| (&*offer.name, &*offer.notes[0])).collect();
    assert_eq!(
        off,
        [
            ("b", "`mcp.allowed` disables this server"),
            ("c", "`mcp.excluded` disables this server"),
            ("d", "`tools` disables this server")
        ]
    );
}

#[test]
fn codex_has_its_own_words() {
    let (entry, notes) = codex(
        "url = \"https://x\"\nbearer_token_env_var = \"TOKEN\"\nhttp_headers = { A = \"1\" }\n\
         env_http_headers = { B = \"B_VALUE\" }\nstartup_timeout_sec = 20\ntool_timeout_sec = 1.5\n\
         enabled_tools = [\"a\"]\ndisabled_tools = [\"b\"]\nscopes = [\"s\"]\nenabled = false",
    );
    assert_eq!(
        entry,
        json!({
            "type": "http", "url": "https://x", "enabled": false,
            "headers": { "A": "1", "Authorization": "Bearer ${TOKEN}", "B": "${B_VALUE}" },
            "startup_timeout": 20, "call_timeout": "1500ms", "tools": { "allow": ["a"], "deny": ["b"] },
        })
    );
    assert_eq!(notes, ["`scopes` is left out: settings for signing in are not imported"]);
    let (entry, notes) = codex(
        "command = \"x\"\nenv_vars = [\"A\", { name = \"B\" }, { name = \"C\", source = \"remote\" }]\nrequired = true",
    );
    assert_eq!(entry, json!({ "command": "x", "inherit_env": ["A", "B"] }));
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn placeholders_of_others_become_ours() {
    let (entry, notes) = cursor(&json!({
        "command": "${userHome}/bin/x", "args": ["${workspaceFolder}/a", "$HOME", "${workspaceFolderBasename}"],
        "env": { "A": "${env:A}", "B": "pa$word", "C": "$${x", "D": "${secret:d}", "E": "${user:e}" },
    }));
    assert!(
        entry["command"].as_str().unwrap().ends_with("/bin/x") && entry["command"].as_str().unwrap().starts_with('/')
    );
    assert!(entry["args"][0].as_str().unwrap().ends_with("/code/shop/a"));
    assert_eq!((&entry["args"][1], &entry["args"][2]), (&json!("$HOME"), &json!("shop")));
    assert_eq!(
        entry["env"],
        json!({ "A": "${A}", "B": "pa$$word", "C": "$$$${x", "D": "$${secret:d}", "E": "$${user:e}" })
    );
    assert!(notes.iter().any(|note| note.starts_with("`${workspaceFolder}` is replaced by /")), "{notes:?}");

    let (entry, _) = gemini(&json!({ "command": "$BIN/x", "args": ["$A-${B:-c}"], "env": { "K": "$KEY" } }));
    assert_eq!(entry, json!({ "command": "${BIN}/x", "args": ["${A}-${B:-c}"], "env": { "K": "${KEY}" } }));

    let (entry, notes) = opencode(&json!({
        "type": "remote", "url": "https://x/{env:PATH_}", "headers": {
            "A": "Bearer {env:KEY}", "F": "{file:~/.secrets/github-token.txt}", "L": "{x} ${env:Y} ${Z}",
        },
    }));
    assert_eq!(entry["url"], json!("https://x/${PATH_}"));
    assert_eq!(entry["headers"], json!({ "A": "Bearer ${KEY}", "F": "${GITHUB_TOKEN}", "L": "{x} $$${Y} ${Z}" }));
    assert!(notes.iter().any(|note| note.contains("`GITHUB_TOKEN`") && note.contains("~/.secrets")), "{notes:?}");

    let (entry, notes) = claude(&json!({ "command": "x", "env": { "A": "${A:-b}", "P": "a$$b$" } }));
    assert_eq!(entry["env"], json!({ "A": "${A:-b}", "P": "a$$$$b$" }));
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn inputs_of_vs_code_become_variables_or_stored_secrets() {
    let (entry, notes) = entry_in(
        Client::VsCode,
        "code/shop/.vscode/mcp.json",
        r#"{ // comment
          "inputs": [{ "type": "promptString", "id": "perplexity-key", "description": "API\u001b[31m key", "password": true }],
          "servers": { "p": { "type": "stdio", "command": "npx", "env": { "K": "${input:perplexity-key}", "L": "${input:9}" },
            "envFile": "${workspaceFolder}/.env", "sandboxEnabled": true, "dev": { "watch": "*" }, }, },
        }"#,
    );
    assert_eq!(
        entry,
        json!({ "type": "stdio", "command": "npx", "env": { "K": "${secret:perplexity-key}", "L": "${_9}" } })
    );
    let all = notes.join("\n");
    for part in ["`toolrack secret set perplexity-key`", "`_9`", "API", "`envFile`", "`sandboxEnabled`", "`dev`"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(!all.contains('\u{1b}'));
}

#[test]
fn the_default_of_an_input_of_vs_code_stays_its_default() {
    let (entry, notes) = entry_in(
        Client::VsCode,
        "code/shop/.vscode/mcp.json",
        r#"{
          "inputs": [
            { "type": "promptString", "id": "who", "default": "me" },
            { "type": "pickString", "id": "level", "options": ["a", "b"], "default": "b" },
            { "type": "promptString", "id": "odd", "default": "a}b" },
            { "type": "promptString", "id": "api-token", "default": "canary" }
          ],
          "servers": { "p": { "command": "npx", "args": ["${input:who}", "${input:level}", "${input:odd}", "${input:api-token}"] } }
        }"#,
    );
    assert_eq!(entry["args"], json!(["${WHO:-me}", "${LEVEL:-b}", "${ODD}", "${API_TOKEN}"]));
    let all = notes.join("\n");
    assert!(
        all.contains("set the variable `WHO` for another value") && all.contains("set the variable `ODD`"),
        "{all}"
    );
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn opencode_two_has_a_level_more() {
    let disk = Disk::new();
    disk.write(
        "code/shop/opencode.jsonc",
        r#"{ "mcp": { "servers": { "a": { "type": "local", "command": ["npx", "-y", "a"], "disabled": true, "cwd": "./sub" } } } }"#,
    );
    disk.write("code/shop/opencode.json", r#"{ "mcp": { "servers": { "type": "local", "command": ["x"] } } }"#);
    let found = disk.look(Client::OpenCode);
    let [two, one] = &*found.offers else { panic!("{found:#?}") };
    let folder = disk.project().join("sub").display().to_string();
    assert_eq!(
        two.entry,
        json!({ "type": "stdio", "command": "npx", "args": ["-y", "a"], "disabled": true, "cwd": folder })
    );
    assert_eq!((&*one.name, &one.entry["command"]), ("servers", &json!("x")));
}

#[test]
fn fields_that_cannot_be_imported_are_named() {
    let (entry, notes) = claude(&json!({
        "type": "http", "url": "https://x", "headersHelper": "/bin/canary", "oauth": { "clientId": "canary" },
        "headrs": { "A": "canary" }, "alwaysLoad": true, "args": [], "env": {},
    }));
    assert_eq!(entry, json!({ "type": "http", "url": "https://x" }));
    let all = notes.join("\n");
    for field in ["headersHelper", "oauth", "headrs", "alwaysLoad"] {
        assert!(all.contains(&format!("`{field}` is left out")), "{all}");
    }
    assert!(all.contains("`headers` may be meant") && !all.contains("canary"), "{all}");
}

#[test]
fn an_invalid_name_is_changed_with_a_note() {
    let disk = Disk::new();
    let server = json!({ "command": "x" });
    let servers = json!({ "github.com/acme/mcp": server, "a b 🦀": server, "bad\u{202e}": server, " ": server });
    disk.write(".cursor/mcp.json", &json!({ "mcpServers": servers }).to_string());
    let found = disk.look(Client::Cursor);
    let names: Vec<_> = found.offers.iter().map(|offer| (&*offer.name, offer.notes.len())).collect();
    assert_eq!(names, [("github.com-acme-mcp", 1), ("a b 🦀", 0), ("bad-", 1)]);
    assert_eq!(found.problems.len(), 1);
}

#[test]
fn a_broken_entry_or_file_costs_only_itself() {
    let disk = Disk::new();
    disk.write(
        ".cursor/mcp.json",
        "{ \"mcpServers\": {\n  \"both\": { \"command\": \"canary\", \"url\": \"https://x\" },\n  \"text\": \"canary\",\n  \
         \"ws\": { \"type\": \"ws\", \"url\": \"wss://x\" },\n  \"good\": { \"command\": \"x\" } } }",
    );
    disk.write(".gemini/settings.json", "{ \"mcpServers\": { \"a\": { \"env\": { \"K\": \"canary\" ");
    disk.write(".codex/config.toml", "[mcp_servers.x\n");
    disk.write(".codeium/windsurf/mcp_config.json", r#"{ "mcpServers": [] }"#);
    disk.write(".claude.json", "[]")
        .write(".config/opencode/opencode.json", r#"{ "mcp": { "a": { "enabled": true } } }"#);
    let found = look(&disk.environment(), &disk.project(), Client::ALL);
    assert_eq!(found.offers.iter().map(|offer| &*offer.name).collect::<Vec<_>>(), ["good"]);
    let shown: String = found.problems.iter().map(ToString::to_string).collect();
    for place in
        ["mcp.json:2:", "mcp.json:3:", "mcp.json:4:", "settings.json:1:", "config.toml:1:", "mcp_config.json:1:"]
    {
        assert!(shown.contains(place), "{place}: {shown}");
    }
    assert!(shown.contains("only enables or disables a server") && !shown.contains("canary"), "{shown}");
}

#[test]
fn a_large_history_beside_the_servers_is_skipped() {
    let disk = Disk::new();
    let history = "x".repeat(5 * 1024 * 1024);
    disk.write(".claude.json", &json!({ "history": history, "mcpServers": { "a": { "command": "x" } } }).to_string());
    assert_eq!(disk.look(Client::ClaudeCode).offers.len(), 1);
}

#[cfg(unix)]
#[test]
fn a_pipe_blocks_no_import() {
    let disk = Disk::new();
    disk.write("code/shop/.cursor/keep", "");
    let pipe = disk.project().join(".cursor/mcp.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let found = disk.look(Client::Cursor);
    assert!(found.problems[0].to_string().contains("not a regular file"));
}

mod properties {
    use proptest::prelude::*;

    use super::super::{Client, Origin, places::SourceFile, texts::TextTranslator};
    use crate::placeholder::{BareName, expand};

    fn translated(client: Client, text: &str, bare_name: BareName) -> String {
        let folder = std::path::PathBuf::from("/folder");
        let file = SourceFile {
            client,
            path: folder.clone(),
            folder: folder.clone(),
            cwd: folder.clone(),
            home: Some(folder),
            from_project: false,
        };
        let origin = Origin { file: &file, inputs: Vec::new(), disabled_servers: Vec::new() };
        TextTranslator::new(&origin).translate("place", text, bare_name)
    }

    proptest! {
        #[test]
        fn text_without_placeholders_means_itself_here_too(text in r"[$A-C %x\\{-]{0,30}", bare_name in any::<bool>()) {
            // The texts have no closing brace, and these programs know no placeholder without braces.
            let bare_name = if bare_name { BareName::Placeholder } else { BareName::Literal };
            for client in [Client::ClaudeCode, Client::ClaudeDesktop, Client::Cursor, Client::VsCode, Client::OpenCode] {
                let ours = translated(client, &text, bare_name);
                prop_assert_eq!(expand(&ours, bare_name, &|_| Ok(None)), Ok(text.clone()), "{}", ours);
            }
        }

        #[test]
        fn no_text_panics_or_becomes_malformed(text in r"[${}A-C:/\-envfilput é]{0,40}") {
            for &client in Client::ALL {
                let ours = translated(client, &text, BareName::Placeholder);
                let expanded = expand(&ours, BareName::Placeholder, &|wanted| Ok(Some(format!("{wanted:?}"))));
                prop_assert!(expanded.is_ok(), "{client:?}: {ours}: {expanded:?}");
            }
        }
    }
}

#[test]
fn zed_s_servers_are_offered_in_its_old_words_and_its_new_ones() {
    let ours = json!({ "command": "uv", "args": ["run"], "env": { "K": "v" } });
    for entry in [
        json!({ "source": "custom", "command": "uv", "args": ["run"], "env": { "K": "v" } }),
        json!({ "command": { "path": "uv", "args": ["run"], "env": { "K": "v" } } }),
        json!({ "command": { "path": "uv", "args": ["run"], "env": { "K": "v" } }, "env": null }),
    ] {
        assert_eq!(zed(&entry), (ours.clone(), vec![]), "{entry}");
    }
    let (entry, notes) =
        zed(&json!({ "url": "https://x/mcp", "headers": { "A": "b" }, "timeout": 5, "enabled": false }));
    assert_eq!(
        entry,
        json!({ "url": "https://x/mcp", "headers": { "A": "b" }, "call_timeout": 5, "enabled": false, "type": "http" })
    );
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(zed(&json!({ "command": "x", "args": [], "remote": true })).1.len(), 1);
}

#[test]
fn a_server_of_an_extension_of_zed_is_named_and_not_offered() {
    let disk = Disk::new();
    disk.write(
        ".config/zed/settings.json",
        "// Zed settings\n{\n  \"context_servers\": {\n    \"a\": { \"settings\": { \"key\": \"canary\" } },\n    \"b\": { \"source\": \"extension\", \"settings\": {} },\n  },\n}\n",
    );
    disk.write("code/shop/.zed/settings.json", r#"{ "context_servers": { "c": { "command": "c", "args": [] } } }"#);
    let found = disk.look(Client::Zed);
    let offers: Vec<_> = found.offers.iter().map(|offer| (&*offer.name, offer.from_project)).collect();
    assert_eq!(offers, [("c", true)]);
    let problems: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("settings.json:4:") && problems[0].contains("extension"), "{problems:?}");
    assert!(!problems.concat().contains("canary"), "{problems:?}");
}

#[test]
fn qbit_and_synapse_have_files_of_their_own() {
    let disk = Disk::new();
    let entry = json!({ "transport": "stdio", "command": "x", "env": { "K": "$KEY" }, "timeout": 5, "enabled": true });
    disk.write(".qbit/mcp.json", &json!({ "mcpServers": { "q": entry } }).to_string());
    let server = json!({ "mcpServers": { "s": { "command": "x", "args": [], "env": { "K": "$KEY" } } } }).to_string();
    disk.write("code/shop/.qbit/mcp.json", &server).write(".config/synapse/mcp_servers.json", &server);
    let found = look(&disk.environment(), &disk.project(), &[Client::Qbit, Client::Synapse]);
    assert!(found.problems.is_empty(), "{found:#?}");
    let [project, user, synapse] = &*found.offers else { panic!("{found:#?}") };
    assert!(project.from_project && !user.from_project);
    assert_eq!(
        user.entry,
        json!({ "command": "x", "env": { "K": "${KEY}" }, "startup_timeout": 5, "enabled": true, "type": "stdio" })
    );
    // Qbit looks up variables, and Synapse does not.
    assert_eq!(synapse.entry["env"], json!({ "K": "$$KEY" }));
    let elsewhere = Environment::new([("HOME", disk.home()), ("SYNAPSE_MCP_CONFIG", disk.home().join("x.json"))]);
    assert!(look(&elsewhere, &disk.project(), &[Client::Synapse]).offers.is_empty());
}

#[cfg(unix)]
#[test]
fn the_users_file_is_their_own_also_where_a_link_leads_to_the_home_folder() {
    let disk = Disk::new();
    disk.write("real/.cursor/mcp.json", r#"{ "mcpServers": { "x": { "command": "x" } } }"#);
    std::os::unix::fs::symlink(disk.home().join("real"), disk.home().join("link")).unwrap();
    let home = disk.home().join("link");
    let found = look(&Environment::new([("HOME", &home)]), &home, &[Client::Cursor]);
    assert_eq!((found.offers.len(), found.offers[0].from_project), (1, false));
}

#[test]
fn a_project_cannot_bring_a_file_of_any_size() {
    let disk = Disk::new();
    for path in [".cursor/mcp.json", "code/shop/.cursor/mcp.json"] {
        let server = json!({ "mcpServers": { "x": { "command": "x" } } }).to_string();
        disk.write(path, &format!("{server}{}", " ".repeat(5 * 1024 * 1024)));
    }
    let found = disk.look(Client::Cursor);
    assert_eq!((found.offers.len(), found.offers[0].from_project), (1, false));
    assert!(found.problems[0].message.contains("larger than 4 MiB"), "{:?}", found.problems);
}

#[test]
fn a_file_of_variables_is_read_once_and_env_comes_before_it() {
    let disk = Disk::new();
    disk.write("code/shop/.env", "KEY=pa$$word\nMODE=slow\n");
    let entry = json!({ "command": "x", "envFile": "${workspaceFolder}/.env", "env": { "MODE": "fast" } });
    disk.write("code/shop/.vscode/mcp.json", &json!({ "servers": { "x": entry } }).to_string());
    let lone = json!({ "command": "x", "envFile": ".env" });
    disk.write("code/shop/.cursor/mcp.json", &json!({ "mcpServers": { "x": lone } }).to_string());
    let found = look(&disk.environment(), &disk.project(), &[Client::VsCode, Client::Cursor]);
    let [vscode, cursor] = &*found.offers else { panic!("{found:#?}") };
    assert_eq!(vscode.entry["env"], json!({ "MODE": "fast", "KEY": "pa$$$$word" }));
    assert_eq!(cursor.entry["env"], json!({ "KEY": "pa$$$$word", "MODE": "slow" }));
    assert!(vscode.notes.iter().any(|note| note.starts_with("`envFile`: 2 variables of /")), "{:?}", vscode.notes);
    disk.write("code/shop/.env", "KEY='abc' # don't commit\nOPEN='abc\n");
    let found = look(&disk.environment(), &disk.project(), &[Client::Cursor]);
    assert_eq!(found.offers[0].entry["env"], json!({ "KEY": "abc" }));
    let note = "`envFile.OPEN` is left out: its quotation mark is not closed on its line";
    assert!(found.offers[0].notes.iter().any(|told| told == note), "{:?}", found.offers[0].notes);
    disk.write(".env", "KEY=home\n");
    let below_home = json!({ "command": "x", "envFile": "~/.env", "cwd": "~/data" });
    disk.write("code/shop/.cursor/mcp.json", &json!({ "mcpServers": { "x": below_home } }).to_string());
    let imported = disk.look(Client::Cursor).offers.remove(0).entry;
    assert_eq!((&imported["env"], &imported["cwd"]), (&json!({ "KEY": "home" }), &json!("~/data")));
    for file in ["nothing/.env", "${env:FILE}", "code"] {
        let (entry, notes) = cursor_entry(file);
        assert!(entry.get("env").is_none() && notes[0].starts_with("`envFile` is left out: "), "{notes:?}");
    }
}

fn cursor_entry(file: &str) -> (Json, Vec<String>) {
    cursor(&json!({ "command": "x", "envFile": file }))
}
