use std::{path::PathBuf, time::Duration};

use clap::CommandFactory as _;

use super::*;
use crate::{
    args::{Color, OneOffServer, Scope},
    verbs::configure::add::args::{self as add, AddArgs, AddOptions, Target},
};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::parse_words(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
}

fn add(line: &str) -> AddArgs {
    match parse(line).unwrap().verb {
        Verb::Add(args) => args,
        other => panic!("{other:?}"),
    }
}

fn target(line: &str, after_dashes: bool) -> (Target, AddOptions) {
    let args = add(line);
    (args.target(after_dashes).unwrap(), args.options)
}

fn command(words: &[&str]) -> Target {
    Target::Command {
        command: words[0].to_owned(),
        arguments: words[1..].iter().map(|word| (*word).to_owned()).collect(),
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn variable_of(name: &str, value: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(value.to_owned()))
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
    add::AfterUrl::command().debug_assert();
}

#[test]
fn a_verb_that_is_understood_alone_is_understood_as_among_all_others() {
    for (line, is_understood) in [
        ("toolrack call fs/read path=a b:=1 --timeout 2m --json", true),
        ("toolrack call --args - fs/read -qvv --root a --root=b --no-validate", true),
        ("toolrack call --agent me --mcp-config a --strict-mcp-config --color never fs/read -- x --y", true),
        ("toolrack call fs/read --args -5 --no-daemon --no-input", true),
        ("toolrack tools a b --search words --limit 3 --schema", true),
        ("toolrack tools", true),
        ("toolrack list --exit-code a", true),
        ("toolrack read docs a://b", true),
        ("toolrack call", false),
        ("toolrack call --help", false),
        ("toolrack call --version", false),
        ("toolrack call a --json --json", false),
        ("toolrack call a --unknown", false),
        ("toolrack tools --limit 3", false),
        ("toolrack --json call a", false),
        ("toolrack", false),
    ] {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let alone = Cli::parse_common_verb(&words);
        assert_eq!(alone.is_some(), is_understood, "{line}");
        let among_all = Cli::try_parse_from(&words);
        assert!(alone.is_none_or(|alone| format!("{alone:?}") == format!("{:?}", among_all.unwrap())), "{line}");
    }
}

#[test]
fn add_takes_a_command_after_dashes_and_without() {
    let expected = command(&["npx", "-y", "server", "--flag", "-e", "X"]);
    for line in ["toolrack add fs -- npx -y server --flag -e X", "toolrack add fs npx -y server --flag -e X"] {
        let (target, options) = target(line, line.contains("--"));
        assert_eq!(target, expected);
        assert_eq!(options.env, []);
    }
}

#[test]
fn options_of_add_stand_before_or_after_the_name() {
    for line in [
        "toolrack add -e A=1 -s project --timeout 2m fs -- npx -y x",
        "toolrack add fs -e A=1 -s project --timeout 2m -- npx -y x",
        "toolrack add -e A=1 fs -s project --timeout 2m npx -y x",
    ] {
        let (target, options) = target(line, line.contains(" -- "));
        assert_eq!(target, command(&["npx", "-y", "x"]), "{line}");
        assert_eq!(options.env, [variable_of("A", "1")]);
        assert_eq!(options.scope, Some(Scope::Project));
        assert_eq!(options.timeout, Some(Duration::from_secs(120)));
    }
}

#[test]
fn a_url_is_an_endpoint_and_options_may_follow_it() {
    let line = "toolrack add -e A=1 docs https://example.com/mcp -H X-Key:v --no-test";
    let (target, options) = target(line, false);
    assert_eq!(target, Target::Url("https://example.com/mcp".to_owned()));
    assert_eq!(options.header, [pair("X-Key", "v")]);
    assert_eq!(options.env, [variable_of("A", "1")]);
    assert!(options.no_test);
}

#[test]
fn options_of_every_command_may_follow_a_url_too() {
    let cli = parse("toolrack add -q docs https://example.com/mcp --json -v --no-test --color never").unwrap();
    assert!(cli.global.json && cli.global.quiet && cli.global.verbose == 1 && cli.global.color == Color::Never);
    let help = parse("toolrack add docs https://example.com/mcp --help").unwrap_err();
    assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp);
    assert!(help.to_string().contains("toolrack add [OPTIONS] NAME"), "{help}");
}

#[test]
fn words_after_dashes_are_a_command() {
    let (target, _) = target("toolrack add odd -- https://example.com", true);
    assert_eq!(target, command(&["https://example.com"]));
}

#[test]
fn a_transport_that_is_named_decides() {
    let (stdio, _) = target("toolrack add -t stdio odd https://example.com a", false);
    assert_eq!(stdio, command(&["https://example.com", "a"]));
    let (http, _) = target("toolrack add -t streamable-http odd ${URL}", false);
    assert_eq!(http, Target::Url("${URL}".to_owned()));
}

#[test]
fn words_after_a_url_that_are_not_options_are_refused() {
    for line in ["toolrack add docs https://example.com/mcp extra", "toolrack add docs https://example.com/mcp --nope"]
    {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.starts_with("error: unexpected argument"), "{error}");
    }
}

#[test]
fn an_option_of_add_that_does_not_exist_is_not_taken_for_the_command() {
    let error = add("toolrack add fs --nope npx").target(false).unwrap_err();
    assert!(error.to_string().contains("'--nope'"), "{error}");
    let (target, _) = target("toolrack add fs -- --odd-name", true);
    assert_eq!(target, command(&["--odd-name"]));
}

