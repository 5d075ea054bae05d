//! Converts entries (each configures one server) from Toolrack's format into the formats of other programs.
//!
//! A program that finds an unknown field may refuse its whole file. So the conversion fails if the program's format
//! cannot express a field, and the error names that field.

use serde_json::{Map, Value as Json, json};

use crate::{
    home::below_home,
    placeholder::{BareName, Piece, pieces},
};

/// The entry in a program's format, or the name of Toolrack's field that the format cannot express.
type Translated = Result<Json, String>;

/// Converts `entry` into the format of opencode (opencode.ai/docs/mcp-servers), or of its version 2, which has only
/// `disabled` (opencode.ai/v2/docs/mcp-servers).
pub(super) fn for_opencode(entry: &Json, is_opencode_v2: bool) -> Translated {
    let fields = present_fields(entry)?;
    let is_remote = fields.contains_key("url");
    let mut translated = Map::new();
    let mut command = Vec::new();
    for (name, value) in &fields {
        match (name.as_str(), is_remote) {
            ("type" | "transport", _) if is_implied_transport(value, is_remote) => {}
            ("command" | "cwd", false) if is_below_home(value) => return Err(name.clone()),
            ("command", false) => command.insert(0, opencode_placeholders(name, value, BareName::Literal)?),
            ("args", false) => {
                let Json::Array(arguments) = opencode_placeholders(name, value, BareName::Literal)? else {
                    return Err(name.clone());
                };
                command.extend(arguments);
            }
            // `drop` only gives all arms the same type.
            ("env", false) => drop(
                translated.insert("environment".to_owned(), opencode_placeholders(name, value, BareName::Placeholder)?),
            ),
            ("headers", true) => {
                drop(translated.insert(name.clone(), opencode_placeholders(name, value, BareName::Placeholder)?))
            }
            ("cwd", false) | ("url", true) => {
                drop(translated.insert(name.clone(), opencode_placeholders(name, value, BareName::Literal)?))
            }
            ("enabled" | "disabled", _) => {
                let is_off = value.as_bool().ok_or(&**name)? == (name == "disabled");
                let (field, value) = if is_opencode_v2 { ("disabled", is_off) } else { ("enabled", !is_off) };
                translated.insert(field.to_owned(), json!(value));
            }
            _ => return Err(name.clone()),
        }
    }
    translated.insert("type".to_owned(), json!(if is_remote { "remote" } else { "local" }));
    if !is_remote {
        translated.insert("command".to_owned(), Json::Array(command));
    }
    Ok(Json::Object(translated))
}

/// Returns `value` with its placeholders in opencode's form, `{env:NAME}`. It is an error if opencode has no such
/// placeholder, for example for a variable with a default.
fn opencode_placeholders(field: &str, value: &Json, bare_name: BareName) -> Translated {
    each_text(value, &|text| {
        let pieces = pieces(text, bare_name).map_err(|_| field.to_owned())?;
        let translated = pieces.into_iter().map(|piece| match piece {
            Piece::Literal(text) => Ok(text.to_owned()),
            Piece::Variable { name, default: None } => Ok(format!("{{env:{name}}}")),
            _ => Err(field.to_owned()),
        });
        translated.collect::<Result<String, _>>().map(Json::from)
    })
}

/// Converts `entry` into the format of Codex (`RawMcpServerConfig` in its codex-rs/config/src/mcp_types.rs).
pub(super) fn for_codex(entry: &Json) -> Translated {
    let fields = present_fields(entry)?;
    let is_remote = fields.contains_key("url");
    let mut translated = Map::new();
    for (name, value) in &fields {
        match (name.as_str(), is_remote) {
            ("type" | "transport", _) if is_implied_transport(value, is_remote) => {}
            ("command" | "cwd", false) if is_below_home(value) => return Err(name.clone()),
            ("command" | "args" | "cwd", false) | ("url", true) => {
                let plain = without_placeholders(name, value, BareName::Literal)?;
                translated.insert(name.clone(), plain);
            }
            ("env", false) => codex_values("env", value, &mut translated)?,
            ("headers", true) => codex_values("headers", value, &mut translated)?,
            ("inherit_env", false) if value.is_array() => merge(&mut translated, "env_vars", value),
            ("enabled", _) => drop(translated.insert(name.clone(), value.clone())),
            ("disabled", _) => drop(translated.insert("enabled".to_owned(), json!(value != &json!(true)))),
            ("startup_timeout", _) if value.is_number() => {
                translated.insert("startup_timeout_sec".to_owned(), value.clone());
            }
            ("call_timeout", _) if value.is_number() => {
                drop(translated.insert("tool_timeout_sec".to_owned(), value.clone()))
            }
            ("tools", _) => codex_tools(value, &mut translated)?,
            _ => return Err(name.clone()),
        }
    }
    Ok(Json::Object(translated))
}

