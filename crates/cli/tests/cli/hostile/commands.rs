//! Every command of the binary, and what it is given in a hostile repository.

use std::collections::BTreeSet;

use super::repository::{Fate, OF_EVERY_KIND};
use crate::rack::Rack;

/// How a command must end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    /// With this exit code.
    With(i32),
    /// As it must for somebody who needs the server.
    Refused,
    /// As it must for somebody who asks what it offers: of a server that is switched off, nothing.
    Offers,
}

/// One way to call a command.
#[derive(Debug)]
pub(super) struct Line {
    /// The command, as `--help` lists it; `config show` for a command below another.
    pub(super) command: &'static str,
    /// Its arguments; `@` stands for a server.
    arguments: &'static [&'static str],
    ends: Ends,
}

const fn line(command: &'static str, arguments: &'static [&'static str], ends: Ends) -> Line {
    Line { command, arguments, ends }
}

use Ends::{Offers, Refused, With};

/// Every command, in the order of `--help`. A command that is not here fails a test.
pub(super) const LINES: &[Line] = &[
    line("add", &["--scope", "local", "@", "--no-test", "--", "true"], With(0)),
    line("add-json", &["--scope", "local", "@", "{\"command\": \"true\"}", "--no-test"], With(0)),
    line("import", &[], With(0)),
    line("import", &["--all"], With(0)),
    line("import", &["--server", "code", "--dry-run"], With(0)),
    line("list", &[], With(0)),
    line("list", &["@"], With(0)),
    line("get", &["@"], With(0)),
    line("remove", &["--scope", "project", "@"], With(0)),
    line("enable", &["@"], With(0)),
    line("disable", &["@"], With(0)),
    line("tools", &[], With(0)),
    line("tools", &["@"], Offers),
    line("tools", &["@", "--schema"], Offers),
    line("call", &["@/echo", "text=${SECRET}"], Refused),
    line("call", &["@.echo", "--args", "{\"text\": \"$SECRET\"}", "--no-validate"], Refused),
    line("call", &["mcp__@__echo", "--timeout", "1s"], With(5)),
    line("resources", &[], With(0)),
    line("resources", &["@"], Offers),
    line("read", &["@", "file:///etc/passwd"], Refused),
    line("prompts", &[], With(0)),
    line("prompts", &["@"], Offers),
    line("prompt", &["@/greet", "name=${SECRET}"], Refused),
    line("why", &["@/echo"], With(0)),
    line("test", &[], With(7)),
    line("test", &["@"], Refused),
    line("logs", &[], With(0)),
    line("logs", &["@"], With(0)),
    line("pending", &[], With(0)),
    line("pending", &["--exit-code"], With(7)),
    line("pending", &["@"], With(0)),
    // Agreeing is one thing, and starting another.
    line("trust", &[], With(0)),
    line("trust", &["@"], With(0)),
    line("trust", &["@", "--yes"], With(0)),
    line("untrust", &["--all"], With(0)),
    line("untrust", &["@"], With(2)),
    line("doctor", &[], With(2)),
    line("doctor", &["--offline"], With(2)),
    line("doctor", &["@"], Offers),
    line("config path", &[], With(0)),
    line("config show", &[], With(0)),
    line("config validate", &[], With(2)),
    line("config validate", &["../.mcp.json"], With(2)),
    line("completions", &["bash"], With(0)),
    line("man", &[], With(0)),
];

impl Line {
    /// The words to type for each of `servers` that the line is about, and the exit code to come. Where no server is
    /// needed, one of every kind is enough.
    pub(super) fn typed(&self, servers: &[(&str, Fate)]) -> Vec<(Vec<String>, i32)> {
        let words = |server: &str| -> Vec<String> {
            let arguments = self.arguments.iter().map(|argument| argument.replace('@', server));
            self.command.split(' ').map(str::to_owned).chain(arguments).collect()
        };
        let code = |fate| match (self.ends, fate) {
            (With(code), _) => code,
            (Refused | Offers, Fate::Pending) => 7,
            (Offers, Fate::Disabled) => 0,
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

/// The commands that `--help` lists, those below others as `config show`.
fn commands() -> BTreeSet<String> {
    let rack = Rack::new();
    let below = |words: &[&str]| -> Vec<String> {
        let help = rack.run(&[words, &["--help"]].concat()).ends_with(0).stdout;
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let listed = lines.take_while(|line| line.starts_with("  "));
        // What goes on in the next line is indented further.
        let names = listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect()
    };
    let mut commands = BTreeSet::new();
    for name in below(&[]) {
        let inner = below(&[&name]);
        commands.extend(inner.iter().map(|inner| format!("{name} {inner}")));
        if inner.is_empty() {
            commands.insert(name);
        }
    }
    commands
}

#[test]
fn every_command_is_tried() {
    let tried: BTreeSet<String> = LINES.iter().map(|line| line.command.to_owned()).collect();
    assert_eq!(tried, commands(), "LINES and `toolrack --help` differ");
}
