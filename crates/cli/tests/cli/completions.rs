//! TAB in real shells, and the scripts and the manual.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::EffectLog;

use crate::{
    rack::{Rack, fake, mcp_json, work_file},
    sessions,
    terminal::Terminal,
};

/// A home in which there is something to complete: a server that was connected, one that never was, and a project whose
/// entries are not approved.
struct Desk {
    rack: Rack,
    /// Everything that a shell or a server wrote while words were completed.
    effects: EffectLog,
}

fn desk() -> Desk {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&[])), ("never", fake(&["--log", effects.path_str(), "--log-all"]))])
        .with_binary_on_path()
        .env("TERM", "xterm");
    let theirs = fake(&["--log", effects.path_str(), "--log-all"]);
    let marker = format!("$(touch {})", effects.path_str());
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", theirs), (&marker, json!({ "command": "x" }))]));
    work_file(&rack, "more.json", &mcp_json(&[("more", fake(&[]))]));
    work_file(&rack, "two words.txt", "x");
    for list in ["tools", "resources", "prompts"] {
        let _ = rack.run(&[list, "fake"]).ends_with(0);
    }
    sessions::keep(&sessions::database(&rack), &marker, sessions::largest_file());
    Desk { rack, effects }
}

/// A line as the user types it, and the same line after TAB.
const COMPLETED: &[(&str, &str)] = &[
    ("toolrack completi", "toolrack completions "),
    ("toolrack list fa", "toolrack list fake "),
    ("toolrack list the", "toolrack list theirs "),
    ("toolrack call fa", "toolrack call fake/"),
    ("toolrack call fake/ec", "toolrack call fake/echo "),
    ("toolrack call builtin/cur", "toolrack call builtin/current_time "),
    ("toolrack call fake/echo te", "toolrack call fake/echo text="),
    ("toolrack why --json fake/ec", "toolrack why --json fake/echo "),
    ("toolrack --mcp-config more.json list mo", "toolrack --mcp-config more.json list more "),
    ("toolrack --mcp-config=more.json call mo", "toolrack --mcp-config=more.json call more/"),
    ("toolrack record more.json call fake/ec", "toolrack record more.json call fake/echo "),
    ("toolrack read fake fake://no", "toolrack read fake fake://note "),
    ("toolrack read never fake://no", "toolrack read never fake://no"),
    ("toolrack prompt fa", "toolrack prompt fake/"),
    ("toolrack prompt fake/gre", "toolrack prompt fake/greet "),
    ("toolrack prompt fake/greet na", "toolrack prompt fake/greet name="),
    ("toolrack add x --scope pro", "toolrack add x --scope project "),
    ("toolrack add x --scope=pro", "toolrack add x --scope=project "),
    ("toolrack sessions show la", "toolrack sessions show last "),
    ("toolrack sessions delete --yes la", "toolrack sessions delete --yes last "),
    ("toolrack call --no-val", "toolrack call --no-validate "),
    ("toolrack --mcp-config mor", "toolrack --mcp-config more.json "),
    ("toolrack call fake/echo text=mor", "toolrack call fake/echo text=more.json "),
    ("toolrack call fake/echo text=two", r"toolrack call fake/echo text=two\ words.txt "),
    // Nothing is known, so nothing changes.
    ("toolrack call theirs/", "toolrack call theirs/"),
    ("toolrack call never/", "toolrack call never/"),
    ("toolrack call fake/nope", "toolrack call fake/nope"),
];

/// A shell that completes lines.
trait Shell {
    /// The line after `typed` and TAB.
    fn complete(&mut self, typed: &str) -> String;
}

fn completes_every_line(shell: &mut dyn Shell, desk: &Desk) {
    for (typed, expected) in COMPLETED {
        assert_eq!(shell.complete(typed), *expected, "{typed}");
    }
    let lines = desk.effects.read().lines;
    assert_eq!(lines.len(), 0, "TAB started something: {lines:?}");
}

/// A shell on a terminal that shows its line as `<line>` when Ctrl-X is pressed, and forgets it.
struct Interactive(Terminal);

impl Interactive {
    fn start(rack: &Rack, program: &str, args: &[&str], prepare: &str) -> Self {
        let mut terminal = Terminal::start(rack, 200, Path::new(program), args);
        terminal.type_in(&format!("{prepare}; echo read''y\n"));
        terminal.expect("ready\r\n");
        Self(terminal)
    }
}

impl Shell for Interactive {
    fn complete(&mut self, typed: &str) -> String {
        self.0.type_in(&format!("{typed}\t\u{18}"));
        let shown = self.0.expect_match("<[^>]*>");
        shown.trim_matches(['<', '>']).to_owned()
    }
}

mod bash {
    use super::*;

    fn start(rack: &Rack) -> Interactive {
        let prepare = r#"source <(toolrack completions bash); bind 'set enable-bracketed-paste off'; bind -x '"\C-x": printf "<%s>\n" "$READLINE_LINE"; READLINE_LINE='"#;
        Interactive::start(rack, "bash", &["--noprofile", "--norc", "-i"], prepare)
    }

