//! Completion in a conversation: commands, prompts and their arguments, servers and their resources.

use std::sync::Arc;

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{commands::COMMANDS, known::KnownItems};

/// The most candidates that are offered at once: users do not look through more.
const MAX_CANDIDATES: usize = 100;

/// The characters that may precede the `@` of a resource in the same word.
const BEFORE: &[char] = &['(', '[', '{', '<', '"', '\''];

/// Offers completions of the typed text.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) known: Arc<KnownItems>,
}

impl Completer for Offer {
    fn complete(&mut self, text: &str, at: usize) -> CompletionResult {
        CompletionResult::fresh(offered(text, at, &self.known))
    }
}

fn offered(text: &str, at: usize, known: &KnownItems) -> Vec<Suggestion> {
    let Some(before) = text.get(..at) else {
        return Vec::new();
    };
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |space| space + before[space..].chars().next().map_or(0, char::len_utf8));
    let word = &before[start..];
    let mention = word.trim_start_matches(BEFORE);
    let mut offered = if let Some(typed) = mention.strip_prefix('@') {
        mentions(known, typed, Span::new(at - mention.len(), at))
    } else if start == 0
        && let Some(typed) = word.strip_prefix('/')
    {
        commands(known, typed, Span::new(0, at))
    } else if let Some(command) = before.strip_prefix('/').filter(|_| !word.contains('=')) {
        arguments(known, command, word, Span::new(start, at))
    } else {
        Vec::new()
    };
    offered.truncate(MAX_CANDIDATES);
    offered
}

fn suggestion(value: String, about: &str, span: Span, goes_on: bool) -> Suggestion {
    let description = Some(about.to_owned()).filter(|about| !about.is_empty());
    Suggestion { value, description, span, append_whitespace: goes_on, ..Suggestion::default() }
}

/// First the server, then what it has: as with folders and files.
fn mentions(known: &KnownItems, typed: &str, span: Span) -> Vec<Suggestion> {
    let (servers, resources) = (known.servers(), known.resources());
    let is_complete = |server: &&String| typed.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with(':'));
    if servers.iter().find(is_complete).is_some() {
        let fits = resources.iter().filter(|resource| resource.word.starts_with(typed));
        return fits
            .map(|found| suggestion(format!("@{}", found.word), &found.about, span, found.is_complete))
            .collect();
    }
    let has_some = |server: &&String| resources.iter().any(|found| found.server == **server);
    let fits = servers.iter().filter(|server| server.starts_with(typed)).filter(has_some);
    fits.map(|server| suggestion(format!("@{server}:"), "", span, false)).collect()
}

fn commands(known: &KnownItems, typed: &str, span: Span) -> Vec<Suggestion> {
    let fits = COMMANDS.iter().filter(|command| command.name.starts_with(typed));
    let commands =
        fits.map(|command| suggestion(format!("/{}", command.name), command.about, span, !command.argument.is_empty()));
    let prompts = known.prompts();
    let fits = prompts.iter().filter(|prompt| prompt.word.starts_with(typed));
    let prompts =
        fits.map(|prompt| suggestion(format!("/{}", prompt.word), &prompt.about, span, !prompt.arguments.is_empty()));
    commands.chain(prompts).collect()
}

/// `name=` for each argument of the prompt that is not there yet.
fn arguments(known: &KnownItems, command: &str, word: &str, span: Span) -> Vec<Suggestion> {
    let prompts = known.prompts();
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let Some(prompt) = prompts.iter().find(|prompt| prompt.word == first) else {
        return Vec::new();
    };
    let given: Vec<_> = words.filter_map(|word| Some(word.split_once('=')?.0)).collect();
    let fits = |name: &&String| name.starts_with(word) && !given.contains(&name.as_str());
    prompt.arguments.iter().filter(fits).map(|name| suggestion(format!("{name}="), "", span, false)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_host::ServerName;

    use super::*;

    fn known() -> KnownItems {
        let known = KnownItems::default();
        let server = |name: &str| ServerName::new(name).unwrap();
        let prompts = json!([{ "name": "summary", "description": "Sums up.", "arguments": [{ "name": "style" }, { "name": "size" }] },
                             { "name": "two words" }, { "name": "bad\u{1b}" }]);
        let resources = json!([{ "uri": "docs://a" }, { "uri": "docs://b c" }, { "uri": "docs://\u{202e}" }]);
        let templates = json!([{ "uriTemplate": "docs://of/{name}" }, { "uriTemplate": "{+all}" }]);
        known.learn(
            &server("docs"),
            serde_json::from_value(prompts).unwrap(),
            serde_json::from_value(resources).unwrap(),
            serde_json::from_value(templates).unwrap(),
        );
        known.learn(&server("dull"), Vec::new(), Vec::new(), Vec::new());
        known
    }

    fn names(text: &str) -> Vec<String> {
        offered(text, text.len(), &known()).into_iter().map(|suggestion| suggestion.value).collect()
    }

    #[test]
    fn commands_are_offered_as_far_as_they_are_typed() {
        assert_eq!(names("/").len(), COMMANDS.len() + 1);
        assert_eq!(names("/re"), ["/resources", "/resume"]);
        assert_eq!(names("/tools"), ["/tools"]);
        for nothing in ["", "re", "/xyz", "/tools x", " /re"] {
            assert_eq!(names(nothing), Vec::<String>::new(), "{nothing}");
        }
    }

    #[test]
    fn a_prompt_is_offered_and_then_its_arguments() {
        assert_eq!(names("/do"), ["/docs:summary"]);
        assert_eq!(names("/docs:summary "), ["style=", "size="]);
        assert_eq!(names("/docs:summary st"), ["style="]);
        assert_eq!(names("/docs:summary style=x "), ["size="]);
        assert_eq!(names("/docs:summary style="), Vec::<String>::new());
        assert_eq!(names("/docs:other "), Vec::<String>::new());
    }

    #[test]
    fn a_server_is_offered_and_then_its_resources() {
        assert_eq!(names("@"), ["@docs:"], "one without resources is not");
        assert_eq!(names("what is in (@do"), ["@docs:"]);
        assert_eq!(names("@docs:"), ["@docs:docs://a", "@docs:<docs://b c>", "@docs:docs://of/"]);
        assert_eq!(names("@docs:docs://o"), ["@docs:docs://of/"]);
        assert_eq!(names("x@do"), Vec::<String>::new());
        let span = offered("see @do, please", 7, &known())[0].span;
        assert_eq!((span.start, span.end), (4, 7));
    }
}
