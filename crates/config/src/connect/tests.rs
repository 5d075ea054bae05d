use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::json;

use super::*;
use crate::Environment;

/// A home with a project in it.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(disk.project().join(".git")).unwrap();
        disk
    }

    fn home(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("home")
    }

    fn project(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("home/code/shop")
    }

    fn memories(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("data/connections")
    }

    fn environment(&self) -> Environment {
        Environment::new([("HOME", self.home())])
    }

    fn of_user(&self, client: Client) -> ClientFile {
        ClientFile::of_user(client, &self.environment(), &self.project()).unwrap()
    }

    fn write(&self, place: &ClientFile, text: &str) {
        fs::create_dir_all(place.path.parent().unwrap()).unwrap();
        fs::write(&place.path, text).unwrap();
    }

    fn connect(&self, place: &ClientFile) -> Result<(), ConnectError> {
        connect(place, "toolrack", &gateway(), &self.memories())?.write()
    }

    fn undo(&self, place: &ClientFile) -> Result<Change, ConnectError> {
        let change = undo(place, "toolrack", &self.memories())?;
        change.write().map(|()| change)
    }
}

fn gateway() -> Reach {
    Reach::Program { command: "toolrack".to_owned(), args: vec!["gateway".to_owned()] }
}

fn endpoint() -> Reach {
    Reach::Http { url: "http://127.0.0.1:7717/mcp".to_owned() }
}

fn read(place: &ClientFile) -> String {
    fs::read_to_string(&place.path).unwrap()
}

/// What users have in these files: comments, other settings, secrets, odd layouts.
const FILES: &[(Client, &str, &str)] = &[
    (
        Client::ClaudeCode,
        ".claude.json",
        "{\n  \"numStartups\": 41,\n  \"projects\": {\n    \"/home/ada/shop\": {\n      \"history\": [{\"display\": \"füge einen Server hinzu\"}],\n      \"mcpServers\": {}\n    }\n  },\n  \"mcpServers\": {\n    \"gh\": {\n      \"type\": \"stdio\",\n      \"command\": \"docker\",\n      \"args\": [\"run\", \"-i\"],\n      \"env\": {\"GITHUB_TOKEN\": \"canary\"}\n    }\n  },\n  \"oauthAccount\": {\"emailAddress\": \"ada@example.com\"}\n}\n",
    ),
    (
        Client::ClaudeDesktop,
        ".config/Claude/claude_desktop_config.json",
        "{\n  \"globalShortcut\": \"\",\n  \"mcpServers\": {\n    \"fs\": { \"command\": \"npx\", \"args\": [ \"-y\", \"server\" ] }\n  }\n}\n",
    ),
    (Client::Cursor, ".cursor/mcp.json", "{ \"mcpServers\": { \"a\": { \"url\": \"https://a/mcp\" } } }\n"),
    (
        Client::VsCode,
        ".config/Code/User/mcp.json",
        "{\n\t// mine\n\t\"inputs\": [\n\t\t{ \"id\": \"key\", \"type\": \"promptString\", \"password\": true }\n\t],\n\t\"servers\": {\n\t\t\"a\": { \"type\": \"stdio\", \"command\": \"a\" }, /* the last */\n\t},\n}\n",
    ),
    (Client::Windsurf, ".codeium/windsurf/mcp_config.json", "{\n    \"mcpServers\": {\n    }\n}\n"),
    (
        Client::Codex,
        ".codex/config.toml",
        "# Codex\nmodel = \"gpt\"   # the usual one\n\n[projects.\"/home/ada/shop\"]\ntrust_level = \"trusted\"\n\n[mcp_servers.docs]\ncommand = \"docs\"\nargs = [\n  \"--fast\", # yes\n]\n\n[mcp_servers.docs.env]\nKEY = \"canary\"\n\n[tui]\ntheme = \"x\"\n",
    ),
    (
        Client::Gemini,
        ".gemini/settings.json",
        "{\n   \"theme\": \"Default\",\n   \"mcp\": { \"excluded\": [\"old\"] },\n   \"security\": { \"auth\": { \"selectedType\": \"oauth\" } }\n}\n",
    ),
    (
        Client::OpenCode,
        ".config/opencode/opencode.json",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  // nothing yet\n  \"mcp\": {},\n  \"theme\": \"x\"\n}\n",
    ),
    (
        Client::Zed,
        ".config/zed/settings.json",
        "// Zed settings\n//\n// For information, see the documentation.\n{\n  \"ui_font_size\": 16,\n  \"context_servers\": {\n    \"srv\": {\n      \"source\": \"custom\",\n      \"command\": \"srv\",\n      \"args\": [],\n      \"env\": { \"K\": \"canary\" },\n    },\n  },\n  \"theme\": { \"mode\": \"system\", \"light\": \"One Light\", },\n}\n",
    ),
    (
        Client::Qbit,
        ".qbit/mcp.json",
        "{\n  \"mcpServers\": {\n    \"db\": { \"transport\": \"stdio\", \"command\": \"db\", \"env\": { \"K\": \"canary\" } }\n  }\n}\n",
    ),
    (
        Client::Synapse,
        ".config/synapse/mcp_servers.json",
        "{\n  \"mcpServers\": {\n    \"fs\": {\n      \"command\": \"npx\",\n      \"args\": []\n    }\n  },\n  \"other\": 1\n}\n",
    ),
];

