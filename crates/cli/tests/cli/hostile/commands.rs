//! Every command of the binary, and what it is given in a hostile repository.

use std::collections::BTreeSet;

use super::repository::{Fate, OF_EVERY_KIND};
use crate::rack::{Rack, commands_of_help};

/// How a command must end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    /// With this exit code.
    With(i32),
    /// As it must for a user who needs the server.
    Refused,
    /// As it must for a user who looks for mistakes: a disabled server is not a mistake.
    Examined,
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

use Ends::{Examined, Refused, With};

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
    line("tools", &["@"], Refused),
    line("tools", &["@", "--schema"], Refused),
    line("tools", &["@", "--search", "read a file", "--limit", "3"], Refused),
    line("tools", &["@/echo"], Refused),
    line("call", &["@/echo", "text=${SECRET}"], Refused),
    line("call", &["@.echo", "--args", "{\"text\": \"$SECRET\"}", "--no-validate"], Refused),
    line("call", &["mcp__@__echo", "--timeout", "1s"], With(5)),
    line("ask", &["--model", "mock/answers.json", "${SECRET}"], With(0)),
    line("ask", &["--model", "mock/answers.json", "--server", "@", "--allow", "*", "what?"], With(0)),
    line("ask", &["--model", "mock/answers.json", "--code", "what?"], With(0)),
    line("chat", &["--model", "mock/answers.json", "${SECRET}"], With(0)),
    line("serve", &["--listen", "127.0.0.1:0", "--with-parent", "--allow", "*"], With(0)),
    line("daemon start", &["--with-parent"], With(2)),
    line("daemon restart", &["--with-parent"], With(2)),
    line("daemon status", &[], With(1)),
    line("daemon stop", &[], With(0)),
    line("daemon logs", &[], With(0)),
    line("connect", &[], With(0)),
    line("connect", &["cursor", "--yes"], With(0)),
    line("daemon install", &["--unit-folder", "units"], With(0)),
    line("daemon uninstall", &["--unit-folder", "units"], With(0)),
    line("gateway", &[], With(0)),
    line("gateway", &["--server", "@", "--allow", "*"], With(0)),
    line("resources", &[], With(0)),
    line("resources", &["@"], Refused),
    line("read", &["@", "file:///etc/passwd"], Refused),
    line("prompts", &[], With(0)),
    line("prompts", &["@"], Refused),
    line("prompt", &["@/greet", "name=${SECRET}"], Refused),
    line("record", &["tape.jsonl", "call", "@/echo", "text=${SECRET}"], Refused),
    line("record", &["tape.jsonl", "tools"], With(0)),
    line("replay", &["../.mcp.json", "tools"], With(2)),
    line("sessions list", &[], With(0)),
    line("sessions list", &["--search", "@"], With(0)),
    line("sessions show", &[], With(2)),
    line("sessions show", &["@"], With(2)),
    line("sessions export", &["last", "-o", "export.md"], With(2)),
    line("sessions rename", &["@", "title"], With(2)),
    line("sessions delete", &["last", "--yes"], With(2)),
    line("sessions import", &["../.mcp.json"], With(2)),
    line("login", &["@", "--no-browser"], Refused),
    line("logout", &["@"], Refused),
    line("auth status", &[], With(0)),
    line("why", &["@/echo"], Refused),
    line("test", &[], With(7)),
    line("test", &["@"], Refused),
    line("logs", &[], With(0)),
    line("logs", &["@"], With(0)),
    line("audit list", &[], With(0)),
    line("audit list", &["--server", "@", "--since", "1h", "--denied"], With(0)),
    line("audit verify", &[], With(0)),
    line("audit export", &["--server", "@"], With(0)),
    line("policy test", &["@/write", "path=${SECRET}"], With(0)),
    line("policy list", &[], With(0)),
    line("policy answers", &[], With(0)),
    line("policy forget", &["@"], With(2)),
    line("policy forget", &["--all"], With(0)),
    line("pending", &[], With(0)),
    line("pending", &["--exit-code"], With(7)),
    line("pending", &["@"], With(0)),
    // Agreeing is one thing, and starting another.
    line("trust", &[], With(2)),
    line("trust", &["@", "--yes"], With(0)),
    line("trust diff", &[], With(0)),
    line("trust diff", &["@"], With(0)),
    line("trust approve", &["@", "--yes"], With(0)),
    line("untrust", &["--all"], With(0)),
    line("untrust", &["@"], With(2)),
    line("secret set", &["../secret"], With(2)),
    line("secret list", &[], With(0)),
    line("secret rm", &["@"], With(2)),
    line("secret key", &[], With(0)),
    line("team token", &["@"], With(2)),
    line("team members", &[], With(0)),
    line("team tokens", &["--tenant", "@"], With(0)),
    line("team revoke", &["@"], With(2)),
    line("team remove", &["@"], With(2)),
    line("doctor", &[], With(2)),
    line("doctor", &["--offline"], With(2)),
    line("doctor", &["@"], Examined),
    line("config path", &[], With(0)),
    line("config show", &[], With(0)),
    line("config validate", &[], With(2)),
    line("config validate", &["../.mcp.json"], With(2)),
    line("completions", &["bash"], With(0)),
    line("man", &[], With(0)),
    line("man", &["manual"], With(0)),
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

/// The commands that `--help` lists, but for those that only hold others. `trust` holds some and does something itself.
fn commands() -> BTreeSet<String> {
    let commands = commands_of_help(&Rack::new());
    let holds_others =
        |command: &[String]| commands.iter().any(|other| other.len() > command.len() && other.starts_with(command));
    let does_nothing = |command: &[String]| holds_others(command) && command != ["trust"];
    commands.iter().filter(|command| !does_nothing(command)).map(|command| command.join(" ")).collect()
}

#[test]
fn every_command_is_tried() {
    let tried: BTreeSet<String> = LINES.iter().map(|line| line.command.to_owned()).collect();
    assert_eq!(tried, commands(), "LINES and `toolrack --help` differ");
}
