//! The binary on a terminal of 80 columns, where a user looks and types; and what changes without one.

use std::{path::Path, time::Duration};

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::{EffectLog, processes};

use crate::{
    rack::{Rack, commands_of_help, fake, mcp_json, work_file},
    sessions,
    terminal::Terminal,
};

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
const COLUMNS: usize = 80;

/// Gives the commands a terminal with colours and Unicode.
fn with_colours(rack: Rack) -> Rack {
    rack.env("TERM", "xterm-256color").env("LANG", "C.UTF-8")
}

/// A server with texts that are too wide, and one that cannot be reached for a long reason.
fn wide() -> Rack {
    let long = "/nonexistent/".to_owned() + &"folder/".repeat(20) + "server";
    let rack = Rack::with(&[("fake", fake(&["--era", "both"])), ("gone", json!({ "command": long }))]);
    let pending = json!({ "command": "x", "args": vec!["word"; 60] });
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", pending)]));
    let mut messages = sessions::largest_file();
    messages.push(toolrack_store::NewMessage::new(toolrack_store::Role::Tool, "日本語 and/so/on/".repeat(40)));
    sessions::keep(&sessions::database(&rack), &"a long title ".repeat(20), messages);
    with_colours(rack)
}

/// Runs a command to its end on a terminal. Returns its output without colour, and the exit code.
fn run_on_terminal(rack: &Rack, args: &[&str]) -> (String, i32) {
    let (raw, code) = Terminal::run(rack, args).end();
    (without_colour(&raw), code)
}

fn without_colour(raw: &str) -> String {
    anstream::adapter::strip_str(raw).to_string().replace("\r\n", "\n")
}

fn width(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(line)
}

#[test]
fn binary_content_stays_off_a_terminal() {
    let rack = wide();
    let hint = "`-o FILE` writes what is not text into a file\n";
    for options in [&[][..], &["-o", "-"]] {
        let (page, code) = run_on_terminal(&rack, &[&["read", "fake", "fake://blob"], options].concat());
        assert!(page.ends_with(&format!("[resource application/octet-stream, 3 B]\n{hint}")), "{page:?}");
        assert_eq!(code, 0);
    }
    assert!(!run_on_terminal(&rack, &["read", "fake", "fake://note"]).0.contains(hint));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let rack = wide();
    let broken = format!("{{ \"mcpServers\": {{ \"x\": {} \"y\" }} }}", "\"abc\" ".repeat(40));
    work_file(&rack, "broken.json", &broken);
    let mut lines: Vec<Vec<String>> = [
        "list",
        "tools",
        "tools fake --schema",
        "tools fake/sleep",
        "resources",
        "prompts",
        "why fake/echo",
        "why gone/x",
        "call gone/x",
        "call fake/echo text=1 nope=2",
        "call builtin/nothing",
        "--mcp-config broken.json list",
        "get fake",
        "get gone",
        "get theirs",
        "pending",
        "test gone",
        "doctor --offline",
        "config show",
        "config validate broken.json",
        "remove fak",
        "call --nope",
        "sessions list",
        "sessions show",
        "sessions show --full",
        "sessions show nope",
        "nope",
    ]
    .iter()
    .map(|line| line.split_whitespace().map(str::to_owned).collect())
    .collect();
    lines.extend(commands_of_help(&rack).into_iter().map(|command| [command, vec!["--help".to_owned()]].concat()));
    for line in lines {
        let args: Vec<&str> = line.iter().map(String::as_str).collect();
        let (page, _) = run_on_terminal(&rack, &args);
        assert!(!page.is_empty(), "{args:?}");
        for line in page.lines() {
            // A progress line is overwritten: only the text after the last return counts.
            let line = line.rsplit('\r').next().unwrap();
            assert!(width(line) <= COLUMNS, "{args:?}: {line:?}");
        }
    }
}

#[test]
fn a_narrow_terminal_is_wide_enough_for_every_page() {
    let rack = wide();
    let binary = Path::new(env!("CARGO_BIN_EXE_toolrack"));
    for args in
        [["list"].as_slice(), &["tools"], &["why", "gone/x"], &["call", "gone/x"], &["get", "gone"], &["--help"]]
    {
        let page = without_colour(&Terminal::start(&rack, 40, binary, args).end().0);
        for line in page.lines().map(|line| line.rsplit('\r').next().unwrap()) {
            assert!(width(line) <= 40, "{args:?}: {line:?}");
        }
    }
}

