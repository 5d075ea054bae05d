//! Seals new entries (each configures one server): moves their secrets out of them, so that the secrets can be stored
//! elsewhere, and puts placeholders such as `${secret:NAME}` in their place.

use std::{fmt, ops::Range};

use serde_json::Value as Json;

use crate::{
    entry::canonical,
    interpolate::is_stored_secret_name,
    mask,
    placeholder::{BareName, Piece, pieces},
    rows::{ENTRY, IDP, OAUTH, Table},
};

/// The maximum number of bytes in the name of a secret.
const MAX_NAME: usize = 64;

/// The fields in which secrets are looked for, in this order.
const FIELDS: &[&str] = &["env", "headers", "url", "oauth", "args", "command", "headers_helper"];

/// The fields of `oauth`, and of `idp` in it, whose whole value is a secret.
const OAUTH_SECRETS: &[&str] = &["client_secret", "private_key", "assertion"];

/// Stores a secret. Takes the name of a field and the secret in it, and returns the placeholder for the secret.
type StoreSecret<'s> = dyn FnMut(&str, String) -> String + 's;

/// Replaces each literal secret of `entry` by the placeholder that `store` returns. These are secrets:
///
/// - values of variables, headers and options (such as `--api-key`) whose names mark them as secrets
/// - passwords and secret parameters in addresses
/// - tokens of well-known services
/// - the secrets of a sign-in
fn seal(entry: &mut Json, store: &mut StoreSecret<'_>) {
    for key in FIELDS {
        for value in fields_called(entry, ENTRY, key) {
            match (*key, value) {
                ("env" | "headers", value) => seal_named_values(value, store),
                ("oauth", value) => seal_sign_in(value, store),
                ("url", Json::String(text)) => *text = sealed_parts("url", text, BareName::Literal, store),
                (_, Json::Array(arguments)) => seal_arguments(arguments, store),
                ("headers_helper", Json::String(line)) => {
                    *line = sealed_parts("argument", line, BareName::Literal, store);
                }
                _ => {}
            }
        }
    }
}

/// Returns the values of the field `key` of `object`, under any of its names in `table`.
fn fields_called<'j>(object: &'j mut Json, table: &'static Table, key: &str) -> impl Iterator<Item = &'j mut Json> {
    let row = table.row(key);
    let members = object.as_object_mut().into_iter().flatten();
    members.filter(move |(name, _)| row.is_some_and(|row| row.is_called(&canonical(name)))).map(|(_, value)| value)
}

/// Seals the values of variables or headers: whole values, or parts of them.
fn seal_named_values(values: &mut Json, store: &mut StoreSecret<'_>) {
    for (name, value) in values.as_object_mut().into_iter().flatten() {
        if let Json::String(text) = value {
            let whole_value = sealed_value(name, text, store);
            *text = whole_value.unwrap_or_else(|| sealed_parts(name, text, BareName::Placeholder, store));
        }
    }
}

fn seal_sign_in(oauth: &mut Json, store: &mut StoreSecret<'_>) {
    for key in OAUTH_SECRETS {
        fields_called(oauth, OAUTH, key).for_each(|value| seal_whole_value(key, value, store));
    }
    for provider in fields_called(oauth, OAUTH, "idp") {
        for value in fields_called(provider, IDP, "client_secret") {
            seal_whole_value("idp.client_secret", value, store);
        }
    }
}

fn seal_whole_value(field: &str, value: &mut Json, store: &mut StoreSecret<'_>) {
    if let Some(secret) = value.as_str().and_then(|text| literal_text(text, BareName::Literal)) {
        *value = store(field, secret).into();
    }
}

/// Seals the arguments of a program. The argument after an option such as `--api-key` is a secret as a whole.
fn seal_arguments(arguments: &mut [Json], store: &mut StoreSecret<'_>) {
    let texts: Vec<String> = arguments.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    let spans_by_argument = mask::spans_of_arguments(texts.iter().map(String::as_str));
    let sealed_arguments: Vec<String> = spans_by_argument
        .map(|(text, spans)| with_sealed_spans("argument", (text, spans), BareName::Literal, store))
        .collect();
    let string_arguments = arguments.iter_mut().filter(|argument| argument.is_string());
    for (argument, sealed_argument) in string_arguments.zip(sealed_arguments) {
        *argument = sealed_argument.into();
    }
}

/// The secrets that were taken out of new entries, each with a unique name. Its `Debug` shows no value.
#[derive(Default)]
pub struct Sealed {
    secrets: Vec<SealedSecret>,
}