/// The same file as other editors leave it.
fn layouts(text: &str) -> Vec<String> {
    let tabs = text.replace("    ", "\t").replace("  ", "\t");
    vec![
        text.to_owned(),
        text.replace('\n', "\r\n"),
        text.trim_end().to_owned(),
        format!("\u{feff}{text}"),
        tabs,
        format!("\u{feff}{}", text.trim_end().replace('\n', "\r\n")),
        format!("\n\n{text}\n \n"),
    ]
}

#[test]
fn every_program_s_file_gets_the_entry_and_then_its_bytes_back() {
    for (client, path, text) in FILES {
        for before in layouts(text) {
            let disk = Disk::new();
            let place = disk.of_user(*client);
            assert_eq!(place.path, disk.home().join(path));
            disk.write(&place, &before);
            assert_eq!(name_state(&place, "toolrack").unwrap(), NameState::Free);
            let change = connect(&place, "toolrack", &gateway(), &disk.memories()).unwrap();
            assert_eq!(read(&place), before, "only worked out");
            assert!(!change.diff().contains("canary") && change.diff().contains("toolrack"), "{}", change.diff());
            change.write().unwrap();
            let after = read(&place);
            assert_eq!(name_state(&place, "toolrack").unwrap(), NameState::Gateway, "{after}");
            assert_eq!(after.starts_with('\u{feff}'), before.starts_with('\u{feff}'));
            assert_eq!(
                after.replace("\r\n", "").contains('\n'),
                before.replace("\r\n", "").contains('\n'),
                "{after:?}"
            );
            let change = disk.undo(&place).unwrap();
            assert!(change.is_exact());
            assert_eq!(read(&place), before, "{client}");
            assert_eq!(fs::read_dir(disk.memories()).unwrap().count(), 0, "nothing is left to remember");
        }
    }
}

#[test]
fn after_another_change_only_the_entry_is_taken_out() {
    for (client, _, before) in FILES {
        let disk = Disk::new();
        let place = disk.of_user(*client);
        disk.write(&place, before);
        disk.connect(&place).unwrap();
        let comment = if *client == Client::Codex { "# later\n" } else { "// later\n" };
        fs::write(&place.path, read(&place) + comment).unwrap();
        let change = disk.undo(&place).unwrap();
        assert!(!change.is_exact(), "{client}");
        let after = read(&place);
        assert_eq!(name_state(&place, "toolrack").unwrap(), NameState::Free, "{after}");
        let letters = |text: &str| text.split_whitespace().collect::<String>().replace(',', "");
        // A removed entry may leave white space, a comma and the object that was created for it.
        let made = if *client == Client::Gemini { "\"mcpServers\":{}" } else { "" };
        assert_eq!(letters(&after).replacen(made, "", 1), letters(before) + &letters(comment), "{client}");
    }
}