    #[test]
    fn bash_completes_words_as_they_are_known_now() {
        let desk = desk();
        completes_every_line(&mut start(&desk.rack), &desk);
    }

    #[test]
    fn bash_completion_shows_the_choices() {
        let desk = desk();
        let mut bash = start(&desk.rack);
        bash.0.type_in("toolrack call \t\t\u{18}");
        let listed = bash.0.expect("<toolrack call >");
        for server in ["builtin/", "fake/", "never/", "theirs/"] {
            assert!(listed.contains(server), "{listed}");
        }
        assert!(!listed.contains("touch"), "{listed}");
    }

    #[test]
    fn bash_completion_is_silent_without_the_program() {
        let desk = desk();
        let mut bash = start(&desk.rack);
        bash.0.type_in("PATH=; echo go''ne\n");
        bash.0.expect("gone\r\n");
        bash.0.type_in("toolrack call fa\t\u{18}");
        let shown = bash.0.expect("<toolrack call fa>");
        assert!(!shown.contains("found") && !shown.contains("No such"), "{shown}");
    }
}

mod needs_zsh {
    use super::*;

    const KEYS: &str = r#"show() { zle -I; print -r -- "<$BUFFER>"; BUFFER= }; zle -N show; bindkey '^X' show"#;

    fn start(rack: &Rack) -> Interactive {
        let prepare = format!("autoload -Uz compinit; compinit -D -u; source <(toolrack completions zsh); {KEYS}");
        Interactive::start(rack, "zsh", &["-f", "-i"], &prepare)
    }

    #[test]
    fn zsh_completes_words_as_they_are_known_now() {
        let desk = desk();
        completes_every_line(&mut start(&desk.rack), &desk);
    }

    #[test]
    fn zsh_completion_shows_the_choices() {
        let desk = desk();
        let mut zsh = start(&desk.rack);
        zsh.0.type_in("toolrack call \t\u{18}");
        let listed = zsh.0.expect("<toolrack call >");
        for server in ["builtin/", "fake/", "never/", "theirs/", "-- built in, native"] {
            assert!(listed.contains(server), "{listed}");
        }
        assert!(!listed.contains("touch"), "{listed}");
    }

    #[test]
    fn zsh_completion_is_silent_without_the_program() {
        let desk = desk();
        let mut zsh = start(&desk.rack);
        zsh.0.type_in("PATH=; echo go''ne\n");
        zsh.0.expect("gone\r\n");
        zsh.0.type_in("toolrack call fa\t\u{18}");
        let shown = zsh.0.expect("<toolrack call fa>");
        assert!(!shown.contains("found") && !shown.contains("no such"), "{shown}");
    }

    #[test]
    fn zsh_finds_the_script_among_its_functions_too() {
        let desk = desk();
        let script = desk.rack.run(&["completions", "zsh"]).ends_with(0).stdout;
        work_file(&desk.rack, "functions/_toolrack", &script);
        let prepare = format!("fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -D -u; {KEYS}");
        let mut zsh = Interactive::start(&desk.rack, "zsh", &["-f", "-i"], &prepare);
        assert_eq!(zsh.complete("toolrack call fake/ec"), "toolrack call fake/echo ");
        assert_eq!(zsh.complete("toolrack list fa"), "toolrack list fake ");
    }
}

mod needs_fish {
    use std::process::Command;

    use super::*;

    /// The completions that fish offers for the last word of a line, each with its description.
    fn offers(rack: &Rack, line: &str) -> String {
        done(rack, &format!("toolrack completions fish | source; complete -C {}", quoted(line)))
    }

    /// What this script prints; it must not complain.
    fn done(rack: &Rack, script: &str) -> String {
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", script]);
        rack.set_environment(&mut fish);
        let output = fish.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap()
    }

    fn quoted(line: &str) -> String {
        format!("'{}'", line.replace('\\', r"\\").replace('\'', r"\'"))
    }

