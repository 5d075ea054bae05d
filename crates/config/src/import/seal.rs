//! Seals new entries (each configures one server): moves their secrets out of them, so that the secrets can be stored
//! elsewhere, and puts placeholders such as `${secret:NAME}` in their place.

use std::{fmt, ops::Range};

use serde_json::Value as Json;

use crate::{
    interpolate::is_stored_secret_name,
    mask,
    placeholder::{BareName, Piece, pieces},
};

/// The longest name of a secret, in bytes.
const MAX_NAME: usize = 64;

/// Replaces each literal secret of `entry`, which is in Toolrack's format, by the placeholder that `store` returns.
/// Secrets are the values of variables, headers and options (such as `--api-key`) whose names mark them as secrets, and
/// tokens of well-known services. `store` gets the name of the variable or header, or `argument`, and the value.
fn seal(entry: &mut Json, store: &mut dyn FnMut(&str, String) -> String) {
    for map in ["env", "headers"] {
        for (name, value) in entry.get_mut(map).and_then(Json::as_object_mut).into_iter().flatten() {
            if let Json::String(text) = value
                && let Some(sealed) = sealed_value(name, text, store)
            {
                *text = sealed;
            }
        }
    }
    let Some(args) = entry.get_mut("args").and_then(Json::as_array_mut) else { return };
    let texts: Vec<String> = args.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    let found = mask::spans_of_arguments(texts.iter().map(String::as_str));
    let sealed: Vec<String> = found.map(|(text, spans)| sealed_parts("argument", text, spans, store)).collect();
    for (arg, sealed) in args.iter_mut().filter(|arg| arg.is_string()).zip(sealed) {
        *arg = sealed.into();
    }
}

/// The secrets that were taken out of new entries, each with a unique name. Its `Debug` shows no value.
#[derive(Default)]
pub struct Sealed {
    secrets: Vec<SealedSecret>,
}

/// A secret of a new entry, on its way into the store.
pub struct SealedSecret {
    /// The name of its variable or header in the entry, such as `API_TOKEN`; `argument` for one among the arguments.
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
        let proposed = default_name(server, field);
        let is_free = |name: &str| {
            !used_names.iter().any(|known| known == name) && self.secrets.iter().all(|secret| secret.name != name)
        };
        let numbered = |number: u32| {
            let suffix = format!("-{number}");
            format!("{}{suffix}", &proposed[..proposed.len().min(MAX_NAME - suffix.len())])
        };
        let name = if is_free(&proposed) {
            proposed.clone()
        } else {
            // Some number is always free.
            (2..).map(numbered).find(|name| is_free(name)).unwrap_or(proposed.clone())
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
    let mut has_some = false;
    seal(&mut entry.clone(), &mut |_, value| {
        has_some = true;
        value
    });
    has_some
}

/// Returns a name such as `github.API_TOKEN`, with only the characters that the name of a secret may have.
fn default_name(server: &str, field: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '-' };
    let name: String = format!("{server}.{field}").chars().map(allowed).collect();
    let name = name.trim_start_matches(['.', '-']);
    let name = &name[..name.len().min(MAX_NAME)];
    if is_stored_secret_name(name) { name.to_owned() } else { "secret".to_owned() }
}

/// Returns `text`, the value of the variable or header `name`, with its secret replaced by a placeholder; `None` if it
/// is not a secret.
fn sealed_value(name: &str, text: &str, store: &mut dyn FnMut(&str, String) -> String) -> Option<String> {
    let (scheme, rest) = mask::split_scheme(text);
    let value = literal_text(rest, BareName::Placeholder)?;
    let is_token = || mask::secrets_of(&value).contains(&value);
    (mask::is_secret(name, &value) || is_token()).then(|| format!("{scheme}{}", store(name, value)))
}

fn sealed_parts(
    field: &str,
    text: &str,
    spans: Vec<Range<usize>>,
    store: &mut dyn FnMut(&str, String) -> String,
) -> String {
    let mut out = String::new();
    let mut at = 0;
    for span in spans {
        let Some(value) = literal_text(&text[span.clone()], BareName::Literal) else { continue };
        out.push_str(&text[at..span.start]);
        out.push_str(&store(field, value));
        at = span.end;
    }
    out + &text[at..]
}

/// Returns the text without escapes; `None` if it contains a placeholder, is empty, or is the `***` of a value that was
/// hidden, which an edit refuses.
fn literal_text(text: &str, bare: BareName) -> Option<String> {
    let pieces = pieces(text, bare).ok()?.into_iter();
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