/// The entry that `client` gets.
fn entry(client: Client, reach: &Reach) -> Result<Json, ConnectError> {
    let disk = Disk::new();
    let place = disk.of_user(client);
    connect(&place, "toolrack", reach, &disk.memories())?.write()?;
    Ok(other_programs::entry(&place.path, &place.servers_location, "toolrack").unwrap().unwrap())
}

#[test]
fn each_program_gets_instructions_in_its_own_terms() {
    let words = json!({ "command": "toolrack", "args": ["gateway"] });
    let typed = json!({ "type": "stdio", "command": "toolrack", "args": ["gateway"] });
    let url = "http://127.0.0.1:7717/mcp";
    let headers = |token: &str| json!({ "Authorization": format!("Bearer {token}") });
    for (client, program, http) in [
        (
            Client::ClaudeCode,
            typed.clone(),
            Some(json!({ "type": "http", "url": url, "headers": headers("${TOOLRACK_TOKEN}") })),
        ),
        (Client::ClaudeDesktop, words.clone(), None),
        (Client::Cursor, words.clone(), Some(json!({ "url": url, "headers": headers("${env:TOOLRACK_TOKEN}") }))),
        (
            Client::VsCode,
            typed,
            Some(json!({ "type": "http", "url": url, "headers": headers("${env:TOOLRACK_TOKEN}") })),
        ),
        (
            Client::Windsurf,
            words.clone(),
            Some(json!({ "serverUrl": url, "headers": headers("${env:TOOLRACK_TOKEN}") })),
        ),
        (Client::Codex, words.clone(), Some(json!({ "url": url, "bearer_token_env_var": "TOOLRACK_TOKEN" }))),
        (
            Client::OpenCode,
            json!({ "type": "local", "command": ["toolrack", "gateway"] }),
            Some(json!({ "type": "remote", "url": url, "headers": headers("{env:TOOLRACK_TOKEN}") })),
        ),
        (
            Client::Qbit,
            words.clone(),
            Some(json!({ "transport": "http", "url": url, "headers": headers("${TOOLRACK_TOKEN}") })),
        ),
        (Client::Synapse, words.clone(), None),
        (Client::Gemini, words, Some(json!({ "httpUrl": url, "headers": headers("${TOOLRACK_TOKEN}") }))),
        (Client::Zed, json!({ "source": "custom", "command": "toolrack", "args": ["gateway"] }), None),
    ] {
        assert_eq!(entry(client, &gateway()).unwrap(), program, "{client}");
        match http {
            Some(http) => assert_eq!(entry(client, &endpoint()).unwrap(), http, "{client}"),
            None => assert!(entry(client, &endpoint()).unwrap_err().to_string().contains("Leave `--http` out")),
        }
    }
}

#[test]
fn undo_removes_the_file_and_the_folders_that_connect_made() {
    for client in Client::ALL {
        let disk = Disk::new();
        let place = disk.of_user(*client);
        let change = connect(&place, "toolrack", &gateway(), &disk.memories()).unwrap();
        assert!(change.creates() && !place.path.exists());
        change.write().unwrap();
        assert_eq!(fs::metadata(&place.path).unwrap().permissions().mode() & 0o777, 0o600);
        let change = disk.undo(&place).unwrap();
        assert!(change.removes() && change.is_exact());
        let left: Vec<_> = fs::read_dir(disk.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["code"], "{client}");
        assert!(matches!(disk.undo(&place), Err(ConnectError::NotConnected { .. })), "{client}");
    }
}