/// A secret of a new entry, on its way into the store.
pub struct SealedSecret {
    /// The name of its variable, header or field in the entry, such as `API_TOKEN` or `url`; `argument` for one among
    /// the arguments.
    pub field: String,
    /// The name under which it is stored.
    pub name: String,
    /// The secret.
    pub value: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.secrets).finish()
    }
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecret").field("what", &self.field).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Sealed {
    /// Adds `value`, which the field `field` of `server` contains, under a free name; returns its placeholder.
    /// `used_names` are the names of the stored secrets.
    pub fn add(&mut self, server: &str, field: &str, value: String, used_names: &[String]) -> String {
        let proposed_name = default_name(server, field);
        let is_free = |name: &str| {
            !used_names.iter().any(|used_name| used_name == name)
                && self.secrets.iter().all(|secret| secret.name != name)
        };
        let numbered_name = |number: u32| {
            let suffix = format!("-{number}");
            format!("{}{suffix}", &proposed_name[..proposed_name.len().min(MAX_NAME - suffix.len())])
        };
        let name = if is_free(&proposed_name) {
            proposed_name.clone()
        } else {
            // Some number is always free.
            (2..).map(numbered_name).find(|name| is_free(name)).unwrap_or(proposed_name.clone())
        };
        let placeholder = format!("${{secret:{name}}}");
        self.secrets.push(SealedSecret { field: field.to_owned(), name, value });
        placeholder
    }

    /// Replaces each literal secret of the entry of `server` by a placeholder. `used_names` are the names of the stored
    /// secrets.
    pub fn seal(&mut self, server: &str, entry: &mut Json, used_names: &[String]) {
        seal(entry, &mut |field, value| self.add(server, field, value, used_names));
    }

    /// Returns whether there are no secrets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Returns the secrets, in the order of the entries.
    pub fn iter(&self) -> impl Iterator<Item = &SealedSecret> {
        self.secrets.iter()
    }
}

/// Returns whether `entry` has literal secrets.
#[must_use]
pub fn has_secrets(entry: &Json) -> bool {
    let mut has_secret = false;
    seal(&mut entry.clone(), &mut |_, value| {
        has_secret = true;
        value
    });
    has_secret
}

/// Returns a name such as `github.API_TOKEN`, with only the characters that the name of a secret may have.
fn default_name(server: &str, field: &str) -> String {
    let to_allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '-' };
    let name: String = format!("{server}.{field}").chars().map(to_allowed).collect();
    let name = name.trim_start_matches(['.', '-']);
    let name = &name[..name.len().min(MAX_NAME)];
    if is_stored_secret_name(name) { name.to_owned() } else { "secret".to_owned() }
}

/// Returns `text`, the value of the variable or header `name`, replaced by a placeholder except for an authentication
/// scheme before it. `None` if the value as a whole is not a secret.
fn sealed_value(name: &str, text: &str, store: &mut StoreSecret<'_>) -> Option<String> {
    let (scheme, rest) = mask::split_scheme(text);
    let value = literal_text(rest, BareName::Placeholder)?;
    let is_token = || mask::secrets_of(&value).contains(&value);
    (mask::is_secret(name, &value) || is_token()).then(|| format!("{scheme}{}", store(name, value)))
}

/// Returns `text`, which is in the field `field`, with its secret parts replaced by placeholders.
fn sealed_parts(field: &str, text: &str, bare_name: BareName, store: &mut StoreSecret<'_>) -> String {
    let text_and_spans = mask::spans_of_arguments([text]).next();
    text_and_spans
        .map_or_else(|| text.to_owned(), |text_and_spans| with_sealed_spans(field, text_and_spans, bare_name, store))
}

/// Returns the text with `spans` replaced by placeholders. A span that has placeholders already stays as it is.
fn with_sealed_spans(
    field: &str,
    (text, spans): (&str, Vec<Range<usize>>),
    bare_name: BareName,
    store: &mut StoreSecret<'_>,
) -> String {
    let mut sealed_text = String::new();
    let mut copied_up_to = 0;
    for span in spans {
        let Some(value) = literal_text(&text[span.clone()], bare_name) else { continue };
        sealed_text.push_str(&text[copied_up_to..span.start]);
        sealed_text.push_str(&store(field, value));
        copied_up_to = span.end;
    }
    sealed_text + &text[copied_up_to..]
}

