//! Parses commands that begin with a slash. They are for the program, and not for the model.

use toolrack_config::closest;
use toolrack_host::{Pattern, ServerName, text};

use super::prompt::PromptRequest;
use crate::error::{Exit, Failure};

/// A command, as `/help` shows it.
#[derive(Debug)]
pub(super) struct CommandHelp {
    pub(super) name: &'static str,
    /// The argument of the command, in brackets if it may be left out.
    pub(super) argument: &'static str,
    pub(super) about: &'static str,
}

const fn help(name: &'static str, argument: &'static str, about: &'static str) -> CommandHelp {
    CommandHelp { name, argument, about }
}

/// Every command, in the order of `/help`.
pub(super) const COMMANDS: &[CommandHelp] = &[
    help("help", "", "Show the commands"),
    help("mcp", "", "Show the states of the servers"),
    help("tools", "[SEARCH]", "Show the tools, or those that fit"),
    help("resources", "", "Show the resources of the servers"),
    help("prompts", "", "Show the prompts of the servers"),
    help("allow", "GLOB", "Run tools that match without asking, until you leave"),
    help("deny", "GLOB", "Never run tools that match, until you leave"),
    help("model", "[MODEL]", "Show which model answers, or choose another one"),
    help("system", "[TEXT]", "Show the system prompt, or change it"),
    help("sessions", "", "Show the stored conversations"),
    help("resume", "SESSION", "Continue another conversation"),
    help("new", "", "Begin another conversation"),
    help("export", "[FILE]", "Print this conversation, or write it to a file (.md or .json)"),
    help("cost", "", "Show what this conversation has cost"),
    help("clear", "", "Clear the screen"),
    help("quit", "", "Leave"),
];

/// The command that the user typed.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Help,
    Mcp,
    Tools(Option<String>),
    Resources,
    Prompts,
    Allow(Pattern),
    Deny(Pattern),
    Model(Option<String>),
    System(Option<String>),
    Sessions,
    Resume(String),
    New,
    Export(Option<String>),
    Cost,
    Clear,
    Quit,
    /// `/server:prompt`.
    Prompt(PromptRequest),
}

/// The lines of `/help` about prompts, and about resources in a message.
pub(super) const PROMPT_AND_RESOURCE_HELP: &[CommandHelp] = &[
    help("SERVER:PROMPT", "[NAME=VALUE …]", "Use a prompt of a server; /prompts lists them"),
    CommandHelp {
        name: "@SERVER:URI",
        argument: "",
        about: "… anywhere in what you say adds a resource; /resources shows them",
    },
];

/// Parses `text` as a command; `None` when it is meant for the model.
///
/// # Errors
/// When there is no such command, or its argument is missing or wrong.
pub(super) fn parse(text: &str, servers: &[ServerName]) -> Option<Result<Command, Failure>> {
    let text = text.trim();
    if let Some(prompt) = parse_prompt(text.strip_prefix('/')?, servers) {
        return Some(prompt);
    }
    let (name, rest) = text.strip_prefix('/')?.split_once(char::is_whitespace).unwrap_or((&text[1..], ""));
    // A path, or a comment in a program, is meant for the model.
    if name.is_empty() || name.contains(['/', '*', '.']) || text.contains('\n') {
        return None;
    }
    Some(parse_command(name, rest.trim()))
}

/// Parses `text` as `SERVER:PROMPT …`; `None` when it is meant for the model. Names of servers may contain colons: if
/// several names fit, the longest one counts.
fn parse_prompt(text: &str, servers: &[ServerName]) -> Option<Result<Command, Failure>> {
    let rest_after = |server: &ServerName| text.strip_prefix(server.as_str())?.strip_prefix(':');
    let fitting = servers.iter().filter_map(|server| Some((server, rest_after(server)?)));
    if let Some((server, rest)) = fitting.max_by_key(|(server, _)| server.as_str().len()) {
        return Some(PromptRequest::parse(server.as_str(), rest).map(Command::Prompt));
    }
    let (server, rest) = text.split_whitespace().next()?.split_once(':')?;
    // Other texts with a colon, such as paths, are meant for the model.
    if server.is_empty() || rest.is_empty() || [server, rest].iter().any(|part| part.contains(['/', '*', '.'])) {
        return None;
    }
    let server = text::for_line(server);
    let hint = match closest(&server, servers.iter().map(ServerName::as_str)) {
        Some(suggestion) => format!("did you mean /{suggestion}:{}?", text::for_line(rest)),
        None => "/mcp shows the servers".to_owned(),
    };
    let failure = Failure::new(Exit::Usage, "UNKNOWN_SERVER", format!("there is no server `{server}`"));
    Some(Err(failure.hint(hint).server(&*server)))
}