#[test]
fn a_project_has_its_own_files() {
    let disk = Disk::new();
    let of_project = |client| ClientFile::of_project(client, &disk.environment(), &disk.project().join(".git"));
    for (client, path) in [
        (Client::Cursor, ".cursor/mcp.json"),
        (Client::VsCode, ".vscode/mcp.json"),
        (Client::Codex, ".codex/config.toml"),
        (Client::Gemini, ".gemini/settings.json"),
        (Client::OpenCode, "opencode.json"),
        (Client::Zed, ".zed/settings.json"),
        (Client::Qbit, ".qbit/mcp.json"),
    ] {
        let place = of_project(client).unwrap();
        assert_eq!(place.path, disk.project().join(path));
        disk.connect(&place).unwrap();
        assert_eq!(names(&place).unwrap(), ["toolrack"]);
        disk.undo(&place).unwrap();
        assert!(!place.path.exists());
    }
    for client in [Client::ClaudeDesktop, Client::Windsurf, Client::Synapse] {
        let error = of_project(client).unwrap_err().to_string();
        assert!(error.contains("no file for a single project"), "{error}");
    }
}

#[test]
fn claude_code_has_a_project_s_servers_in_the_user_s_file() {
    let disk = Disk::new();
    let place = ClientFile::of_project(Client::ClaudeCode, &disk.environment(), &disk.project()).unwrap();
    let before = "{\n  \"projects\": {\n    \"/elsewhere\": { \"mcpServers\": {} }\n  }\n}\n";
    disk.write(&place, before);
    disk.connect(&place).unwrap();
    let file: Json = serde_json::from_str(&read(&place)).unwrap();
    let entry = &file["projects"][disk.project().to_str().unwrap()]["mcpServers"]["toolrack"];
    assert_eq!(entry["args"], json!(["gateway"]), "{file}");
    assert_eq!(file["projects"]["/elsewhere"], json!({ "mcpServers": {} }));
    disk.undo(&place).unwrap();
    assert_eq!(read(&place), before);
}

#[test]
fn an_undo_in_one_list_of_a_file_leaves_the_entry_of_the_same_name_in_another() {
    let disk = Disk::new();
    let of_user = disk.of_user(Client::ClaudeCode);
    let of_project = ClientFile::of_project(Client::ClaudeCode, &disk.environment(), &disk.project()).unwrap();
    let before = "{\n  \"numStartups\": 1\n}\n";
    disk.write(&of_user, before);
    disk.connect(&of_user).unwrap();
    let with_first = read(&of_user);
    disk.connect(&of_project).unwrap();
    assert!(disk.undo(&of_project).unwrap().is_exact());
    assert_eq!(read(&of_user), with_first);
    assert_eq!(name_state(&of_user, "toolrack").unwrap(), NameState::Gateway);
    assert!(disk.undo(&of_user).unwrap().is_exact());
    assert_eq!(read(&of_user), before);
    assert_eq!(fs::read_dir(disk.memories()).unwrap().count(), 0, "nothing is left to remember");
}

#[test]
fn the_second_version_of_opencode_has_its_servers_a_level_deeper() {
    let disk = Disk::new();
    let place = disk.of_user(Client::OpenCode);
    disk.write(&place, "{ \"mcp\": { \"servers\": { \"a\": { \"type\": \"local\", \"command\": [\"a\"] } } } }");
    disk.connect(&place).unwrap();
    let file: Json = serde_json::from_str(&read(&place)).unwrap();
    assert_eq!(file["mcp"]["servers"]["toolrack"]["command"], json!(["toolrack", "gateway"]), "{file}");
}

#[test]
fn our_entry_is_updated_and_keeps_fields_that_the_user_added() {
    let disk = Disk::new();
    let place = disk.of_user(Client::Cursor);
    let before =
        r#"{ "mcpServers": { "toolrack": { "command": "/old/toolrack", "args": ["gateway"], "disabled": true } } }"#;
    disk.write(&place, before);
    disk.connect(&place).unwrap();
    let file: Json = serde_json::from_str(&read(&place)).unwrap();
    assert_eq!(file["mcpServers"]["toolrack"], json!({ "command": "toolrack", "args": ["gateway"], "disabled": true }));
    // Connects again, over HTTP: the fields of the other transport are gone.
    connect(&place, "toolrack", &endpoint(), &disk.memories()).unwrap().write().unwrap();
    let file: Json = serde_json::from_str(&read(&place)).unwrap();
    assert!(file["mcpServers"]["toolrack"].get("command").is_none(), "{file}");
    assert!(!disk.undo(&place).unwrap().is_exact());
    assert_eq!(name_state(&place, "toolrack").unwrap(), NameState::Free, "no older entry of ours comes back");
}

