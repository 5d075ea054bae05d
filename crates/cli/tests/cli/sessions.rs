//! `toolrack sessions`: conversations are listed, replayed, exported, renamed, deleted and imported.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use insta::assert_snapshot;
use serde_json::{Value, json};
use toolrack_store::{ModelUse, NewMessage, NewSession, Role, Step, Store};

use crate::{
    rack::{Rack, Ran, fake, mcp_json, work_file},
    terminal::Terminal,
};

/// Sequences with which an attacker takes control of the user's terminal.
const ESCAPES: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{200b}";

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn database(rack: &Rack) -> std::path::PathBuf {
    rack.home.toolrack_home().join("toolrack.db")
}

/// Stores a conversation with these messages in the database `path`, and returns the beginning of its id.
pub(crate) fn keep(path: &Path, title: &str, messages: Vec<NewMessage>) -> String {
    block_on(async {
        let store = Store::open(path).await.unwrap();
        let new =
            NewSession { title: title.to_owned(), model: Some("mock/parrot".to_owned()), agent: None, owner: None };
        let session = store.create_session(&new).await.unwrap();
        store.append(session.id, &Step { messages, ..Step::default() }).await.unwrap();
        let prefix = store.session(session.id).await.unwrap().prefix;
        store.close().await;
        prefix
    })
}

fn says(role: Role, content: &str) -> NewMessage {
    NewMessage::new(role, content)
}

/// A message whose parts are complete only in the agent's own JSON.
fn wrote(role: Role, body: &Value) -> NewMessage {
    NewMessage { body: Some(body.to_string()), ..says(role, body["content"].as_str().unwrap()) }
}

/// Returns a conversation in which a user asks for the largest file, and a model looks for it.
pub(crate) fn largest_file() -> Vec<NewMessage> {
    let call = json!({ "id": "c1", "name": "builtin__list_directory", "input": { "path": ".", "depth": 2 } });
    let lines: Vec<_> = (1..=20).map(|number| format!("file{number}.txt  {} B", number * 100)).collect();
    let spent = ModelUse { input: 1200, output: 40, cost: Some(12_300_000), ..ModelUse::default() };
    vec![
        says(Role::System, "Be brief."),
        says(Role::User, "List the files here and tell me which is largest.\n\nThank you!"),
        NewMessage {
            spent: Some(spent),
            ..wrote(Role::Assistant, &json!({ "role": "assistant", "content": "I will look.", "tool_calls": [call] }))
        },
        wrote(Role::Tool, &json!({ "role": "tool", "content": lines.join("\n"), "tool_call_id": "c1" })),
        says(Role::Assistant, "**file20.txt** is the largest."),
    ]
}

/// Returns the output of a command, without what differs from run to run: the id that begins with `prefix`, and times.
fn scrubbed(ran: &Ran, prefix: &str) -> String {
    let text = ran.to_string().replace(prefix, "[ID]");
    let mut scrubbed = String::new();
    let mut rest = text.as_str();
    // A time is `hh:mm` or `hh:mm:ss`, and may follow a day.
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        scrubbed += &rest[..at];
        rest = &rest[at..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':')).unwrap_or(rest.len());
        let is_day = rest.len() > 10 && rest.as_bytes()[4] == b'-' && rest.as_bytes()[7] == b'-';
        if is_day {
            scrubbed += "[DAY]";
            rest = &rest[10..];
        } else {
            scrubbed += if rest[..end].contains(':') { "[TIME]" } else { &rest[..end] };
            rest = &rest[end..];
        }
    }
    scrubbed + rest
}

#[test]
fn an_empty_list_of_conversations_has_a_hint() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["sessions", "list"]), @"
    $ toolrack sessions list
    --- stderr ---
    there are no sessions yet; `toolrack ask` and `toolrack chat` begin one
    [0]
    ");
    assert_snapshot!(rack.run(&["sessions", "show"]), @"
    $ toolrack sessions show
    --- stderr ---
    error: there are no sessions yet
    hint: `toolrack ask` and `toolrack chat` begin one
    [2]
    ");
    let list = rack.run(&["sessions", "list", "--json"]).ends_with(0).json();
    assert_eq!((&list["sessions"], &list["totals"]["sessions"]), (&json!([]), &json!(0)));
}