fn parse_command(name: &str, rest: &str) -> Result<Command, Failure> {
    let name = name.to_ascii_lowercase();
    // Other programs use these names for `quit`.
    let name = if ["exit", "q", "bye"].contains(&&*name) { "quit".to_owned() } else { name };
    let Some(command_help) = COMMANDS.iter().find(|command_help| command_help.name == name) else {
        let suggestion = closest(&name, COMMANDS.iter().map(|command_help| command_help.name));
        let hint = suggestion
            .map_or("/help shows all commands".to_owned(), |suggestion| format!("did you mean /{suggestion}?"));
        return Err(Failure::usage(format!("there is no command /{name}")).hint(hint));
    };
    let usage_failure = |problem: &str| {
        Failure::usage(format!("/{name}: {problem}")).hint(format!("/{name} {}", command_help.argument))
    };
    match command_help.argument {
        "" if !rest.is_empty() => return Err(Failure::usage(format!("/{name} takes no argument"))),
        argument if rest.is_empty() && !argument.is_empty() && !argument.starts_with('[') => {
            return Err(usage_failure("which?"));
        }
        _ => {}
    }
    let optional_argument = || Some(rest.to_owned()).filter(|rest| !rest.is_empty());
    let pattern = || rest.parse::<Pattern>().map_err(|error| usage_failure(&error.to_string()));
    Ok(match command_help.name {
        "mcp" => Command::Mcp,
        "tools" => Command::Tools(optional_argument()),
        "resources" => Command::Resources,
        "prompts" => Command::Prompts,
        "allow" => Command::Allow(pattern()?),
        "deny" => Command::Deny(pattern()?),
        "model" => Command::Model(optional_argument()),
        "system" => Command::System(optional_argument()),
        "sessions" => Command::Sessions,
        "resume" => Command::Resume(rest.to_owned()),
        "new" => Command::New,
        "export" => Command::Export(optional_argument()),
        "cost" => Command::Cost,
        "clear" => Command::Clear,
        "quit" => Command::Quit,
        // Only `help` is left in `COMMANDS`.
        _ => Command::Help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<Command, Failure>> {
        super::parse(text, &["docs", "docs:new", "a.b"].map(|name| ServerName::new(name).unwrap()))
    }

    #[test]
    fn only_a_slash_and_one_word_at_the_beginning_is_a_command() {
        for line in ["hello", "/etc/hosts says what?", "/* a comment */", "/", "what is /help?", "/a\n/b"] {
            assert!(parse(line).is_none(), "{line}");
        }
        assert_eq!(parse(" /tools  read a file ").unwrap().unwrap(), Command::Tools(Some("read a file".to_owned())));
        assert_eq!(parse("/Quit").unwrap().unwrap(), Command::Quit);
    }

    #[test]
    fn a_server_and_a_colon_is_a_prompt() {
        let meant = |text| match parse(text) {
            Some(Ok(Command::Prompt(meant))) => (meant.server, meant.prompt, meant.arguments.len()),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(meant("/docs:summary"), ("docs".into(), "summary".into(), 0));
        assert_eq!(meant("/docs:new:summary a=1"), ("docs:new".into(), "summary".into(), 1));
        assert_eq!(meant("/a.b:x/y.z a='1\n2'"), ("a.b".into(), "x/y.z".into(), 1));
        assert_eq!(parse("/dogs:summary x=1").unwrap().unwrap_err().hint.unwrap(), "did you mean /docs:summary?");
        assert_eq!(parse("/xyz:summary").unwrap().unwrap_err().message, "there is no server `xyz`");
        for line in ["/usr/bin:/bin", "/x.y:1"] {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn every_command_in_help_exists() {
        for known in COMMANDS {
            let text = format!("/{} {}", known.name, if known.argument.is_empty() { "" } else { "x" });
            let command = parse(&text).unwrap().unwrap();
            assert!(known.name == "help" || command != Command::Help, "{text}");
        }
    }

    #[test]
    fn an_unknown_command_gets_a_suggestion() {
        let refused = |text| parse(text).unwrap().unwrap_err();
        assert_eq!(refused("/tolls").hint.unwrap(), "did you mean /tools?");
        assert_eq!(refused("/xyz").hint.unwrap(), "/help shows all commands");
        assert_eq!(refused("/resume").hint.unwrap(), "/resume SESSION");
        assert_eq!(refused("/quit now").message, "/quit takes no argument");
        assert_eq!(["/exit", "/q"].map(|typed| parse(typed).unwrap().unwrap()), [Command::Quit, Command::Quit]);
    }
}