#[test]
fn an_undo_never_brings_an_older_entry_of_toolrack_back() {
    let connect_by_http =
        |disk: &Disk, place: &ClientFile| connect(place, "toolrack", &endpoint(), &disk.memories()).unwrap().write();
    let disk = Disk::new();
    let place = disk.of_user(Client::Cursor);
    disk.write(&place, "{}\n");
    disk.connect(&place).unwrap();
    connect_by_http(&disk, &place).unwrap();
    assert!(disk.undo(&place).unwrap().is_exact());
    assert_eq!(read(&place), "{}\n", "the text before the first of two connections");

    disk.connect(&place).unwrap();
    // Another program changes the file between two connections.
    fs::write(&place.path, read(&place) + "// later\n").unwrap();
    connect_by_http(&disk, &place).unwrap();
    assert!(!disk.undo(&place).unwrap().is_exact());
    assert_eq!(name_state(&place, "toolrack").unwrap(), NameState::Free, "{}", read(&place));
    assert!(read(&place).ends_with("// later\n"), "{}", read(&place));
}

#[test]
fn a_connected_program_stays_unchanged() {
    let disk = Disk::new();
    let place = disk.of_user(Client::Cursor);
    let before = r#"{ "mcpServers": { "toolrack": { "args": ["gateway"], "command": "toolrack" } } }"#;
    disk.write(&place, before);
    let change = connect(&place, "toolrack", &gateway(), &disk.memories()).unwrap();
    assert!(change.is_nothing() && change.diff().is_empty());
    change.write().unwrap();
    assert_eq!(read(&place), before);
    assert!(!disk.memories().exists());
}

#[test]
fn another_server_of_the_name_is_neither_replaced_nor_taken_out() {
    let disk = Disk::new();
    let place = disk.of_user(Client::Cursor);
    let before = r#"{ "mcpServers": { "toolrack": { "command": "theirs" } } }"#;
    disk.write(&place, before);
    assert!(matches!(disk.connect(&place), Err(ConnectError::Taken { .. })));
    assert!(matches!(disk.undo(&place), Err(ConnectError::Taken { .. })));
    connect(&place, "rack", &gateway(), &disk.memories()).unwrap().write().unwrap();
    assert_eq!(names(&place).unwrap(), ["rack"]);
    undo(&place, "rack", &disk.memories()).unwrap().write().unwrap();
    assert_eq!(read(&place), before);
}