/// Returns the text without escapes. `None` if it contains a placeholder, is empty, or is `***`: that stands for a
/// hidden value, and must stay so that the edit refuses it.
fn literal_text(text: &str, bare_name: BareName) -> Option<String> {
    let pieces = pieces(text, bare_name).ok()?.into_iter();
    let text: String =
        pieces.map(|piece| if let Piece::Literal(text) = piece { Some(text) } else { None }).collect::<Option<_>>()?;
    Some(text).filter(|text| !text.is_empty() && text != mask::HIDDEN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sealed(mut entry: Json) -> (Json, Vec<(String, String)>) {
        let mut secrets = Vec::new();
        seal(&mut entry, &mut |field, value| {
            secrets.push((field.to_owned(), value));
            format!("${{secret:{field}}}")
        });
        (entry, secrets)
    }

    #[test]
    fn only_secrets_are_moved_out_of_an_imported_entry() {
        let (entry, secrets) = sealed(json!({
            "command": "x",
            "args": ["-y", "--api-key", "canary-1", "--fast", "--token=canary-2", "${A}"],
            "env": { "API_TOKEN": "pa$$canary-3", "HOME_PAGE": "https://x", "OTHER_TOKEN": "${T}", "N": 1, "EMPTY_TOKEN": "" },
            "headers": { "Authorization": "Bearer canary-4", "X-Api-Key": "canary-5", "Accept": "y", "X-Token": "a${T}" },
        }));
        assert_eq!(
            entry,
            json!({
                "command": "x",
                "args": ["-y", "--api-key", "${secret:argument}", "--fast", "--token=${secret:argument}", "${A}"],
                "env": { "API_TOKEN": "${secret:API_TOKEN}", "HOME_PAGE": "https://x", "OTHER_TOKEN": "${T}", "N": 1,
                    "EMPTY_TOKEN": "" },
                "headers": { "Authorization": "Bearer ${secret:Authorization}", "X-Api-Key": "${secret:X-Api-Key}",
                    "Accept": "y", "X-Token": "a${T}" },
            })
        );
        let values: Vec<&str> = secrets.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["pa$canary-3", "canary-4", "canary-5", "canary-1", "canary-2"]);
    }

    #[test]
    fn secrets_in_addresses_sign_ins_and_under_names_of_other_programs_are_moved_out_too() {
        let (entry, secrets) = sealed(json!({
            "url": "https://ada:canary-1@x.example/mcp?tavilyApiKey=canary%202&q=1",
            "oauth": { "clientSecret": "canary-3", "client_id": "me", "privateKey": "${secret:k}",
                "idp": { "token_url": "https://x", "client_secret": "canary-4" } },
            "environment": { "DATABASE_URL": "postgres://u:canary-5@h/db", "PLACE": "postgres://u:$PW@h/db" },
            "command": ["x", "--password", "canary-6"],
        }));
        assert_eq!(
            entry,
            json!({
                "url": "https://ada:${secret:url}@x.example/mcp?tavilyApiKey=${secret:url}&q=1",
                "oauth": { "clientSecret": "${secret:client_secret}", "client_id": "me", "privateKey": "${secret:k}",
                    "idp": { "token_url": "https://x", "client_secret": "${secret:idp.client_secret}" } },
                "environment": { "DATABASE_URL": "postgres://u:${secret:DATABASE_URL}@h/db",
                    "PLACE": "postgres://u:$PW@h/db" },
                "command": ["x", "--password", "${secret:argument}"],
            })
        );
        let values: Vec<&str> = secrets.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["canary-5", "canary-1", "canary%202", "canary-3", "canary-4", "canary-6"]);
    }

    #[test]
    fn a_value_that_was_hidden_is_not_a_secret() {
        let entry = json!({ "args": ["--api-key", "***", "--token=***"], "env": { "API_KEY": "***" },
            "headers": { "Authorization": "Bearer ***" } });
        assert_eq!(sealed(entry.clone()), (entry, Vec::new()));
    }

    #[test]
    fn a_token_of_a_well_known_service_is_one_under_any_name() {
        let (entry, secrets) = sealed(json!({ "env": { "X": "ghp_0123456789abcdef0123", "Y": "plain" } }));
        assert_eq!(entry, json!({ "env": { "X": "${secret:X}", "Y": "plain" } }));
        assert_eq!(secrets.len(), 1);
    }

    #[test]
    fn every_secret_of_an_entry_gets_a_name_of_its_own() {
        let mut sealed = Sealed::default();
        let used_names = ["gh.TOKEN".to_owned()];
        assert_eq!(sealed.add("gh", "TOKEN", "a".to_owned(), &used_names), "${secret:gh.TOKEN-2}");
        assert_eq!(sealed.add("gh", "TOKEN", "b".to_owned(), &used_names), "${secret:gh.TOKEN-3}");
        assert_eq!(sealed.add("mein Server", "X-Key", "c".to_owned(), &used_names), "${secret:mein-Server.X-Key}");
        assert_eq!(sealed.add(&"ö".repeat(90), "KEY", "d".to_owned(), &used_names), "${secret:KEY}");
        let long = sealed.add(&"x".repeat(90), "KEY", "d".to_owned(), &used_names);
        assert_eq!(long.len(), "${secret:}".len() + MAX_NAME);
        let again = sealed.add(&"x".repeat(90), "KEY", "d".to_owned(), &used_names);
        assert!(again.ends_with("x-2}") && again.len() == long.len(), "{again}");
    }
}
