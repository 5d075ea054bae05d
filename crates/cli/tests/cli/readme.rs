//! Runs the console blocks of README and of the guide: their output must be exactly what the page shows.
//!
//! Commands are typed into `sh` on a terminal of 80 columns, one after the other, in a folder that looks like this
//! repository; a word behind `console` names another [`scene`]. A line `…` stands for any number of lines, and every
//! date is today. Where a block shows nothing, the command only has to work.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    rack::{Rack, mcp_json, repository, work_file},
    terminal::Terminal,
};

/// A command, and its output according to the page.
#[derive(Debug)]
struct Shown {
    line: usize,
    scene: String,
    typed: String,
    comes: Vec<String>,
}

/// How this test runs a command.
#[derive(Debug, PartialEq)]
enum Done {
    As(String),
    Skipped(&'static str),
}

/// The commands in the `console` blocks of a page, and what they show.
fn shown_in(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut scene = None;
    for (number, line) in page.lines().enumerate() {
        if let Some(named) = line.strip_prefix("```console") {
            scene = Some(named.trim().to_owned());
        } else if line == "```" {
            scene = None;
        } else if let Some(scene) = &scene {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(typed), _) => {
                    let (scene, typed) = (scene.clone(), typed.to_owned());
                    found.push(Shown { line: number + 1, scene, typed, comes: Vec::new() });
                }
                (None, Some(last)) => last.comes.push(dateless(line)),
                (None, None) => panic!("line {}: nothing was typed before {line}", number + 1),
            }
        }
    }
    found
}

impl Shown {
    fn done(&self) -> Done {
        let typed = self.typed.as_str();
        if let Some(arguments) = typed.strip_prefix("cargo run -- ") {
            return Done::As(format!("toolrack {arguments}"));
        }
        if typed.starts_with("cargo ") {
            return Done::Skipped("it builds or tests the repository");
        }
        if typed == "toolrack up" {
            return Done::Skipped("it goes on until it is stopped; the daemon has tests of its own");
        }
        if typed.starts_with("claude ") {
            return Done::Skipped("it is another program");
        }
        if typed.contains(">> ~/") || typed.contains("> ~/") {
            return Done::Skipped("it changes a home; the shells are driven elsewhere");
        }
        if typed.contains("https://") {
            // Nothing here uses the network: the entry is only written, where no command connects to it.
            let written = typed.strip_prefix("toolrack add ");
            let written = written.map(|rest| format!("TOOLRACK_HOME=$TMPDIR/elsewhere toolrack add --no-test {rest}"));
            return written.map_or(Done::Skipped("it needs the network"), Done::As);
        }
        Done::As(typed.to_owned())
    }

    /// Whether it needs no program but the binary.
    fn is_alone(&self) -> bool {
        self.typed.contains("builtin/")
    }

    /// Whether this is what the page says.
    fn is(&self, came: &[&str]) -> bool {
        fn fits(wanted: &[String], came: &[&str]) -> bool {
            match wanted.split_first() {
                None => came.is_empty(),
                Some((any, rest)) if any.trim() == "…" => (0..=came.len()).any(|at| fits(rest, &came[at..])),
                Some((line, rest)) => came.split_first().is_some_and(|(first, came)| line == first && fits(rest, came)),
            }
        }
        fits(&self.comes, came)
    }
}

/// A folder that looks like the repository to commands that only look, and a home in which nothing is configured.
fn rack(npx: Option<(&Path, &Path)>) -> Rack {
    let rack = Rack::new().env("TERM", "xterm").env("LANG", "C.UTF-8");
    for file in ["LICENSE-MIT", "README.md"] {
        work_file(&rack, file, &std::fs::read_to_string(repository().join(file)).unwrap());
    }
    for entry in std::fs::read_dir(repository().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        std::fs::create_dir_all(rack.home.work().join("crates").join(name)).unwrap();
    }
    let server = |name: &str, more: &[&str]| {
        let package = format!("@modelcontextprotocol/server-{name}");
        let args = [&["-y", package.as_str()], more].concat();
        json!({ "command": "npx", "args": args })
    };
    let servers = [("fs", server("filesystem", &["."])), ("everything", server("everything", &[]))];
    work_file(&rack, "mcp.json", &mcp_json(&servers));
    let rack = rack.with_binary_on_path();
    match npx {
        // The pinned packages.
        Some((node, modules)) => rack.with_npx(node, modules),
        None => rack,
    }
}

/// Prepares what a block is about, and returns what a shell does to get there.
///
/// All but the first have their own configuration, and are recognized by the folder in which ada has it.
fn scene(rack: &Rack, name: &str) -> &'static str {
    let shop = |folder: &str| {
        let entry = format!(
            r#""fs": {{ "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "{folder}"] }}"#
        );
        rack.home.write("home/shop/.mcp.json", format!("{{\n  \"mcpServers\": {{\n    {entry}\n  }}\n}}\n"));
    };
    match name {
        "" => return "",
        "cursor" => {
            let memory = r#""memory": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"] }"#;
            let servers =
                format!(r#"{{ "mcpServers": {{ {memory}, "docs": {{ "url": "https://example.com/mcp" }} }} }}"#);
            rack.home.write("home/.cursor/mcp.json", servers);
            return "cd; export TOOLRACK_HOME=$TMPDIR/cursor;";
        }
        "shop" => shop("."),
        "shop-edited" => shop("/"),
        other => panic!("there is no scene {other}"),
    }
    "cd ~/shop; export TOOLRACK_HOME=$TMPDIR/shop;"
}