#[test]
fn of_two_entries_of_one_name_in_one_list_none_is_changed() {
    let (ours, theirs) = (r#""toolrack": { "command": "/old/toolrack", "args": ["gateway"] }"#, r#""toolrack": {}"#);
    for (before, why) in [
        (format!("{{ \"mcpServers\": {{ {theirs}, {ours} }} }}"), "has two entries `toolrack`: remove one by hand"),
        (format!("{{ \"mcpServers\": {{ {ours}, {ours} }} }}"), "has two entries `toolrack`: remove one by hand"),
        // Of two, programs use the last one.
        (format!("{{ \"mcpServers\": {{ {ours}, {theirs} }} }}"), "has another server called `toolrack`"),
    ] {
        let disk = Disk::new();
        let place = disk.of_user(Client::Cursor);
        disk.write(&place, &before);
        for error in [disk.connect(&place).unwrap_err(), disk.undo(&place).unwrap_err()] {
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(read(&place), before);
    }
}

#[test]
fn an_unreadable_file_stays_unchanged_and_is_named_with_its_line() {
    for (client, text, wanted) in [
        (Client::Cursor, "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" \n}", "mcp.json:"),
        (Client::Zed, "{ \"context_servers\": [] }", "`context_servers` must be an object of servers, not a list"),
        (Client::Gemini, "{ \"mcpServers\": null }", "`mcpServers` must be an object of servers, not null"),
        (Client::VsCode, "[]", "the file must be an object of servers, not a list"),
        (Client::Codex, "model = \n", "config.toml:1"),
        (Client::Codex, "mcp_servers = 1\n", "mcp_servers"),
    ] {
        let disk = Disk::new();
        let place = disk.of_user(client);
        disk.write(&place, text);
        let error = disk.connect(&place).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        assert_eq!(read(&place), text);
        assert!(!disk.memories().exists());
    }
}

#[test]
fn a_link_is_followed_and_stays_one() {
    for is_there in [true, false] {
        let disk = Disk::new();
        let place = disk.of_user(Client::Cursor);
        let real = disk.home().join("dotfiles/mcp.json");
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::create_dir_all(place.path.parent().unwrap()).unwrap();
        symlink(&real, &place.path).unwrap();
        if is_there {
            fs::write(&real, "{}").unwrap();
        }
        disk.connect(&place).unwrap();
        assert!(place.path.symlink_metadata().unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("gateway"));
        disk.undo(&place).unwrap();
        assert!(place.path.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).ok().as_deref(), is_there.then_some("{}"));
    }
}

#[test]
fn a_write_protected_file_stays_unchanged() {
    let disk = Disk::new();
    let place = disk.of_user(Client::Cursor);
    disk.write(&place, "{}");
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o444)).unwrap();
    let error = disk.connect(&place).unwrap_err();
    assert!(error.to_string().contains("is write-protected: add the entry by hand"), "{error}");
    assert_eq!(read(&place), "{}");
}

#[test]
fn changes_that_another_program_writes_meanwhile_are_kept() {
    let disk = Disk::new();
    let place = disk.of_user(Client::ClaudeCode);
    disk.write(&place, "{}");
    let change = connect(&place, "toolrack", &gateway(), &disk.memories()).unwrap();
    fs::write(&place.path, "{ \"numStartups\": 2 }").unwrap();
    assert!(matches!(change.write(), Err(ConnectError::Changed { .. })));
    assert_eq!(read(&place), "{ \"numStartups\": 2 }");
    disk.connect(&place).unwrap();

    let change = undo(&place, "toolrack", &disk.memories()).unwrap();
    let theirs = read(&place).replace('2', "3");
    fs::write(&place.path, &theirs).unwrap();
    assert!(matches!(change.write(), Err(ConnectError::Changed { .. })));
    assert_eq!(read(&place), theirs);

    fs::remove_file(&place.path).unwrap();
    let change = connect(&place, "toolrack", &gateway(), &disk.memories()).unwrap();
    fs::write(&place.path, "{ }").unwrap();
    assert!(matches!(change.write(), Err(ConnectError::Changed { .. })));
    assert_eq!(read(&place), "{ }");
}

#[test]
fn without_a_place_for_its_memory_connect_writes_nothing() {
    let disk = Disk::new();
    let place = disk.of_user(Client::Cursor);
    disk.write(&place, "{}");
    let file = disk.home().join("file");
    fs::write(&file, "").unwrap();
    let error = connect(&place, "toolrack", &gateway(), &file).unwrap().write().unwrap_err();
    assert!(error.to_string().contains("the file of the program is unchanged"), "{error}");
    assert_eq!(read(&place), "{}");
}

