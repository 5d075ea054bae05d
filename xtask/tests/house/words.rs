//! Words that must not occur in code: some of them nowhere, others only in the crate that owns them.

use crate::none_of;
use crate::source::{Source, sources};

/// Returns every line for which `is_bad` is true, in the sources for which `is_checked` is true.
fn offences(is_checked: impl Fn(&Source) -> bool, is_bad: impl Fn(&str) -> bool) -> Vec<String> {
    let mut offences = Vec::new();
    for source in sources().into_iter().filter(is_checked) {
        let code = source.code();
        let bad = code.lines().zip(source.text.lines()).enumerate().filter(|(_, (code, _))| is_bad(code));
        offences.extend(bad.map(|(number, (_, line))| format!("{}:{}: {}", source.path, number + 1, line.trim())));
    }
    offences
}

/// Returns whether the code has this word as a whole word.
fn mentions(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part))
}

#[test]
fn no_source_has_a_to_do() {
    let later = ["todo!", "unimplemented!", "dbg!"];
    let found = offences(
        |_| true,
        |code| {
            later.iter().any(|word| code.contains(word))
                || code.contains("#[ignore")
                || code.contains("#[should_panic]")
        },
    );
    none_of(&found, "finish it, or leave it out (and say with what message a test should panic):");
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    let found = offences(|_| true, |code| code.contains("[allow("));
    none_of(&found, "write #[expect(lint, reason = \"…\")], which tells when it is no longer needed:");
    // An attribute may take several lines, so its text is looked at as a whole.
    let without: Vec<_> = sources()
        .iter()
        .flat_map(|source| {
            let code = source.code();
            let attributes =
                code.match_indices("[expect(").map(|(at, _)| code[at..].split(']').next().unwrap_or_default());
            attributes
                .filter(|attribute| !attribute.contains("reason ="))
                .map(|attribute| format!("{}: #{attribute}]", source.path))
                .collect::<Vec<_>>()
        })
        .collect();
    none_of(&without, "say why:");
}

#[test]
fn only_the_links_of_the_host_know_what_servers_speak_through() {
    let is_host = |source: &Source| source.path.starts_with("crates/host/src/");
    let is_link = |source: &Source| source.path.starts_with("crates/host/src/link");
    let found = offences(|source| is_host(source) && !is_link(source), |code| mentions(code, "reqwest"));
    none_of(&found, "only crates/host/src/link knows reqwest; give the others types of our own:");
    let found = offences(is_host, |code| mentions(code, "rmcp"));
    none_of(&found, "a program that embeds the host may have an rmcp of its own; do without it:");
}

#[test]
fn only_the_models_of_the_agent_know_what_providers_speak_through() {
    let is_agent = |source: &Source| source.path.starts_with("crates/agent/src/");
    let is_model = |source: &Source| source.path.starts_with("crates/agent/src/model");
    let found = offences(|source| is_agent(source) && !is_model(source), |code| mentions(code, "reqwest"));
    none_of(&found, "only crates/agent/src/model knows reqwest; a turn asks a Model:");
}

#[test]
fn types_are_named_after_things() {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let is_vague = |code: &str| {
        let words: Vec<_> =
            code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| {
            kinds.contains(&pair[0])
                && ["Manager", "Service", "Helper", "Util", "Utils"].iter().any(|bad| pair[1].ends_with(bad))
        })
    };
    none_of(&offences(|_| true, is_vague), "a thing has a name of its own (what does it manage?):");
}

/// Pronouns that leave open which actor is meant; the glossary in CONTRIBUTING.md has the actors.
const VAGUE: &[&str] = &["nobody", "somebody", "whoever", "everybody", "anybody"];

/// Returns the name of the function that this line declares; empty if it declares none.
fn function(line: &str) -> &str {
    let line = line.trim_start();
    let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn "));
    name.and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default()
}

#[test]
fn comments_and_messages_name_the_actor() {
    let is_vague = |line: &str| VAGUE.iter().any(|word| mentions(&line.to_lowercase(), word));
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.path.ends_with("house/words.rs")) {
        let shipped = if source.is_test() { 0 } else { source.without_tests().lines().count() };
        let bad = source.text.lines().enumerate().filter(|(number, line)| {
            // Strings of tests may be names without a meaning.
            let is_read = *number < shipped || line.trim_start().starts_with("//");
            is_read && is_vague(line) || is_vague(&function(line).replace('_', " "))
        });
        found.extend(bad.map(|(number, line)| format!("{}:{}: {}", source.path, number + 1, line.trim())));
    }
    none_of(&found, "say who: the user, the caller, the client, the server, the daemon, another process, …:");
}
