//! Completes what the user types in a conversation: commands, prompts and their arguments, servers and their resources.

use std::sync::Arc;

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{commands::COMMANDS, known_items::KnownItems};

/// The most candidates that are offered at once: users do not look through more.
const MAX_CANDIDATES: usize = 100;

/// The characters that may precede the `@` of a resource in the same word.
const OPENING_CHARACTERS: &[char] = &['(', '[', '{', '<', '"', '\''];

/// Offers completions of the typed text.
#[derive(Debug)]
pub(super) struct ChatCompleter {
    pub(super) known_items: Arc<KnownItems>,
}

impl Completer for ChatCompleter {
    fn complete(&mut self, text: &str, cursor: usize) -> CompletionResult {
        CompletionResult::fresh(suggestions(text, cursor, &self.known_items))
    }
}

fn suggestions(text: &str, cursor: usize, known_items: &KnownItems) -> Vec<Suggestion> {
    let Some(text_before_cursor) = text.get(..cursor) else {
        return Vec::new();
    };
    let word_start = text_before_cursor
        .rfind(char::is_whitespace)
        .map_or(0, |space| space + text_before_cursor[space..].chars().next().map_or(0, char::len_utf8));
    let word = &text_before_cursor[word_start..];
    let mention = word.trim_start_matches(OPENING_CHARACTERS);
    let mut suggestions = if let Some(typed_prefix) = mention.strip_prefix('@') {
        suggest_mentions(known_items, typed_prefix, Span::new(cursor - mention.len(), cursor))
    } else if word_start == 0
        && let Some(typed_prefix) = word.strip_prefix('/')
    {
        suggest_commands(known_items, typed_prefix, Span::new(0, cursor))
    } else if let Some(command) = text_before_cursor.strip_prefix('/').filter(|_| !word.contains('=')) {
        suggest_arguments(known_items, command, word, Span::new(word_start, cursor))
    } else {
        Vec::new()
    };
    suggestions.truncate(MAX_CANDIDATES);
    suggestions
}

fn suggestion(value: String, about: &str, span: Span) -> Suggestion {
    let description = Some(about.to_owned()).filter(|about| !about.is_empty());
    Suggestion { value, description, span, ..Suggestion::default() }
}

/// Completes the name of a server first, and then one of its resources, as a shell completes folders and files.
fn suggest_mentions(known_items: &KnownItems, typed_prefix: &str, span: Span) -> Vec<Suggestion> {
    let (servers, resources) = (known_items.servers(), known_items.resources());
    let is_complete =
        |server: &&String| typed_prefix.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with(':'));
    if servers.iter().find(is_complete).is_some() {
        let matching_resources = resources.iter().filter(|resource| resource.word.starts_with(typed_prefix));
        return matching_resources
            .map(|resource| Suggestion {
                append_whitespace: resource.is_complete,
                ..suggestion(format!("@{}", resource.word), &resource.about, span)
            })
            .collect();
    }
    let has_resources = |server: &&String| resources.iter().any(|resource| resource.server == **server);
    let matching_servers = servers.iter().filter(|server| server.starts_with(typed_prefix)).filter(has_resources);
    matching_servers.map(|server| suggestion(format!("@{server}:"), "", span)).collect()
}

fn suggest_commands(known_items: &KnownItems, typed_prefix: &str, span: Span) -> Vec<Suggestion> {
    let matching_commands = COMMANDS.iter().filter(|command| command.name.starts_with(typed_prefix));
    let commands = matching_commands.map(|command| Suggestion {
        append_whitespace: !command.argument.is_empty(),
        ..suggestion(format!("/{}", command.name), command.about, span)
    });
    let prompts = known_items.prompts();
    let matching_prompts = prompts.iter().filter(|prompt| prompt.word.starts_with(typed_prefix));
    let prompts = matching_prompts.map(|prompt| Suggestion {
        append_whitespace: !prompt.arguments.is_empty(),
        ..suggestion(format!("/{}", prompt.word), &prompt.about, span)
    });
    commands.chain(prompts).collect()
}

/// Suggests `name=` for each argument of the prompt that the user has not typed yet.
fn suggest_arguments(known_items: &KnownItems, command: &str, word: &str, span: Span) -> Vec<Suggestion> {
    let prompts = known_items.prompts();
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let Some(prompt) = prompts.iter().find(|prompt| prompt.word == first) else {
        return Vec::new();
    };
    let typed_names: Vec<_> = words.filter_map(|word| Some(word.split_once('=')?.0)).collect();
    let is_offered = |name: &&String| name.starts_with(word) && !typed_names.contains(&name.as_str());
    prompt.arguments.iter().filter(is_offered).map(|name| suggestion(format!("{name}="), "", span)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_host::ServerName;

    use super::*;

    fn known_items() -> KnownItems {
        let known_items = KnownItems::default();
        let server = |name: &str| ServerName::new(name).unwrap();
        let prompts = json!([{ "name": "summary", "description": "Sums up.", "arguments": [{ "name": "style" }, { "name": "size" }] },
                             { "name": "two words" }, { "name": "bad\u{1b}" }]);
        let resources = json!([{ "uri": "docs://a" }, { "uri": "docs://b c" }, { "uri": "docs://\u{202e}" }]);
        let templates = json!([{ "uriTemplate": "docs://of/{name}" }, { "uriTemplate": "{+all}" }]);
        known_items.learn(
            &server("docs"),
            serde_json::from_value(prompts).unwrap(),
            serde_json::from_value(resources).unwrap(),
            serde_json::from_value(templates).unwrap(),
        );
        known_items.learn(&server("dull"), Vec::new(), Vec::new(), Vec::new());
        known_items
    }

    fn names(text: &str) -> Vec<String> {
        suggestions(text, text.len(), &known_items()).into_iter().map(|suggestion| suggestion.value).collect()
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
        let span = suggestions("see @do, please", 7, &known_items())[0].span;
        assert_eq!((span.start, span.end), (4, 7));
    }
}