/// What the user answers to each question.
const ANSWERS: &[(&str, &str)] = &[("[y/N] ", "y\n"), ("esc leaves", "\u{1b}")];

/// Every date is the same day.
fn dateless(line: &str) -> String {
    let is_date = |word: &str| {
        let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
        word.len() == 10 && word.split('-').map(str::len).eq([4, 2, 2]) && word.split('-').all(digits)
    };
    let words = line.split_inclusive([' ', ':']).map(|word| {
        let bare = word.trim_end_matches([' ', ':']);
        if is_date(bare) { word.replace(bare, "2026-11-22") } else { word.to_owned() }
    });
    words.collect()
}

/// What is on the terminal after this was typed, line by line, and the exit code.
fn typed(rack: &Rack, command: &str) -> (String, i32) {
    let (raw, code) = Terminal::start(rack, 80, Path::new("sh"), &["-c", command]).end_answering(ANSWERS);
    let work = format!("{}/", rack.home.work().canonicalize().unwrap().display());
    let home = rack.home.home().canonicalize().unwrap().display().to_string();
    let plain = anstream::adapter::strip_str(&raw).to_string().replace("\r\n", "\n");
    let plain = dateless(&plain.replace(&work, "").replace(&home, "/home/ada"));
    // The line that is shown while it waits replaces itself.
    let lines: Vec<&str> = plain.lines().map(|line| line.rsplit('\r').next().unwrap_or_default()).collect();
    (lines.join("\n"), code)
}

/// Runs the commands of the page that `may_be_done` selects. Fails with all differences in their output.
fn goes_through(page: &str, rack: &Rack, may_be_done: impl Fn(&Shown) -> bool) -> usize {
    let mut done = 0;
    let mut stale = String::new();
    let mut here = (String::new(), "");
    for shown in shown_in(page).iter().filter(|shown| may_be_done(shown)) {
        let command = match shown.done() {
            Done::As(command) => command,
            Done::Skipped(why) => {
                println!("SKIP {}: {why}", shown.typed);
                continue;
            }
        };
        if here.0 != shown.scene {
            here = (shown.scene.clone(), scene(rack, &shown.scene));
        }
        let (came, code) = typed(rack, &format!("stty echo; {} {command}", here.1));
        let fits = if shown.comes.is_empty() { code == 0 } else { shown.is(&came.lines().collect::<Vec<_>>()) };
        if !fits {
            let _ = writeln!(stale, "line {}: $ {}\n{came}\n[{code}]\n", shown.line, shown.typed);
        }
        done += 1;
    }
    assert!(stale.is_empty(), "the page does not show what comes now:\n\n{stale}");
    done
}

/// README, and each page of the guide, with its name.
fn pages() -> Vec<(String, String)> {
    let guide = std::fs::read_dir(repository().join("docs/guide")).unwrap();
    let mut files: Vec<_> = guide.map(|page| page.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "md"));
    files.sort();
    files.insert(0, repository().join("README.md"));
    let text = |file: &PathBuf| std::fs::read_to_string(file).unwrap();
    files.iter().map(|file| (file.file_name().unwrap().display().to_string(), text(file))).collect()
}

/// Runs all pages, each in its own home, and returns how many commands of each it ran.
fn go_through_all(npx: Option<(&Path, &Path)>, may_be_done: fn(&Shown) -> bool) -> HashMap<String, usize> {
    let done = pages().into_iter().map(|(name, page)| {
        println!("{name}");
        (name, goes_through(&page, &rack(npx), may_be_done))
    });
    done.collect()
}

#[test]
fn the_console_blocks_of_readme_and_guide_run_as_written() {
    let done = go_through_all(None, Shown::is_alone);
    assert_eq!((done["README.md"], done["start.md"]), (2, 1), "{done:?}");
}

mod needs_node {
    use super::*;
    use crate::rack::installed;

    #[test]
    fn the_tours_of_the_pages_go_as_they_say() {
        let node = installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node");
        let modules = installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules");
        let done = go_through_all(Some((&node, &modules)), |_| true);
        assert!(done["README.md"] >= 7 && done["start.md"] >= 9 && done["trust.md"] >= 3, "{done:?}");
    }
}

#[test]
fn a_page_that_shows_something_else_is_stale() {
    let stale = ["$ echo a", "b", "$ echo a", "a", "$ false", "$ printf 'a\\nb\\nc\\n'", "a", "…", "c"].join("\n");
    let page = format!("text\n```console\n{stale}\n```\n");
    let rack = rack(None);
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| goes_through(&page, &rack, |_| true)));
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("line 3: $ echo a\na\n[0]"), "{message}");
    assert!(message.contains("line 7: $ false\n\n[1]"), "{message}");
    assert_eq!(message.matches("line ").count(), 2, "{message}");
}