#[test]
fn sessions_show_replays_what_happened_with_long_results_folded() {
    let rack = Rack::new();
    let id = keep(&database(&rack), "Largest file", largest_file());
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "show"]), &id), @r#"
    $ toolrack sessions show
    [ID]  Largest file
    5 messages - mock/parrot - [DAY] [TIME] - 1200 tokens in, 40 out - $0.0123

    [SYSTEM]  [TIME]
      Be brief.

    [USER]  [TIME]
      List the files here and tell me which is largest.

      Thank you!

    [ASSISTANT]  [TIME]
      I will look.
      -> builtin__list_directory {"path":".","depth":2}

    [TOOL] builtin__list_directory  [TIME]
      file1.txt  100 B
      file2.txt  200 B
      file3.txt  300 B
      file4.txt  400 B
      file5.txt  500 B
      file6.txt  600 B
      file7.txt  700 B
      file8.txt  800 B
      ... 12 more lines; --full shows all

    [ASSISTANT]  [TIME]
      **file20.txt** is the largest.
    [0]
    "#);
    let full = rack.run(&["sessions", "show", &id, "--full"]).ends_with(0);
    assert!(full.stdout.contains("file20.txt  2000 B"), "{full}");
    assert!(full.stdout.contains("    {\n      \"path\": \".\",\n"), "{full}");
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "show", "-n", "1"]), &id), @"
    $ toolrack sessions show -n 1
    [ID]  Largest file
    5 messages - mock/parrot - [DAY] [TIME] - 1200 tokens in, 40 out - $0.0123

    ... 4 messages before

    [ASSISTANT]  [TIME]
      **file20.txt** is the largest.
    [0]
    ");
    assert!(rack.run(&["sessions", "show", "--color", "always"]).stdout.contains("\u{1b}[35m[TOOL]"));
}

#[test]
fn messages_that_have_only_the_columns_of_synapse_are_replayed_too() {
    let rack = Rack::new();
    let calls = json!([{ "id": "call_1", "name": "list", "input": { "path": "." } }]).to_string();
    let call = NewMessage { tool_calls: Some(calls), ..says(Role::Assistant, "") };
    let result = |extra: &str| NewMessage {
        tool_results: Some(format!("{{\"tool_call_id\":\"call_1\"{extra}}}")),
        ..says(Role::Tool, "nothing is there")
    };
    let odd = NewMessage {
        body: Some("{ not json".to_owned()),
        tool_calls: Some("\"neither\"".to_owned()),
        tool_results: Some("[]".to_owned()),
        ..says(Role::Assistant, "odd")
    };
    let messages = vec![call, result(""), result(", \"is_error\": true"), odd];
    let id = keep(&database(&rack), "", messages);
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "show"]), &id), @r#"
    $ toolrack sessions show
    [ID]  (without a title)
    4 messages - mock/parrot - [DAY] [TIME]

    [ASSISTANT]  [TIME]
      -> list {"path":"."}

    [TOOL] list  [TIME]
      nothing is there

    [TOOL] list failed  [TIME]
      nothing is there

    [ASSISTANT]  [TIME]
      odd
    [0]
    "#);
}

#[test]
fn pictures_and_broken_arguments_are_described_briefly() {
    let rack = Rack::new();
    let call = json!({ "id": "c", "name": "draw", "input": null, "raw_arguments": "{\"size\": " });
    let parts = json!([
        { "type": "image", "mimeType": "image/png", "data": "AAAA".repeat(1000) },
        { "type": "resource", "resource": { "uri": "file:///a", "mimeType": "application/pdf", "blob": "AAAA" } },
        { "type": "later" }, 7,
    ]);
    let messages = vec![
        wrote(Role::Assistant, &json!({ "content": "", "tool_calls": [call] })),
        wrote(Role::Tool, &json!({ "content": "", "tool_call_id": "c", "is_error": true, "parts": parts })),
    ];
    let id = keep(&database(&rack), "Drawing", messages);
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "show"]), &id), @r#"
    $ toolrack sessions show
    [ID]  Drawing
    2 messages - mock/parrot - [DAY] [TIME]

    [ASSISTANT]  [TIME]
      -> draw {"size": 

    [TOOL] draw failed  [TIME]
      [image image/png, 3.0 kB]
      [resource application/pdf, 3 B]
      [later, 0 B]
      [content, 0 B]
    [0]
    "#);
}