#[test]
fn the_file_that_is_there_is_the_one_that_is_written() {
    let disk = Disk::new();
    let of_user = |pairs: &[(&str, PathBuf)], client| {
        let home = [("HOME", disk.home())];
        ClientFile::of_user(client, &Environment::new(home.iter().chain(pairs).cloned()), &disk.project()).unwrap().path
    };
    assert_eq!(of_user(&[("CODEX_HOME", "/c".into())], Client::Codex), Path::new("/c/config.toml"));
    assert_eq!(of_user(&[("CLAUDE_CONFIG_DIR", "/c".into())], Client::ClaudeCode), Path::new("/c/.claude.json"));
    fs::create_dir_all(disk.home().join(".config/VSCodium/User")).unwrap();
    assert_eq!(of_user(&[], Client::VsCode), disk.home().join(".config/VSCodium/User/mcp.json"));
    fs::create_dir_all(disk.home().join(".config/opencode")).unwrap();
    fs::write(disk.home().join(".config/opencode/opencode.jsonc"), "").unwrap();
    assert_eq!(of_user(&[], Client::OpenCode), disk.home().join(".config/opencode/opencode.jsonc"));
    assert!(is_installed(Client::OpenCode, &disk.environment(), &disk.project()));
    assert!(!is_installed(Client::ClaudeCode, &disk.environment(), &disk.project()));
    // Codex's file has Codex's format in a folder of any name.
    let place = ClientFile { path: disk.home().join("other/config.toml"), ..disk.of_user(Client::Codex) };
    disk.connect(&place).unwrap();
    assert!(read(&place).starts_with("[mcp_servers.toolrack]"));
}

#[test]
fn two_entries_of_one_file_are_undone_in_any_order() {
    for (client, _, before) in FILES {
        for (first, second, is_exact) in [("b", "a", true), ("a", "b", false)] {
            let disk = Disk::new();
            let place = disk.of_user(*client);
            disk.write(&place, before);
            for name in ["a1", "b1"] {
                connect(&place, name, &gateway(), &disk.memories()).unwrap().write().unwrap();
            }
            let mut connected = names(&place).unwrap();
            connected.sort();
            assert_eq!(connected, ["a1", "b1"], "{client}");
            for name in [first, second] {
                let change = undo(&place, &format!("{name}1"), &disk.memories()).unwrap();
                assert_eq!(change.is_exact(), is_exact, "{client} {name}");
                change.write().unwrap();
                assert_eq!(name_state(&place, &format!("{name}1")).unwrap(), NameState::Free, "{client}");
            }
            assert!(!is_exact || read(&place) == *before, "{client}: {}", read(&place));
            // No byte of the user's own text is lost, in either order of the undos.
            let letters = |text: &str| text.split_whitespace().collect::<String>().replace(',', "");
            let made = if *client == Client::Gemini && !is_exact { "\"mcpServers\":{}" } else { "" };
            assert_eq!(letters(&read(&place)).replacen(made, "", 1), letters(before), "{client}");
        }
    }
}

#[test]
fn a_memory_that_is_damaged_never_decides_what_an_undo_writes() {
    let memory = |disk: &Disk| fs::read_dir(disk.memories()).unwrap().next().unwrap().unwrap().path();
    for damage in [
        |_: Json| String::new(),
        |_| "{".to_owned(),
        |_| "{}".to_owned(),
        |_| "null".to_owned(),
        |mut memory: Json| {
            memory["replaced"] = json!("evil");
            memory.to_string()
        },
        |mut memory: Json| {
            memory["from"] = json!(u32::MAX);
            memory.to_string()
        },
        |mut memory: Json| {
            (memory["from"], memory["to"]) = (json!(9), json!(3));
            memory.to_string()
        },
        |mut memory: Json| {
            memory["to"] = json!(0);
            memory.to_string()
        },
    ] {
        let disk = Disk::new();
        let place = disk.of_user(Client::Cursor);
        disk.write(&place, "{ \"mcpServers\": { \"ä\": { \"command\": \"ä\" } } }\n");
        disk.connect(&place).unwrap();
        let path = memory(&disk);
        let damaged = damage(serde_json::from_slice(&fs::read(&path).unwrap()).unwrap());
        fs::write(&path, &damaged).unwrap();
        let change = disk.undo(&place).unwrap();
        assert!(!change.is_exact(), "{damaged}");
        let file: Json = serde_json::from_str(&read(&place)).unwrap();
        assert_eq!(file, json!({ "mcpServers": { "ä": { "command": "ä" } } }), "{damaged}");
        assert!(!path.exists(), "{damaged}");
    }
}