/// Converts `env` or `headers`. Codex has no placeholders: a value that consists of one variable goes into another
/// field, which holds the variable's name.
fn codex_values(field: &str, values: &Json, codex_entry: &mut Map<String, Json>) -> Result<(), String> {
    let is_header = field == "headers";
    for (name, value) in values.as_object().ok_or(field)? {
        let path = format!("{field}.{name}");
        let text = value.as_str().ok_or(&*path)?;
        let value_pieces = pieces(text, BareName::Placeholder).map_err(|_| &*path)?;
        match *value_pieces {
            [Piece::Variable { name: variable, default: None }] if is_header => {
                merge(codex_entry, "env_http_headers", &json!({ name: variable }));
            }
            [Piece::Variable { name: variable, default: None }] if variable == name => {
                merge(codex_entry, "env_vars", &json!([variable]));
            }
            [Piece::Literal("Bearer "), Piece::Variable { name: variable, default: None }]
                if is_header && name.eq_ignore_ascii_case("authorization") =>
            {
                codex_entry.insert("bearer_token_env_var".to_owned(), json!(variable));
            }
            _ => {
                let value = without_placeholders(&path, value, BareName::Placeholder)?;
                merge(codex_entry, if is_header { "http_headers" } else { "env" }, &json!({ name: value }));
            }
        }
    }
    Ok(())
}

fn codex_tools(tools: &Json, codex_entry: &mut Map<String, Json>) -> Result<(), String> {
    let tools = if tools.is_array() { &json!({ "allow": tools }) } else { tools };
    for (list, names) in tools.as_object().ok_or("tools")? {
        let field = match list.as_str() {
            "allow" => "enabled_tools",
            "deny" => "disabled_tools",
            _ => return Err(format!("tools.{list}")),
        };
        let has_globs = |name: &Json| name.as_str().is_none_or(|name| name.contains(['*', '?', '[', '{']));
        if names.as_array().is_none_or(|names| names.iter().any(has_globs)) {
            return Err(format!("tools.{list}"));
        }
        codex_entry.insert(field.to_owned(), names.clone());
    }
    Ok(())
}

/// Adds `addition` to the field `field` of `entry`: the members of an object, or the elements of a list that are new.
fn merge(entry: &mut Map<String, Json>, field: &str, addition: &Json) {
    match (entry.get_mut(field), addition) {
        (Some(Json::Object(present_value)), Json::Object(addition)) => present_value.extend(addition.clone()),
        (Some(Json::Array(present_value)), Json::Array(addition)) => {
            let new_values: Vec<Json> =
                addition.iter().filter(|value| !present_value.contains(value)).cloned().collect();
            present_value.extend(new_values);
        }
        _ => drop(entry.insert(field.to_owned(), addition.clone())),
    }
}

/// Returns `value` with each `$$` replaced by one dollar sign. It is an error if `value` has placeholders.
fn without_placeholders(field: &str, value: &Json, bare_name: BareName) -> Translated {
    each_text(value, &|text| {
        let pieces = pieces(text, bare_name).map_err(|_| field.to_owned())?;
        let translated = pieces.into_iter().map(|piece| match piece {
            Piece::Literal(text) => Ok(text),
            _ => Err(field.to_owned()),
        });
        translated.collect::<Result<String, _>>().map(Json::from)
    })
}

/// Returns `value` with each text in it replaced by the result of `translate`.
fn each_text(value: &Json, translate: &dyn Fn(&str) -> Translated) -> Translated {
    match value {
        Json::String(text) => translate(text),
        Json::Array(values) => {
            values.iter().map(|value| each_text(value, translate)).collect::<Result<_, _>>().map(Json::Array)
        }
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| Ok((name.clone(), each_text(value, translate)?)))
            .collect::<Result<_, String>>()
            .map(Json::Object),
        other => Ok(other.clone()),
    }
}