#[test]
fn one_long_line_is_folded_as_well() {
    let rack = Rack::new();
    keep(&database(&rack), "Long", vec![says(Role::Tool, &format!("{}\nend", "ä".repeat(5_000)))]);
    let ran = rack.run(&["sessions", "show"]).ends_with(0);
    assert_eq!(ran.stdout.matches('ä').count(), 800, "{ran}");
    assert!(ran.stdout.contains("4203 more characters; --full shows all"), "{ran}");
    assert_eq!(rack.run(&["sessions", "show", "--full"]).stdout.matches('ä').count(), 5_000);
}

#[test]
fn sessions_are_listed_page_by_page_and_by_title() {
    let rack = Rack::new();
    for title in ["one", "two", "three"] {
        keep(&database(&rack), title, largest_file());
    }
    let titles = |args: &[&str]| -> Vec<String> {
        let listed = rack.run(&[&["sessions", "list", "--json"], args].concat()).ends_with(0).json();
        let sessions = listed["sessions"].as_array().unwrap().iter();
        sessions.map(|session| session["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles(&[]), ["three", "two", "one"]);
    assert_eq!(titles(&["-n", "2"]), ["three", "two"]);
    let listed = rack.run(&["sessions", "list", "--json"]).json();
    assert_eq!(titles(&["--after", listed["sessions"][1]["id"].as_str().unwrap()]), ["one"]);
    assert_eq!(titles(&["--search", "T"]), ["three", "two"]);
    let page = rack.run(&["sessions", "list", "-n", "2"]).ends_with(0);
    assert!(page.stdout.contains("5 messages  three"), "{page}");
    assert!(page.stdout.contains("3 sessions - 15 messages - 3600 tokens in, 120 out - $0.0369 in all"), "{page}");
    assert!(page.stderr.contains("there are more: toolrack sessions list --after "), "{page}");
    assert_eq!(rack.run(&["sessions", "list", "--search", "nope"]).stderr, "no session fits\n");
}

#[test]
fn an_unknown_session_gets_a_suggestion() {
    let rack = Rack::new();
    for title in ["Invoices of November", "Something else"] {
        keep(&database(&rack), title, vec![says(Role::User, "x")]);
    }
    let listed = rack.run(&["sessions", "list", "--search", "invoices", "--json"]).ends_with(0).json();
    let id = listed["sessions"][0]["prefix"].as_str().unwrap();
    let hint = format!("hint: did you mean `{id}` (Invoices of November)?");
    for typed in ["invoices of november", "Invoces of November"] {
        let ran = rack.run(&["sessions", "show", typed]).ends_with(2);
        assert!(ran.stderr.contains(&format!("there is no session `{typed}`")), "{ran}");
        assert!(ran.stderr.contains(&hint), "{ran}");
    }
    let ran = rack.run(&["sessions", "show", "ffff"]).ends_with(2);
    assert!(ran.stderr.contains("hint: `toolrack sessions list` shows them"), "{ran}");
    let misspelt = format!("{}x{}", &id[..5], &id[6..]);
    let ran = rack.run(&["sessions", "show", &misspelt]).ends_with(2);
    assert!(ran.stderr.contains(&format!("there is no session `{misspelt}`\nhint: did you mean `")), "{ran}");
    let ambiguous = &id[..4];
    let ran = rack.run(&["sessions", "show", ambiguous, "--json"]).ends_with(2).error();
    assert_eq!(ran["code"], "AMBIGUOUS_SESSION");
    assert_eq!(rack.run(&["sessions", "show", "x", "--json"]).ends_with(2).error()["code"], "UNKNOWN_SESSION");
}

#[test]
fn a_session_gets_another_title() {
    let rack = Rack::new();
    let id = keep(&database(&rack), "old", vec![says(Role::User, "x")]);
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "rename", "last", " A new title "]), &id), @"
    $ toolrack sessions rename last  A new title 
    renamed [ID] to A new title
    [0]
    ");
    assert_eq!(rack.run(&["sessions", "rename", &id, "x", "--json"]).json()["session"]["title"], "x");
    let _ = rack.run(&["sessions", "rename", &id, " "]).ends_with(2);
}

