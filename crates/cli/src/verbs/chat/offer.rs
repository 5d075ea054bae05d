//! What Tab offers in a conversation.

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::commands::COMMANDS;

/// Offers commands.
#[derive(Debug)]
pub(super) struct Offer;

impl Completer for Offer {
    fn complete(&mut self, text: &str, at: usize) -> CompletionResult {
        CompletionResult::fresh(offered(text, at))
    }
}

fn offered(text: &str, at: usize) -> Vec<Suggestion> {
    let Some(typed) = text.get(..at).and_then(|before| before.strip_prefix('/')) else {
        return Vec::new();
    };
    let fits = COMMANDS.iter().filter(|known| known.name.starts_with(typed));
    fits.map(|known| Suggestion {
        value: format!("/{}", known.name),
        description: Some(known.about.to_owned()),
        span: Span::new(0, at),
        append_whitespace: !known.argument.is_empty(),
        ..Suggestion::default()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        offered(text, text.len()).into_iter().map(|suggestion| suggestion.value).collect()
    }

    #[test]
    fn commands_are_offered_as_far_as_they_are_typed() {
        assert_eq!(names("/").len(), COMMANDS.len());
        assert_eq!(names("/re"), ["/resources", "/resume"]);
        assert_eq!(names("/tools"), ["/tools"]);
        for nothing in ["", "re", "/xyz", "/tools x", " /re"] {
            assert_eq!(names(nothing), Vec::<String>::new(), "{nothing}");
        }
    }
}
