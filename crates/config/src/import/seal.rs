//! Moves the secrets out of new entries, so that they can be stored elsewhere.

use std::{fmt, ops::Range};

use serde_json::Value as Json;

use crate::{
    interpolate::is_secret_word,
    mask,
    placeholder::{BareName, Piece, pieces},
};

/// The longest name of a secret, in bytes.
const MAX_NAME: usize = 64;

/// Replaces each literal secret of `entry`, in our format, by the placeholder that `keep` returns: the values of
/// variables and headers whose names mark them as secrets, tokens of well-known services among them and among the
/// arguments, and the values of options such as `--api-key`. `keep` gets the name of the variable, header or option,
/// and the value.
fn seal(entry: &mut Json, keep: &mut dyn FnMut(&str, String) -> String) {
    for map in ["env", "headers"] {
        for (name, value) in entry.get_mut(map).and_then(Json::as_object_mut).into_iter().flatten() {
            if let Json::String(text) = value
                && let Some(sealed) = sealed_value(name, text, keep)
            {
                *text = sealed;
            }
        }
    }
    let Some(args) = entry.get_mut("args").and_then(Json::as_array_mut) else { return };
    let texts: Vec<String> = args.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    let found = mask::spans_of_arguments(texts.iter().map(String::as_str));
    let sealed: Vec<String> = found.map(|(text, spans)| sealed_parts("argument", text, spans, keep)).collect();
    for (arg, sealed) in args.iter_mut().filter(|arg| arg.is_string()).zip(sealed) {
        *arg = sealed.into();
    }
}

/// The secrets that were taken out of new entries, each with a name of its own. Its `Debug` shows no value.
#[derive(Default)]
pub struct Sealed {
    kept: Vec<SealedSecret>,
}

/// A secret of a new entry, on its way into the store.
pub struct SealedSecret {
    /// The name of its variable, header or option in the entry, such as `API_TOKEN`.
    pub what: String,
    /// The name under which it is stored.
    pub name: String,
    /// The secret.
    pub value: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.kept).finish()
    }
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecret").field("what", &self.what).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Sealed {
    /// Finds a name for the value that `server` has as `what`; returns its placeholder. `taken` are the names of the
    /// stored secrets.
    pub fn add(&mut self, server: &str, what: &str, value: String, taken: &[String]) -> String {
        let proposed = default_name(server, what);
        let is_free =
            |name: &str| !taken.iter().any(|known| known == name) && self.kept.iter().all(|one| one.name != name);
        let other = |number: u32| {
            let end = format!("-{number}");
            format!("{}{end}", &proposed[..proposed.len().min(MAX_NAME - end.len())])
        };
        let name = if is_free(&proposed) {
            proposed.clone()
        } else {
            (2..).map(other).find(|name| is_free(name)).unwrap_or(proposed.clone())
        };
        let placeholder = format!("${{secret:{name}}}");
        self.kept.push(SealedSecret { what: what.to_owned(), name, value });
        placeholder
    }

    /// Replaces each literal secret of the entry of `server` by a placeholder. `taken` are the names of the stored
    /// secrets.
    pub fn seal(&mut self, server: &str, entry: &mut Json, taken: &[String]) {
        seal(entry, &mut |what, value| self.add(server, what, value, taken));
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Each of them, in the order of the entries.
    pub fn iter(&self) -> impl Iterator<Item = &SealedSecret> {
        self.kept.iter()
    }
}

/// Whether `entry` has literal secrets.
#[must_use]
pub fn has_secrets(entry: &Json) -> bool {
    let mut has_some = false;
    seal(&mut entry.clone(), &mut |_, value| {
        has_some = true;
        value
    });
    has_some
}

/// `github.API_TOKEN`, as the name of a secret can be.
fn default_name(server: &str, what: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '-' };
    let name: String = format!("{server}.{what}").chars().map(plain).collect();
    let name = name.trim_start_matches(['.', '-']);
    let name = &name[..name.len().min(MAX_NAME)];
    if is_secret_word(name) { name.to_owned() } else { "secret".to_owned() }
}

/// Returns the value of the variable or header `name`; `None` if it is not a secret.
fn sealed_value(name: &str, text: &str, keep: &mut dyn FnMut(&str, String) -> String) -> Option<String> {
    let (scheme, rest) = mask::split_scheme(text);
    let value = plain(rest, BareName::Placeholder)?;
    let is_token = || mask::secrets_of(&value).contains(&value);
    (mask::is_secret(name, &value) || is_token()).then(|| format!("{scheme}{}", keep(name, value)))
}

fn sealed_parts(
    what: &str,
    text: &str,
    spans: Vec<Range<usize>>,
    keep: &mut dyn FnMut(&str, String) -> String,
) -> String {
    let mut out = String::new();
    let mut at = 0;
    for span in spans {
        let Some(value) = plain(&text[span.clone()], BareName::Literal) else { continue };
        out.push_str(&text[at..span.start]);
        out.push_str(&keep(what, value));
        at = span.end;
    }
    out + &text[at..]
}

/// Returns the text without escapes; `None` if it contains a placeholder, is empty, or is the `***` of a value that was
/// hidden, which an edit refuses.
fn plain(text: &str, bare: BareName) -> Option<String> {
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
        let mut kept = Vec::new();
        seal(&mut entry, &mut |what, value| {
            kept.push((what.to_owned(), value));
            format!("${{secret:{what}}}")
        });
        (entry, kept)
    }

    #[test]
    fn only_secrets_are_moved_out_of_an_imported_entry() {
        let (entry, kept) = sealed(json!({
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
        let values: Vec<&str> = kept.iter().map(|(_, value)| value.as_str()).collect();
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
        let (entry, kept) = sealed(json!({ "env": { "X": "ghp_0123456789abcdef0123", "Y": "plain" } }));
        assert_eq!(entry, json!({ "env": { "X": "${secret:X}", "Y": "plain" } }));
        assert_eq!(kept.len(), 1);
    }

    #[test]
    fn every_secret_of_an_entry_gets_a_name_of_its_own() {
        let mut sealed = Sealed::default();
        let taken = ["gh.TOKEN".to_owned()];
        assert_eq!(sealed.add("gh", "TOKEN", "a".to_owned(), &taken), "${secret:gh.TOKEN-2}");
        assert_eq!(sealed.add("gh", "TOKEN", "b".to_owned(), &taken), "${secret:gh.TOKEN-3}");
        assert_eq!(sealed.add("mein Server", "X-Key", "c".to_owned(), &taken), "${secret:mein-Server.X-Key}");
        assert_eq!(sealed.add(&"ö".repeat(90), "KEY", "d".to_owned(), &taken), "${secret:KEY}");
        let long = sealed.add(&"x".repeat(90), "KEY", "d".to_owned(), &taken);
        assert_eq!(long.len(), "${secret:}".len() + MAX_NAME);
        let again = sealed.add(&"x".repeat(90), "KEY", "d".to_owned(), &taken);
        assert!(again.ends_with("x-2}") && again.len() == long.len(), "{again}");
    }
}