#[test]
fn a_long_reason_is_wrapped_below_its_column() {
    let rack = with_colours(Rack::with(&[
        ("fake", fake(&[])),
        ("gone", json!({ "command": "/nonexistent/folder/of/servers/that/were/here/yesterday" })),
    ]));
    assert_snapshot!(run_on_terminal(&rack, &["list"]).0.replace(rack.home.root().to_str().unwrap(), "[HOME]"), @"
        ✔ builtin  native  built in  connected (5 tools)
        ✔ fake     stdio   user      connected (22 tools)
        ✘ gone     stdio   user      failed — no such file:
                                     /nonexistent/folder/of/servers/that/were/here/yeste
                                     rday; check the path of the command
          configured in [HOME]/toolrack/mcp.json
        ");
}

#[test]
fn without_a_terminal_nothing_is_cut() {
    let rack = wide();
    let listed = rack.run(&["list"]).ends_with(0).stdout;
    assert!(listed.lines().any(|line| width(line) > 150), "{listed}");
    let tools = rack.run(&["tools"]).ends_with(0).stdout;
    assert!(!tools.contains('…'), "{tools}");
    let on_terminal = run_on_terminal(&rack, &["tools"]).0;
    assert!(on_terminal.contains('…'), "there is something to cut: {on_terminal}");
}

#[test]
fn a_secret_is_hidden_before_its_line_is_broken() {
    let secret = "canary ".repeat(30);
    let mut server = fake(&[]);
    server["env"] = json!({ "API_TOKEN": secret });
    let rack = with_colours(Rack::with(&[("fake", server)]));
    let (page, code) = run_on_terminal(&rack, &["call", "fake/protocol_error", &format!("message={secret}")]);
    assert_eq!(code, 5, "{page}");
    assert!(page.contains("fake refused protocol_error: ***") && !page.contains("canary"), "{page}");
}

#[test]
fn the_text_of_a_tool_is_printed_unchanged() {
    let rack = wide();
    let long = "word ".repeat(40);
    let (page, code) = run_on_terminal(&rack, &["call", "fake/echo", &format!("text={long}")]);
    assert_eq!((page.as_str(), code), (format!("{long}\n").as_str(), 0));
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let coloured = |rack: &Rack, args: &[&str]| Terminal::run(rack, args).end().0.contains("\u{1b}[");
    let rack = || with_colours(Rack::new());
    assert!(coloured(&rack(), &["list"]));
    assert!(coloured(&rack(), &["call", "nope/x"]));
    assert!(coloured(&rack(), &["--help"]));
    assert!(coloured(&rack(), &["nope"]));
    for args in [["list"].as_slice(), &["call", "nope/x"], &["--help"], &["nope"]] {
        let refused: [(&'static str, &str); 3] = [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")];
        for (name, value) in refused {
            assert!(!coloured(&rack().env(name, value), args), "{name}={value} {args:?}");
        }
        let never = [&["--color", "never"], args].concat();
        assert!(!coloured(&rack(), &never), "{never:?}");
        let always = [&["--color=always"], args].concat();
        assert!(coloured(&rack().env("NO_COLOR", "1"), &always), "{always:?}");
        assert!(coloured(&rack().env("CLICOLOR_FORCE", "1"), args), "{args:?}");
    }
}

#[test]
fn a_slow_server_is_named_while_it_is_waited_for_and_no_longer() {
    let rack = with_colours(Rack::with(&[("slow", fake(&["--start-delay-ms", "1500"]))]));
    let mut terminal = Terminal::run(&rack, &["call", "slow/echo", "text=done"]);
    terminal.expect("connecting to slow");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0);
    assert!(rest.ends_with("\r\u{1b}[Kdone\r\n"), "{rest:?}");
}

#[test]
fn without_a_terminal_no_progress_is_drawn() {
    let slow = || with_colours(Rack::with(&[("slow", fake(&["--start-delay-ms", "900"]))]));
    let args = ["call", "slow/echo", "text=done"];
    for rack in [slow().env("TERM", "dumb"), slow().env("CI", "true")] {
        assert_eq!(Terminal::run(&rack, &args).end(), ("done\r\n".to_owned(), 0));
    }
    assert_eq!(Terminal::run(&slow(), &[&args[..], &["-q"]].concat()).end(), ("done\r\n".to_owned(), 0));
    assert_eq!(slow().run(&args).ends_with(0).stderr, "");
}

#[test]
fn a_form_is_asked_for_and_answered() {
    let rack = with_colours(Rack::with(&[("fake", fake(&[]))]));
    let mut terminal = Terminal::run(&rack, &["call", "fake/elicit", "--color", "never"]);
    let asked = terminal.expect("Ctrl-D leaves the form.");
    assert!(asked.contains("The server `fake` asks: Who are you?"), "{asked}");
    let mut transcript = String::new();
    for typed in ["Ada", "old", "36", "", "", "2", ""] {
        let question = terminal.expect(": ");
        transcript += &format!("{question}: {typed}\n");
        terminal.type_in(&format!("{typed}\n"));
    }
    assert_snapshot!(transcript.replace('\r', ""), @"
          Name [nobody]: Ada
          age (whole number) [42]: old
          write a number
          age (whole number) [42]: 36
          score (number) [1.5]: 
          verified (y/n) [y]: 
          1) new
          2) old
          status (a number or a name) [new]: 2
          note (may be left out): 
    ");
    let summary = terminal.expect("Send this to `fake`? [y]es [n]o [e]dit ");
    assert!(
        summary.contains("  age: 36\r\n  score: 1.5\r\n  verified: y\r\n  status: old\r\n  note: (left out)"),
        "{summary}"
    );
    // A further Enter neither sends nor discards the form.
    terminal.type_in("\n");
    terminal.expect("y sends it, n declines");
    terminal.expect("Send this to `fake`? [y]es [n]o [e]dit ");
    terminal.type_in("y");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert_snapshot!(rest.trim_start_matches("y\r\n").trim(), @r#"{"action":"accept","content":{"name":"Ada","age":36,"score":1.5,"verified":true,"status":"old"}}"#);
}

#[test]
fn a_user_who_opted_out_is_not_asked() {
    let asks = || with_colours(Rack::with(&[("fake", fake(&[]))]));
    let refused = |rack: &Rack, args: &[&str]| {
        let (page, code) = run_on_terminal(rack, args);
        assert_eq!(code, 5, "{page}");
        assert!(!page.contains("asks"), "{page}");
    };
    refused(&asks(), &["--no-input", "call", "fake/elicit"]);
    refused(&asks().env("CI", "1"), &["call", "fake/elicit"]);
}

#[test]
fn ctrl_c_ends_with_130_and_restores_the_terminal() {
    let effects = EffectLog::new();
    let rack = with_colours(Rack::with(&[("fake", fake(&["--log", effects.path_str()]))])).with_binary_on_path();
    let script = "trap : INT; stty sane; stty -g; toolrack call fake/sleep ms=600000; echo ended:$?; stty -g";
    let mut terminal = Terminal::start(&rack, 80, Path::new("sh"), &["-c", script]);
    let before = terminal.expect_match("[0-9a-f:]{20,}\r\n");
    let _running = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    terminal.type_in("\u{3}");
    terminal.expect("ended:130\r\n");
    let (after, code) = terminal.end();
    assert_eq!((after, code), (before, 0));
}

#[test]
fn ctrl_c_at_a_question_ends_on_a_line_of_its_own() {
    let rack = with_colours(Rack::new());
    let mark = rack.home.root().to_str().unwrap().to_owned();
    let mut server = fake(&[]);
    server["env"] = json!({ "MARK": mark });
    rack.configure(&[("fake", server)]);
    let mut terminal = Terminal::run(&rack, &["call", "fake/elicit"]);
    terminal.expect("leaves the form.");
    terminal.expect(": ");
    let server = processes::with_env("MARK", &mark);
    assert!(!server.is_empty());
    terminal.type_in("\u{3}");
    let (rest, code) = terminal.end();
    assert_eq!(code, 130);
    assert!(rest.ends_with('\n'), "{rest:?}");
    assert!(processes::wait_all_gone(&server, LIMIT), "something was left running");
}