#[test]
fn variables_and_headers_need_a_name() {
    assert_eq!(add("toolrack add -e TOKEN fs npx").options.env, [("TOKEN".to_owned(), None)]);
    assert!(parse("toolrack add -e 1TOKEN fs npx").is_err());
    assert!(parse("toolrack add --bearer-token-env a-b fs https://x").is_err());
    assert!(parse("toolrack add -e =x fs npx").is_err());
    assert_eq!(add("toolrack add -e A= fs npx").options.env, [variable_of("A", "")]);
    assert_eq!(add::header_pair("Authorization: Bearer a:b").unwrap(), pair("Authorization", "Bearer a:b"));
    assert!(add::header_pair("no colon").is_err());
}

#[test]
fn options_of_every_command_stand_before_or_after_the_verb() {
    for line in [
        "toolrack --json --mcp-config a --mcp-config b -v list",
        "toolrack list --mcp-config a -v --json --mcp-config b",
    ] {
        let global = parse(line).unwrap().global;
        assert!(global.json);
        assert_eq!(global.verbose, 1);
        assert_eq!(global.mcp_config, [PathBuf::from("a"), PathBuf::from("b")]);
    }
}

#[test]
fn a_conversation_is_gone_on_with_under_both_names() {
    for option in ["--session", "--resume", "-s", "-r"] {
        match parse(&format!("toolrack ask {option} last more")).unwrap().verb {
            Verb::Ask(args) => assert_eq!(args.session.as_deref(), Some("last"), "{option}"),
            other => panic!("{other:?}"),
        }
        match parse(&format!("toolrack chat {option} last")).unwrap().verb {
            Verb::Chat(args) => assert_eq!(args.resume.as_deref(), Some("last"), "{option}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_of_one_time_is_an_address_or_a_command_behind_dashes() {
    let once = |line: &str| parse(line).unwrap().global.one_off;
    let url = |url: &str| Some(OneOffServer::Url(url.to_owned()));
    let command = |words: &[&str]| Some(OneOffServer::Command(words.iter().map(|word| (*word).to_owned()).collect()));
    for (line, expected) in [
        ("toolrack tools https://h/mcp", url("https://h/mcp")),
        ("toolrack --json tools --schema -- npx -y X --flag", command(&["npx", "-y", "X", "--flag"])),
        ("toolrack test -- x", command(&["x"])),
        ("toolrack resources http://h", url("http://h")),
        ("toolrack call echo a=1 -- npx -y X", command(&["npx", "-y", "X"])),
        ("toolrack call -- npx -y X --root=. echo a=1 b:=2", command(&["npx", "-y", "X", "--root=."])),
        ("toolrack call --json -- npx -y X echo", command(&["npx", "-y", "X"])),
        ("toolrack prompt -- npx -y X greet who=me", command(&["npx", "-y", "X"])),
        ("toolrack read -- npx -y X a://b?c=d", command(&["npx", "-y", "X"])),
        ("toolrack call fs/read -- path=--json", None),
        ("toolrack tools -- --odd", None),
        ("toolrack call https://h/mcp echo a=1", url("https://h/mcp")),
        ("toolrack ask what --server https://h", url("https://h")),
        ("toolrack ask what -- x", command(&["x"])),
        ("toolrack ask https://h is what?", None),
        ("toolrack tools fs", None),
    ] {
        assert_eq!(once(line), expected, "{line}");
    }
    for (line, server, uri) in [
        ("toolrack read a://b -- x", "once", "a://b"),
        ("toolrack read -- x y a://b", "once", "a://b"),
        ("toolrack read https://h https://b", "once", "https://b"),
    ] {
        let Verb::Read(args) = parse(line).unwrap().verb else { panic!("{line}") };
        assert_eq!((&*args.server, args.uri.as_deref()), (server, Some(uri)), "{line}");
    }
    for (line, tool, arguments) in [
        ("toolrack call https://h echo a=1", "echo", ["a=1"].as_slice()),
        ("toolrack call -- npx -y X echo a=1 b:=2", "echo", &["a=1", "b:=2"]),
        ("toolrack call fs/read -- path=--json", "fs/read", &["path=--json"]),
    ] {
        let Verb::Call(args) = parse(line).unwrap().verb else { panic!("{line}") };
        assert_eq!(
            (&*args.selector, &*args.arguments),
            (tool, &*arguments.iter().map(|&a| a.to_owned()).collect::<Vec<_>>())
        );
    }
}

#[test]
fn a_command_in_one_word_is_split_behind_dashes_too() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("my server");
    std::fs::write(&program, "").unwrap();
    let program = program.to_str().unwrap();
    for (word, expected) in [
        ("npx -y '@scope/a pkg'", &["npx", "-y", "@scope/a pkg"][..]),
        ("npx -y 'open", &["npx -y 'open"]),
        (" ", &[" "]),
        (program, &[program]),
    ] {
        let words = ["toolrack", "tools", "--", word].map(OsString::from);
        let expected = OneOffServer::Command(expected.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(Cli::parse_words(&words).unwrap().global.one_off, Some(expected));
    }
}

#[test]
fn words_that_name_no_server_or_two_are_refused_with_a_hint() {
    for (line, says) in [
        ("toolrack call -- npx", "toolrack call TOOL NAME=VALUE -- COMMAND"),
        ("toolrack read -- npx -y X", "toolrack read URI -- COMMAND"),
        ("toolrack call fs/read --path=a", "without dashes: path=VALUE"),
        ("toolrack prompt docs/greet --who me", "without dashes: who=VALUE"),
        ("toolrack call fs/read --jsom", "'--json'"),
        ("toolrack tools https://h -- x", "one server"),
        ("toolrack tools https://h https://i", "one server"),
        ("toolrack call https://h", "TOOL is missing"),
        ("toolrack read docs", "name the resource"),
        ("toolrack read docs a://b -- x", "too many"),
    ] {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.contains(says), "{line}: {error}");
    }
}