#[test]
fn sessions_are_deleted_only_after_a_user_confirms() {
    let rack = Rack::new();
    let id = keep(&database(&rack), "Secret plans", vec![says(Role::User, "x")]);
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "delete", &id]), &id), @"
    $ toolrack sessions delete [ID]
    --- stderr ---
    error: deleted conversations cannot be restored, and no user can be asked
    hint: check it, then add `--yes`
    [2]
    ");
    let rack = rack.env("TERM", "xterm-256color");
    let (shown, code) = Terminal::run(&rack, &["sessions", "delete", &id])
        .end_answering(&[("Delete 1 session for good? [y/N] ", "n\n")]);
    assert!(shown.contains("Secret plans") && shown.contains("nothing was deleted"), "{shown}");
    assert_eq!(code, 6);
    let _ = rack.run(&["sessions", "show", &id]).ends_with(0);
    let (_, code) = Terminal::run(&rack, &["sessions", "delete", &id])
        .end_answering(&[("Delete 1 session for good? [y/N] ", "y\n")]);
    assert_eq!(code, 0);
    let _ = rack.run(&["sessions", "show", &id]).ends_with(2);
}

#[test]
fn several_sessions_are_deleted_at_once_or_none_when_one_is_unknown() {
    let rack = Rack::new();
    let messages = || vec![says(Role::User, "x")];
    let _ = keep(&database(&rack), "one", messages());
    let _ = keep(&database(&rack), "two", messages());
    let listed = rack.run(&["sessions", "list", "--json"]).json();
    let id = |at: usize| listed["sessions"][at]["id"].as_str().unwrap().to_owned();
    let _ = rack.run(&["sessions", "delete", "--yes", &id(0), "ffff"]).ends_with(2);
    assert_eq!(rack.run(&["sessions", "list", "--json"]).json()["totals"]["sessions"], 2);
    let ran = rack.run(&["sessions", "delete", "--yes", &id(0), &id(1), "last", "--json"]).ends_with(0).json();
    assert_eq!(ran["deleted"].as_array().unwrap().len(), 2, "a session that is named twice is deleted once");
    assert_eq!(rack.run(&["sessions", "list", "--json"]).json()["totals"]["messages"], 0);
}

