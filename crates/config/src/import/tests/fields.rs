//! Compares the table of each program's fields with what is imported.

use super::{super::tables::Meaning, *};
use crate::{
    import::tables,
    placeholder::{self, BareName},
};

/// The user's file of `client`, the strongest.
pub(super) fn path_of(client: Client, disk: &Disk) -> PathBuf {
    files_of_the_user(client, &disk.environment()).remove(0)
}

/// The file of `client` with this entry.
fn file_of(client: Client, entry: &Json) -> String {
    let key = match client {
        Client::Codex => return format!("mcp_servers.x = {}", toml(entry)),
        Client::VsCode => "servers",
        Client::Zed => "context_servers",
        Client::OpenCode => "mcp",
        _ => "mcpServers",
    };
    json!({ key: { "x": entry } }).to_string()
}

fn toml(value: &Json) -> String {
    let Json::Object(members) = value else { return value.to_string() };
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\" = {}", toml(value))).collect();
    format!("{{ {} }}", members.join(", "))
}

/// `max_call_time` as `maxCallTime`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// A value of a field, and Toolrack's fields for it.
fn example(meaning: Meaning) -> (Json, Json) {
    match meaning {
        Meaning::Type => (json!("stdio"), json!({ "type": "stdio" })),
        Meaning::Command => (json!("y"), json!({ "command": "y" })),
        Meaning::Texts("args") => (json!(["-y"]), json!({ "args": ["-y"] })),
        Meaning::Texts(ours) => (json!({ "K": "v" }), json!({ ours: { "K": "v" } })),
        Meaning::Folder => (json!("/sub"), json!({ "cwd": "/sub" })),
        Meaning::Address(_) => (json!("https://y/mcp"), json!({ "url": "https://y/mcp" })),
        Meaning::Same("description") => (json!("about"), json!({ "description": "about" })),
        Meaning::Same(ours) => (json!(true), json!({ ours: true })),
        Meaning::Tools(list) => (json!(["a*"]), json!({ "tools": { list: ["a*"] } })),
        Meaning::Milliseconds(bounds) => (json!(2_000), bounds.iter().map(|bound| (*bound, 2)).collect()),
        Meaning::Seconds(bounds) => (json!(2), bounds.iter().map(|bound| (*bound, 2)).collect()),
        Meaning::OpenCodeTimes => (json!(2_000), json!({ "startup_timeout": 2, "list_timeout": 2 })),
        Meaning::Inherited => (json!(["A"]), json!({ "inherit_env": ["A"] })),
        Meaning::VariableHeaders => (json!({ "H": "V" }), json!({ "headers": { "H": "${V}" } })),
        Meaning::BearerVariable => (json!("V"), json!({ "headers": { "Authorization": "Bearer ${V}" } })),
        Meaning::EnvFile => (json!("/nothing/here"), json!({})),
        Meaning::LeftOut(_) => (json!({ "a": "canary" }), json!({})),
        Meaning::Ignored => (json!("custom"), json!({})),
    }
}

#[test]
fn every_field_that_a_program_documents_is_imported_or_left_out_with_its_reason() {
    let mut tried = 0;
    for &client in Client::ALL {
        let address = tables::fields(client).find(|(_, meaning)| matches!(meaning, Meaning::Address(_)));
        for (name, meaning) in tables::fields(client) {
            let is_for_addresses = matches!(
                meaning,
                Meaning::Address(_) | Meaning::VariableHeaders | Meaning::BearerVariable | Meaning::Texts("headers")
            );
            let base = match (is_for_addresses, address) {
                (false, _) => ("command", "x"),
                (true, Some((address, _))) => (address, "https://x/mcp"),
                // This program has only servers that it starts, and so no headers.
                (true, None) => continue,
            };
            let (value, ours) = example(meaning);
            let spellings: BTreeSet<_> = [name.to_owned(), camel(name), name.replace('_', "-")].into();
            for spelled in spellings {
                let mut entry = json!({ &spelled: value.clone() });
                if name != base.0 && !matches!(meaning, Meaning::Address(_)) {
                    entry[base.0] = json!(base.1);
                }
                let disk = Disk::new();
                disk.write(path_of(client, &disk), &file_of(client, &entry));
                let found = disk.look(client);
                assert!(found.problems.is_empty(), "{client} {spelled}: {:#?}", found.problems);
                let [offer] = &*found.offers else { panic!("{client} {spelled}: {found:#?}") };
                for (field, value) in ours.as_object().unwrap() {
                    assert_eq!(&offer.entry[field], value, "{client} {spelled}: {}", offer.entry);
                }
                let notes = match meaning {
                    Meaning::LeftOut(why) => vec![format!("`{spelled}` is left out: {why}")],
                    Meaning::EnvFile => vec![format!("`{spelled}` is left out: there is no file /nothing/here")],
                    _ => Vec::new(),
                };
                assert_eq!(offer.notes, notes, "{client} {spelled}");
                assert!(!offer.entry.to_string().contains("canary"), "{}", offer.entry);
                tried += 1;
            }
        }
    }
    assert!(tried > 180, "{tried}");
}

#[test]
fn placeholders_that_only_vs_code_can_fill_in_become_variables_that_a_note_names() {
    for (text, ours, note) in [
        ("${command:pickPort}", "${PICKPORT}", "`PICKPORT` to `${command:pickPort}`"),
        ("${config:python.path}", "${PYTHON}", "`PYTHON` to `${config:python.path}`"),
        ("${env:A-B}", "${A_B}", "`A_B` to the variable `A-B`"),
        ("${env:A:-b}", "${A:-b}", ""),
        ("${input:no such}", "${NO_SUCH}", "`NO_SUCH` to what VS Code asks for"),
        ("a${pathSeparator}b${/}c", "a/b/c", ""),
        ("${workspaceFolderBasename}", "shop", ""),
        ("${VAR}", "${VAR}", "`${VAR}` is a placeholder to Toolrack; VS Code uses it unchanged"),
    ] {
        let file = json!({ "servers": { "x": { "command": "x", "args": [text] } } });
        let (entry, notes) = entry_in(Client::VsCode, ".config/Code/User/mcp.json", &file.to_string());
        assert_eq!(entry["args"], json!([ours]), "{text}");
        assert_eq!(notes.len(), usize::from(!note.is_empty()), "{text}: {notes:?}");
        assert!(notes.iter().all(|known| known.contains(note)), "{text}: {notes:?}");
    }
}

#[test]
fn a_folder_with_a_dollar_in_its_name_is_inserted_as_it_is_called() {
    let disk = Disk::new();
    let project = disk.home().join("code/$HOME ${x}");
    fs::create_dir_all(project.join(".git")).unwrap();
    let file = json!({ "servers": { "x": { "command": "x", "env": { "AT": "${workspaceFolder}/${userHome}" } } } });
    disk.write(project.join(".vscode/mcp.json"), &file.to_string());
    let expanded = |environment: &Environment| {
        let found = look(environment, &project, &[Client::VsCode]);
        let text = found.offers[0].entry["env"]["AT"].as_str().unwrap().to_owned();
        let expanded = placeholder::expand(&text, BareName::Placeholder, &|_| Ok(Some("looked up".to_owned())));
        (expanded.unwrap(), text)
    };
    let (at, _) = expanded(&disk.environment());
    assert_eq!(at, format!("{}/{}", project.display(), disk.home().display()));
    // If the home folder is not known now, it is looked up when the server starts.
    let (_, text) = expanded(&Environment::default());
    assert!(text.ends_with("/${HOME}"), "{text}");
}