    struct Fish<'a>(&'a Rack);

    impl Shell for Fish<'_> {
        fn complete(&mut self, typed: &str) -> String {
            let offers = offers(self.0, typed);
            let before = typed.rsplit_once(' ').map_or("", |(before, _)| before);
            match offers.lines().collect::<Vec<_>>()[..] {
                [] => typed.to_owned(),
                [only] => {
                    // The text that fish inserts: quoted if necessary, followed by a blank unless more follows.
                    let word = only.split('\t').next().unwrap().replace(' ', r"\ ");
                    let blank = if word.ends_with(['/', '=']) { "" } else { " " };
                    format!("{before} {word}{blank}")
                }
                _ => format!("{typed} → {offers}"),
            }
        }
    }

    #[test]
    fn fish_completes_words_as_they_are_known_now() {
        let desk = desk();
        completes_every_line(&mut Fish(&desk.rack), &desk);
    }

    #[test]
    fn fish_completion_is_silent_without_the_program() {
        let gone = "toolrack completions fish | source; set PATH /nonexistent; complete -C 'toolrack call fa'";
        assert_eq!(done(&desk().rack, gone), "");
    }

    #[test]
    fn fish_completion_describes_each_word() {
        let desk = desk();
        assert_snapshot!(offers(&desk.rack, "toolrack call "), @"
        builtin/	built in, native
        fake/	user, stdio
        never/	user, stdio
        theirs/	project
        ");
        assert_snapshot!(offers(&desk.rack, "toolrack call fake/e"), @"
        fake/echo	Returns the text that it was given.
        fake/elicit	Asks the person for input: a form, a link (`url`), a link by the error -32042…
        fake/env	Returns an environment variable of the server, or null; without a name, all n…
        ");
    }
}

/// The completions of the last of these words, for a shell that shows no descriptions.
fn offers(rack: &Rack, words: &[&str]) -> Vec<String> {
    let mut command = rack.command(&[&["--", "toolrack"], words].concat());
    let output = command.env("TOOLRACK_COMPLETE", "bash").output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tools_of_a_project_are_offered_only_while_it_is_trusted() {
    let rack = Rack::new();
    let server = toolrack_testkit::fake_server_path().to_str().unwrap();
    let _ = rack.run(&["add", "-s", "project", "ours", "--", server, "stdio"]).ends_with(0);
    assert_eq!(offers(&rack, &["call", "ours/ech"]), ["ours/echo"]);

    let file = rack.home.read("work/.mcp.json");
    work_file(&rack, ".mcp.json", &file.replace("\"stdio\"]", "\"stdio\", \"--era\", \"both\"]"));
    assert_eq!(offers(&rack, &["call", "ours/ech"]), [] as [&str; 0], "the entry is another");
    work_file(&rack, ".mcp.json", &file);
    assert_eq!(offers(&rack, &["call", "ours/ech"]), ["ours/echo"]);

    std::fs::remove_file(rack.home.toolrack_home().join("toolrack.db")).unwrap();
    assert_eq!(offers(&rack, &["call", "ours/ech"]), [] as [&str; 0], "the user has not agreed");
    assert_eq!(offers(&rack, &["call", "our"]), ["ours/"]);
    assert!(!rack.home.toolrack_home().join("toolrack.db").exists(), "TAB changes nothing");
}

mod alone {
    use std::time::{Duration, Instant};

    use super::*;

    /// Users perceive a tenth of a second as immediate. The limit is longer, because this is a build without
    /// optimization.
    const AT_ONCE: Duration = Duration::from_millis(300);

    #[test]
    fn completion_answers_at_once_for_any_state() {
        let names: Vec<String> = (0..500).map(|number| format!("server{number}")).collect();
        let mut servers: Vec<_> = names.iter().map(|name| (name.as_str(), json!({ "command": "x" }))).collect();
        servers.push(("fake", fake(&["--tools", "1500"])));
        let rack = Rack::with(&servers);
        let _ = rack.run(&["tools", "fake"]).ends_with(0);
        for (words, expected) in [(["call", "server"], 500), (["call", "fake/tool_"], 1500)] {
            let quickest = (0..5).map(|_| {
                let started = Instant::now();
                assert_eq!(offers(&rack, &words).len(), expected);
                started.elapsed()
            });
            let quickest = quickest.min().unwrap();
            assert!(quickest < AT_ONCE, "{words:?} took {quickest:?}");
        }
    }
}

#[test]
fn completion_shows_descriptions_of_tools_and_obeys_none() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "escape-text"]))]);
    let _ = rack.run(&["tools", "fake"]);
    let mut command = rack.command(&["--", "toolrack", "call", "fake/"]);
    let output = command.env("TOOLRACK_COMPLETE", "fish").output().unwrap();
    let offers = String::from_utf8(output.stdout).unwrap();
    assert!(offers.contains("[31mred[0mtxt.exe"), "the fault shows: {offers}");
    assert!(!offers.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{offers:?}");
}

#[test]
fn scripts_and_manual_need_neither_home_nor_configuration() {
    let rack = Rack::new();
    let mut command = rack.command(&["completions", "bash"]);
    let output = command.env_clear().output().unwrap();
    assert!(output.status.success());
    for args in [["completions", "zsh"].as_slice(), &["completions", "powershell"], &["man"], &["man", "--json"]] {
        assert!(rack.run(args).ends_with(0).stdout.contains("toolrack"));
    }
    let left: Vec<_> = std::fs::read_dir(rack.home.toolrack_home()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_snapshot!(rack.run(&["completions", "tcsh"]).ends_with(2).stderr.lines().next().unwrap(), @"error: invalid value 'tcsh' for '<SHELL>'");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let rack = Rack::new();
    let written = rack.run(&["man", "pages", "--json"]).ends_with(0).json();
    let files: Vec<_> = written["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert!(files.contains(&"pages/toolrack.1") && files.contains(&"pages/toolrack-call.1"), "{files:?}");
    for file in files {
        assert!(rack.home.read(format!("work/{file}")).starts_with(".ie"), "{file}");
    }
    work_file(&rack, "taken", "");
    assert_snapshot!(rack.run(&["man", "taken/deeper"]), @"
        $ toolrack man taken/deeper
        --- stderr ---
        error: cannot write taken/deeper: not a directory
        hint: name a folder that you may write to
        [1]
    ");
}
