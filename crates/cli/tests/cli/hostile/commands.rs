//! Every command of the binary, and its arguments in a hostile repository.

use std::sync::LazyLock;

use super::repository::{Fate, OF_EVERY_KIND};
use crate::rack::{Usage, usages};

/// How a command must end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    /// With this exit code.
    With(i32),
    /// With the exit code for a user who needs the server.
    Refused,
    /// With the exit code for a user who looks for mistakes. A disabled server is not a mistake.
    Examined,
}

/// A way to call a command.
#[derive(Debug)]
pub(super) struct Line {
    /// The command, as `--help` lists it; `config show` for a command below another.
    pub(super) command: String,
    /// Its arguments; `@` stands for a server.
    arguments: Vec<String>,
    ends: Ends,
}

fn line(command: &str, arguments: &[&str], ends: Ends) -> Line {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Line { command: command.to_owned(), arguments, ends }
}

use Ends::{Examined, Refused, With};

/// Every command: as [`TYPED`] says, or else with the arguments that its help requires.
pub(super) static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| {
    let typed = TYPED.iter().map(|&(command, arguments, ends)| line(command, arguments, ends));
    let is_typed = |usage: &Usage| TYPED.iter().any(|(command, ..)| *command == usage.command);
    typed.chain(usages().iter().filter(|usage| !is_typed(usage)).map(line_of)).collect()
});

/// A command that has no line in [`TYPED`]. If it requires a server or a tool, it must be refused.
fn line_of(usage: &Usage) -> Line {
    let arguments: Vec<&str> = usage
        .required
        .iter()
        .map(|name| match name.as_str() {
            "SERVER" => "@",
            "TOOL" => "@/echo",
            "PROMPT" => "@/greet",
            other => panic!("say in TYPED how `{}` is typed: it wants {other}", usage.command),
        })
        .collect();
    let ends = if arguments.is_empty() { With(0) } else { Refused };
    line(&usage.command, &arguments, ends)
}

/// The commands that are typed or end in another way than [`usual`], in the order of `--help`.
const TYPED: &[(&str, &[&str], Ends)] = &[
    ("add", &["--scope", "local", "@", "--no-test", "--", "true"], With(0)),
    ("add-json", &["--scope", "local", "@", "{\"command\": \"true\"}", "--no-test"], With(0)),
    ("import", &[], With(0)),
    ("import", &["--all"], With(0)),
    ("import", &["--server", "code", "--dry-run"], With(0)),
    ("list", &[], With(0)),
    ("list", &["@"], With(0)),
    ("get", &["@"], With(0)),
    ("remove", &["--scope", "project", "@"], With(0)),
    ("enable", &["@"], With(0)),
    ("disable", &["@"], With(0)),
    ("tools", &[], With(0)),
    ("tools", &["@"], Refused),
    ("tools", &["@", "--schema"], Refused),
    ("tools", &["@", "--search", "read a file", "--limit", "3"], Refused),
    ("tools", &["@/echo"], Refused),
    ("call", &["@/echo", "text=${SECRET}"], Refused),
    ("call", &["@.echo", "--args", "{\"text\": \"$SECRET\"}", "--no-validate"], Refused),
    ("call", &["mcp__@__echo", "--timeout", "1s"], With(5)),
    ("ask", &["--model", "mock/answers.json", "${SECRET}"], With(0)),
    ("ask", &["--model", "mock/answers.json", "--server", "@", "--allow", "*", "what?"], With(0)),
    ("ask", &["--model", "mock/answers.json", "--code", "what?"], With(0)),
    ("chat", &["--model", "mock/answers.json", "${SECRET}"], With(0)),
    ("serve", &["--listen", "127.0.0.1:0", "--with-parent", "--allow", "*"], With(0)),
    ("daemon start", &["--with-parent"], With(2)),
    ("daemon restart", &["--with-parent"], With(2)),
    ("daemon status", &[], With(1)),
    ("connect", &[], With(0)),
    ("connect", &["cursor", "--yes"], With(0)),
    ("daemon install", &["--unit-folder", "units"], With(0)),
    ("daemon uninstall", &["--unit-folder", "units"], With(0)),
    ("gateway", &[], With(0)),
    ("gateway", &["--server", "@", "--allow", "*"], With(0)),
    ("resources", &[], With(0)),
    ("resources", &["@"], Refused),
    ("read", &["@", "file:///etc/passwd"], Refused),
    ("prompts", &[], With(0)),
    ("prompts", &["@"], Refused),
    ("prompt", &["@/greet", "name=${SECRET}"], Refused),
    ("record", &["tape.jsonl", "call", "@/echo", "text=${SECRET}"], Refused),
    ("record", &["tape.jsonl", "tools"], With(0)),
    ("replay", &["../.mcp.json", "tools"], With(2)),
    ("sessions list", &[], With(0)),
    ("sessions list", &["--search", "@"], With(0)),
    ("sessions show", &[], With(2)),
    ("sessions show", &["@"], With(2)),
    ("sessions export", &["last", "-o", "export.md"], With(2)),
    ("sessions rename", &["@", "title"], With(2)),
    ("sessions delete", &["last", "--yes"], With(2)),
    ("sessions import", &["../.mcp.json"], With(2)),
    ("login", &["@", "--no-browser"], Refused),
    ("test", &[], With(7)),
    ("test", &["@"], Refused),
    ("logs", &[], With(0)),
    ("logs", &["@"], With(0)),
    ("audit list", &[], With(0)),
    ("audit list", &["--server", "@", "--since", "1h", "--denied"], With(0)),
    ("audit export", &["--server", "@"], With(0)),
    ("audit verify-export", &["@"], With(1)),
    ("policy test", &["@/write", "path=${SECRET}"], With(0)),
    ("policy forget", &["@"], With(2)),
    ("policy forget", &["--all"], With(0)),
    ("pending", &[], With(0)),
    ("pending", &["--exit-code"], With(7)),
    ("pending", &["@"], With(0)),
    // This only agrees, and starts nothing.
    ("trust", &[], With(2)),
    ("trust", &["@", "--yes"], With(0)),
    ("trust diff", &[], With(0)),
    ("trust diff", &["@"], With(0)),
    ("trust approve", &["@", "--yes"], With(0)),
    ("untrust", &["--all"], With(0)),
    ("untrust", &["@"], With(2)),
    ("secret set", &["../secret"], With(2)),
    ("secret rm", &["@"], With(2)),
    ("team token", &["@"], With(2)),
    ("team tokens", &["--tenant", "@"], With(0)),
    ("team revoke", &["@"], With(2)),
    ("team remove", &["@"], With(2)),
    ("team audit", &["--team", "@"], With(2)),
    ("team quotas", &["--team", "@"], With(2)),
    ("team replicas", &["--team", "@"], With(2)),
    ("store migrate", &["--team", "@"], With(2)),
    ("doctor", &[], With(2)),
    ("doctor", &["--offline"], With(2)),
    ("doctor", &["@"], Examined),
    ("config validate", &[], With(2)),
    ("config validate", &["../.mcp.json"], With(2)),
    ("completions", &["bash"], With(0)),
    ("man", &[], With(0)),
    ("man", &["manual"], With(0)),
];

