//! Moves the secrets out of an entry, so that they can be stored elsewhere.

use std::ops::Range;

use serde_json::Value as Json;

use crate::{
    mask,
    placeholder::{Bare, Piece, pieces},
};

/// Replaces each literal secret of `entry`, in our format, by the placeholder that `keep` returns: the values of
/// variables and headers whose names mark them as secrets, tokens of well-known services among them and among the
/// arguments, and the values of options such as `--api-key`. `keep` gets the name of the variable, header or option,
/// and the value.
pub fn seal(entry: &mut Json, keep: &mut dyn FnMut(&str, String) -> String) {
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

/// Returns the value of the variable or header `name`; `None` if it is no secret.
fn sealed_value(name: &str, text: &str, keep: &mut dyn FnMut(&str, String) -> String) -> Option<String> {
    let (scheme, rest) = mask::split_scheme(text);
    let value = plain(rest, Bare::Names).filter(|value| !value.is_empty())?;
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
        let Some(value) = plain(&text[span.clone()], Bare::Nothing).filter(|value| !value.is_empty()) else { continue };
        out.push_str(&text[at..span.start]);
        out.push_str(&keep(what, value));
        at = span.end;
    }
    out + &text[at..]
}

/// Returns the text without escapes; `None` if it contains a placeholder.
fn plain(text: &str, bare: Bare) -> Option<String> {
    let pieces = pieces(text, bare).ok()?.into_iter();
    pieces.map(|piece| if let Piece::Literal(text) = piece { Some(text) } else { None }).collect()
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
    fn what_is_a_secret_is_taken_out_and_nothing_else() {
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
    fn a_token_of_a_well_known_service_is_one_under_any_name() {
        let (entry, kept) = sealed(json!({ "env": { "X": "ghp_0123456789abcdef0123", "Y": "plain" } }));
        assert_eq!(entry, json!({ "env": { "X": "${secret:X}", "Y": "plain" } }));
        assert_eq!(kept.len(), 1);
    }
}