/// Returns whether `path` begins with `~`, which the other programs do not replace by the home folder.
fn is_below_home(path: &Json) -> bool {
    path.as_str().is_some_and(|path| below_home(path).is_some())
}

/// Returns the fields of `entry` that are not `null`.
fn present_fields(entry: &Json) -> Result<Map<String, Json>, String> {
    let fields = entry.as_object().ok_or("entry")?;
    Ok(fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Returns whether `word` names the transport that a program without SSE assumes anyway: Streamable HTTP for a server
/// with an address, stdio for any other.
fn is_implied_transport(word: &Json, is_remote: bool) -> bool {
    let word = word.as_str().unwrap_or_default().to_ascii_lowercase().replace(['-', '_'], "");
    if is_remote { matches!(&*word, "http" | "streamablehttp" | "remote") } else { matches!(&*word, "stdio" | "local") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_opencode_v1(entry: &Json) -> Translated {
        for_opencode(entry, false)
    }

    #[test]
    fn opencode_gets_its_own_words() {
        assert_eq!(
            for_opencode(&json!({ "command": "x", "enabled": false }), true),
            Ok(json!({ "type": "local", "command": ["x"], "disabled": true }))
        );
        assert_eq!(
            for_opencode_v1(
                &json!({ "type": "stdio", "command": "npx", "args": ["-y", "$$x"], "env": { "K": "a-${KEY}" } })
            ),
            Ok(json!({ "type": "local", "command": ["npx", "-y", "$x"], "environment": { "K": "a-{env:KEY}" } }))
        );
        assert_eq!(
            for_opencode_v1(&json!({ "url": "https://x", "headers": { "A": "Bearer $T" }, "disabled": true })),
            Ok(json!({ "type": "remote", "url": "https://x", "headers": { "A": "Bearer {env:T}" }, "enabled": false }))
        );
    }

    #[test]
    fn codex_gets_its_own_words() {
        assert_eq!(
            for_codex(&json!({
                "command": "npx", "args": ["$x"], "env": { "A": "${A}", "B": "b" }, "inherit_env": ["C"],
                "startup_timeout": 5, "call_timeout": 6, "tools": { "allow": ["x"], "deny": ["y"] },
            })),
            Ok(json!({
                "command": "npx", "args": ["$x"], "env": { "B": "b" }, "env_vars": ["A", "C"],
                "startup_timeout_sec": 5, "tool_timeout_sec": 6, "enabled_tools": ["x"], "disabled_tools": ["y"],
            }))
        );
        assert_eq!(
            for_codex(&json!({
                "type": "http", "url": "https://x",
                "headers": { "Authorization": "Bearer ${T}", "X": "${X_VALUE}", "Y": "y" },
            })),
            Ok(json!({
                "url": "https://x", "bearer_token_env_var": "T", "env_http_headers": { "X": "X_VALUE" },
                "http_headers": { "Y": "y" },
            }))
        );
    }

    #[test]
    fn the_error_names_the_field_that_the_program_s_format_cannot_express() {
        for (entry, field) in [
            (json!({ "type": "sse", "url": "https://x" }), "type"),
            (json!({ "command": "x", "retry": "off" }), "retry"),
            (json!({ "command": "~/bin/x" }), "command"),
            (json!({ "command": "x", "env": { "K": "${secret:k}" } }), "env"),
        ] {
            assert_eq!(for_opencode_v1(&entry), Err(field.to_owned()));
        }
        for (entry, field) in [
            (json!({ "type": "sse", "url": "https://x" }), "type"),
            (json!({ "command": "x", "args": ["${A}"] }), "args"),
            (json!({ "command": "x", "cwd": "~" }), "cwd"),
            (json!({ "command": "x", "env": { "K": "a${B}" } }), "env.K"),
            (json!({ "command": "x", "tools": ["read_*"] }), "tools.allow"),
        ] {
            assert_eq!(for_codex(&entry), Err(field.to_owned()));
        }
    }
}
