//! Finds `@server:uri` in a text.

use toolrack_host::ServerName;

/// A resource that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) server: String,
    pub(super) uri: String,
}

/// The characters, besides white space, that may precede the `@`.
const ALLOWED_BEFORE: &[char] = &['(', '[', '{', '<', '"', '\'', '“', '„', '«'];

/// Characters at the end of a sentence that do not belong to a URI, unless the URI is between `<` and `>`.
const TRAILING_PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', '\'', '"', '”', '“', '»', '>', '`'];

/// Brackets that belong to a URI only as a pair.
const BRACKETS: &[(char, char)] = &[('(', ')'), ('[', ']'), ('{', '}')];

/// Returns the resources that `text` names, each once, in their order.
///
/// The name of one of `servers` counts, whatever follows it. Any other name counts only if a URI with a scheme follows
/// (`@docs:file:///a`), because `@ada:example.org` may be a person. An `@` right after a `` ` `` does not count.
pub(super) fn mentions(text: &str, servers: &[ServerName]) -> Vec<Mention> {
    let mut found = Vec::new();
    for (index, _) in text.match_indices('@') {
        let previous_character = text[..index].chars().next_back();
        if previous_character.is_some_and(|previous_character| {
            !previous_character.is_whitespace() && !ALLOWED_BEFORE.contains(&previous_character)
        }) {
            continue;
        }
        if let Some(mention) = mention(&text[index + 1..], servers)
            && !found.contains(&mention)
        {
            found.push(mention);
        }
    }
    found
}

fn mention(rest: &str, servers: &[ServerName]) -> Option<Mention> {
    let matching_names = servers.iter().map(ServerName::as_str).filter(|name| after_name(rest, name).is_some());
    let server = match matching_names.max_by_key(|name| name.len()) {
        Some(server) => server,
        None => {
            let (server, rest) = rest.split_once(':')?;
            let is_name = !server.is_empty() && !server.contains(|c: char| c.is_whitespace() || c == '@' || c == '/');
            (is_name && has_scheme(uri(rest))).then_some(server)?
        }
    };
    let uri = uri(after_name(rest, server)?);
    (!uri.is_empty()).then(|| Mention { server: server.to_owned(), uri: uri.to_owned() })
}

/// Returns what follows `name:` at the beginning of `text`; `None` if `text` begins otherwise.
fn after_name<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.strip_prefix(name)?.strip_prefix(':')
}

/// Returns the URI at the beginning of `text`.
fn uri(text: &str) -> &str {
    // As in RFC 3986, appendix C.
    if let Some((uri, _)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return uri.trim();
    }
    let mut uri = text.split(char::is_whitespace).next().unwrap_or_default();
    loop {
        let shorter = uri.trim_end_matches(TRAILING_PUNCTUATION);
        let is_unpaired = |(open, close): &(char, char)| {
            shorter.ends_with(*close) && shorter.matches(*open).count() < shorter.matches(*close).count()
        };
        let shorter = match BRACKETS.iter().find(|pair| is_unpaired(pair)) {
            Some((_, close)) => shorter.strip_suffix(*close).unwrap_or(shorter),
            None => shorter,
        };
        if shorter.len() == uri.len() {
            return uri;
        }
        uri = shorter;
    }
}

/// Whether `uri` begins with a scheme and has something after it (RFC 3986, 3.1).
fn has_scheme(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, rest)| {
        let mut chars = scheme.chars();
        chars.next().is_some_and(|first| first.is_ascii_alphabetic())
            && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let servers = ["docs", "docs:new", "my server"].map(|name| ServerName::new(name).unwrap());
        mentions(text, &servers).into_iter().map(|mention| (mention.server, mention.uri)).collect()
    }

    fn one(text: &str) -> String {
        let found = found(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        format!("{} {}", found[0].0, found[0].1)
    }

    #[test]
    fn a_resource_is_named_anywhere() {
        for (text, resource) in [
            ("@docs:file:///a.txt", "docs file:///a.txt"),
            ("what is in @docs:file:///a.txt?", "docs file:///a.txt"),
            ("(see @docs:file:///a(1).txt).", "docs file:///a(1).txt"),
            ("see\n@docs:x:y, please", "docs x:y"),
            ("\"@docs:note\"", "docs note"),
            ("@docs:<file:///a b.>.", "docs file:///a b."),
            ("@docs:new:a:b", "docs:new a:b"),
            ("@my server:a:b", "my server a:b"),
            ("@other:file:///a", "other file:///a"),
            ("twice @docs:a:b and @docs:a:b", "docs a:b"),
        ] {
            assert_eq!(one(text), resource, "{text}");
        }
        assert_eq!(found("@docs:a:b @docs:a:c").len(), 2);
    }

    #[test]
    fn text_that_only_looks_like_a_mention_is_left_alone() {
        for text in [
            "ada@docs:a:b",
            "@ada",
            "@ada: hello",
            "@ada:example.org",
            "@docs: hello",
            "@docs:",
            "@docs:.",
            "`@docs:a:b`",
            "@media (a:b)",
            "@@docs:a:b",
            "@other:http:",
            "@type/x:a:b",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