#[test]
fn an_export_is_markdown_or_json_and_for_its_owner_only() {
    let rack = Rack::new();
    let id = keep(&database(&rack), "Largest `file`", largest_file());
    let markdown = rack.run(&["sessions", "export", "last"]).ends_with(0).stdout;
    assert!(markdown.starts_with("# `` Largest `file` ``\n\n- Session: `"), "{markdown}");
    assert!(markdown.contains("## Tool: `builtin__list_directory`\n"), "{markdown}");
    assert!(markdown.contains("\nCalls `builtin__list_directory`\n\n```json\n{\n  \"path\": \".\","), "{markdown}");
    assert!(markdown.contains("```text\n**file20.txt** is the largest.\n```\n"), "{markdown}");

    let args = ["sessions", "export", &id, "--format", "json", "-o", "out.json"];
    assert_eq!(rack.run(&args).ends_with(0).stderr, "wrote out.json\n");
    let written: Value = serde_json::from_str(&rack.home.read("work/out.json")).unwrap();
    assert_eq!(written, rack.run(&["sessions", "show", "--json"]).json());
    assert_eq!(written, rack.run(&["sessions", "export", "last", "-f", "json"]).json());
    let mode = std::fs::metadata(rack.home.work().join("out.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let output = rack.run(&["sessions", "export", "last", "-o", "out.md", "--json"]).ends_with(0).json();
    assert_eq!((&output["file"], &output["content"]), (&json!("out.md"), &Value::Null));
    assert_eq!(rack.home.read("work/out.md"), markdown);
    let ran = rack.run(&["sessions", "export", "last", "-o", "none/out.md"]).ends_with(1);
    assert!(ran.stderr.contains("cannot write none/out.md: there is no such file or folder"), "{ran}");
}

#[test]
fn the_sessions_of_another_toolrack_are_imported_once() {
    let rack = Rack::new();
    let other = rack.home.root().join("other/toolrack.db");
    keep(&other, "theirs", largest_file());
    let file = other.to_str().unwrap();
    assert_snapshot!(rack.run(&["sessions", "import", file]), @"
    $ toolrack sessions import [HOME]/other/toolrack.db
    imported 1 session with 5 messages
    --- stderr ---
    `toolrack sessions list` shows them
    [0]
    ");
    assert_snapshot!(rack.run(&["sessions", "import", file]), @"
    $ toolrack sessions import [HOME]/other/toolrack.db
    imported 0 sessions with 0 messages; 1 was here already
    [0]
    ");
    assert!(rack.run(&["sessions", "show"]).ends_with(0).stdout.contains("[TOOL] builtin__list_directory"));
    work_file(&rack, "text", "nothing");
    assert_snapshot!(rack.run(&["sessions", "import", "text"]), @"
    $ toolrack sessions import text
    --- stderr ---
    error: text holds no sessions that can be read: it is damaged or no database
    [2]
    ");
}

/// A database of Synapse with two sessions of February 2024.
const SYNAPSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/fixtures/synapse.db");

#[test]
fn the_sessions_of_synapse_are_imported_and_replayed() {
    let rack = Rack::new();
    let before = std::fs::read(SYNAPSE).unwrap();
    let ran = rack.run(&["sessions", "import", SYNAPSE, "--json"]).ends_with(0).json();
    assert_eq!((&ran["sessions"], &ran["messages"], &ran["known"]), (&json!(2), &json!(6), &json!(0)));
    assert_eq!(std::fs::read(SYNAPSE).unwrap(), before);
    let id = "018d8875-2d00-7000-8000-000000000002";
    assert_snapshot!(scrubbed(&rack.run(&["sessions", "show", "last"]), id), @r#"
    $ toolrack sessions show last
    [ID]  Files
    4 messages - deepseek/deepseek-chat - [DAY] [TIME]

    [USER]  [TIME]
      Which files are here?

    [ASSISTANT]  [TIME]
      -> list_directory {"path":"."}

    [TOOL] list_directory  [TIME]
      [FILE] README.md

    [ASSISTANT]  [TIME]
      Only README.md.
    [0]
    "#);
    let first = rack.run(&["sessions", "show", &id.replace("0002", "0001"), "--json"]).ends_with(0).json();
    assert_eq!(first["session"]["title"], "Hello!", "a session without a name gets its first message as title");
}

#[test]
fn the_settings_decide_which_old_sessions_are_deleted() {
    let left = |settings: &str| {
        let rack = Rack::new();
        let _ = rack.run(&["sessions", "import", SYNAPSE]).ends_with(0);
        keep(&database(&rack), "new", vec![says(Role::User, "x")]);
        rack.home.write("toolrack/toolrack.toml", settings);
        let listed = rack.run(&["sessions", "list", "--json"]).ends_with(0).json();
        let sessions = listed["sessions"].as_array().unwrap().iter();
        sessions.map(|session| session["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(left(""), ["new", "Files", "Hello!"]);
    assert_eq!(left("[sessions]\nkeep_days = 90\n"), ["new"]);
    assert_eq!(left("[sessions]\nkeep = 2\n"), ["new", "Files"]);
    assert_eq!(
        left("[sessions]\nkeep = 2\nkeep_days = 0\n"),
        ["new", "Files", "Hello!"],
        "settings with an error delete nothing"
    );
}

#[test]
fn no_text_of_a_conversation_controls_the_terminal() {
    let rack = Rack::new();
    let hostile = format!("{ESCAPES}\r\n```\n# out {ESCAPES}\n");
    let body = json!({
        "content": hostile, "tool_calls": [{ "id": ESCAPES, "name": ESCAPES, "input": { ESCAPES: [ESCAPES] } }],
        "tool_call_id": ESCAPES, "parts": [{ "type": ESCAPES, "mimeType": ESCAPES, "data": ESCAPES }],
    });
    let messages = Role::ALL.map(|role| wrote(role, &body)).to_vec();
    let id = keep(&database(&rack), &hostile, messages);
    let controls = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{200b}' | '\u{202e}');
    for args in [
        ["list"].as_slice(),
        &["list", "--search", "out"],
        &["show"],
        &["show", "--full"],
        &["export", "last"],
        &["export", "last", "-f", "json"],
        &["rename", &id, ESCAPES],
        &["show", ESCAPES],
        &["delete", "--yes", "last"],
    ] {
        for more in [[].as_slice(), &["--json"]] {
            let mut words = [&["sessions"], args, more].concat();
            if args[0] == "delete" && more.is_empty() {
                keep(&database(&rack), &hostile, vec![says(Role::User, "x")]);
                words.push("-v");
            }
            let ran = rack.run(&words);
            assert!(ran.code == Some(0) || args[1] == ESCAPES, "{ran}");
            assert!(!ran.stdout.contains(controls) && !ran.stderr.contains(controls), "{ran}");
        }
    }
}

#[test]
fn a_secret_of_a_server_is_hidden_in_conversations() {
    let secret = "canary-of-the-environment";
    let rack = Rack::new().env("FAKE_TOKEN", secret).env("OTHERS_TOKEN", "canary-of-a-pending-server");
    let mut server = fake(&[]);
    server["env"] = json!({ "API_TOKEN": "${FAKE_TOKEN}" });
    rack.configure(&[("fake", server.clone())]);
    server["env"] = json!({ "API_TOKEN": "${OTHERS_TOKEN}" });
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", server)]));
    let call = json!({ "id": "c", "name": "env", "input": { "value": format!("x{secret}x") } });
    // The secret is at the place where folding would cut it in two.
    let result = format!("{}{secret}", "y".repeat(790));
    let messages = vec![
        says(Role::User, &format!("my token is {secret}")),
        wrote(Role::Assistant, &json!({ "content": "", "tool_calls": [call] })),
        says(Role::Tool, &result),
        says(Role::Tool, "canary-of-a-pending-server"),
    ];
    keep(&database(&rack), secret, messages);
    for args in [["list"].as_slice(), &["show"], &["show", "--full"], &["export", "last"], &["rename", "last", secret]]
    {
        for more in [[].as_slice(), &["--json"]] {
            let ran = rack.run(&[&["sessions"], args, more].concat()).ends_with(0);
            assert!(!ran.stdout.contains("canary-of-the") && !ran.stderr.contains("canary-of-the"), "{ran}");
        }
    }
    let ran = rack.run(&["sessions", "show", &secret[..secret.len() - 1]]).ends_with(2);
    assert!(ran.stderr.contains("(***)?"), "{ran}");
    let _ = rack.run(&["sessions", "export", "last", "-o", "out.md"]).ends_with(0);
    let _ = rack.run(&["sessions", "export", "last", "-f", "json", "-o", "out.json"]).ends_with(0);
    for file in ["work/out.md", "work/out.json"] {
        let written = rack.home.read(file);
        assert!(written.contains("***") && !written.contains(secret), "{written}");
        assert!(
            written.contains("canary-of-a-pending-server"),
            "a server that waits for approval has received no secret: {written}"
        );
    }
}