impl Line {
    /// The words to type for each of `servers` to which the line applies, with the expected exit code. If the command
    /// needs no server, one server of every kind is enough.
    pub(super) fn typed(&self, servers: &[(&str, Fate)]) -> Vec<(Vec<String>, i32)> {
        let words = |server: &str| -> Vec<String> {
            let arguments = self.arguments.iter().map(|argument| argument.replace('@', server));
            self.command.split(' ').map(str::to_owned).chain(arguments).collect()
        };
        let code = |fate| match (self.ends, fate) {
            (With(code), _) => code,
            (Refused | Examined, Fate::Pending) => 7,
            (Examined, Fate::Disabled) => 0,
            (Refused, Fate::Disabled) => 2,
        };
        if self.arguments.iter().any(|argument| argument.contains('@')) {
            let needed = if matches!(self.ends, With(_)) { OF_EVERY_KIND } else { servers.len() };
            servers.iter().take(needed).map(|&(server, fate)| (words(server), code(fate))).collect()
        } else {
            vec![(words(""), code(Fate::Pending))]
        }
    }
}

#[test]
fn every_line_is_of_a_command_and_differs_from_the_usual_one() {
    let usages = usages();
    for (command, arguments, ends) in TYPED {
        let usage = usages.iter().find(|usage| usage.command == *command);
        let usage = usage.unwrap_or_else(|| panic!("there is no command `{command}`"));
        let is_only = TYPED.iter().filter(|(other, ..)| other == command).count() == 1;
        let is_known = usage.required.iter().all(|name| ["SERVER", "TOOL", "PROMPT"].contains(&name.as_str()));
        if is_only && is_known {
            let line = line_of(usage);
            let is_usual =
                line.arguments == *arguments && std::mem::discriminant(&line.ends) == std::mem::discriminant(ends);
            let is_usual = is_usual && !matches!(ends, With(code) if *code != 0);
            assert!(!is_usual, "`{command}` is typed like this without a line");
        }
    }
}
