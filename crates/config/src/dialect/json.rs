//! Reads JSON with comments and trailing commas.

use std::{ops::Range, path::Path, str::FromStr};

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged, parse_to_ast};
use serde_json::Number;

use super::{Servers, lower_first, not_an_object};
use crate::{
    document::Document,
    entry::looks_like_server,
    node::{Member, Node, Value},
    problem::Problem,
    suggest::intended_name,
};

/// The keys under which files list their servers, the most common ones first. `mcp.servers` is one key with a dot, as
/// in VS Code's settings.
pub(crate) const SERVERS_KEYS: &[&[&str]] =
    &[&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"], OPENCODE];

/// The key of the servers in opencode's files. In files of its version 2, they are one level deeper: `mcp.servers`.
const OPENCODE: &[&str] = &["mcp"];

/// The maximum number of servers that a message names.
const MAX_LISTED_NAMES: usize = 5;

/// Keys that do not cause a warning in a file without servers.
const HARMLESS_KEYS: &[&str] = &["$schema", "inputs"];

/// JSON with comments and trailing commas, otherwise as in RFC 8259.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The object in which a file lists its servers.
#[derive(Debug)]
pub(crate) enum ServersObject<'a> {
    /// The object under a key.
    Under(&'a Node),
    /// The outermost object.
    Root(&'a Node),
    /// The file has no such object yet.
    Missing,
}

/// Returns the servers of a JSON file, and warnings about ignored parts of the file. Returns an error if the file
/// cannot be parsed, or if the place of its servers has a value that is not an object.
pub(super) fn servers(document: &Document) -> Result<Servers, Box<Problem>> {
    let mut servers = Servers::default();
    let Some(root) = parse(document)? else {
        return Ok(servers);
    };
    let servers_object = servers_object(document, &root)?;
    match servers_object {
        ServersObject::Under(node) | ServersObject::Root(node) => {
            servers.problems.extend(ignored_servers(document, &root, node));
            let members = node.members().unwrap_or_default();
            servers.entries = members.iter().filter(|member| member.name != "$schema").cloned().collect();
            if is_gemini(document) {
                servers.entries.iter_mut().for_each(|entry| set_sse_type(&mut entry.node));
            }
        }
        ServersObject::Missing => servers.problems.extend(no_servers_warning(document, &root)),
    }
    Ok(servers)
}

/// Parses the file; `None` when it has only comments.
pub(crate) fn parse(document: &Document) -> Result<Option<Node>, Box<Problem>> {
    check_texts(document)?;
    let parse_result = parse_to_ast(&document.text, &CollectOptions::default(), &OPTIONS).map_err(|error| {
        let range = error.range();
        let reason = lower_first(&error.kind().to_string());
        let problem =
            Problem::error(format!("this is not JSON: {reason}")).hint("this file is ignored until it can be read");
        Box::new(document.locate(problem, range.start..range.end))
    })?;
    parse_result.value.map(|value| convert(document, value)).transpose()
}

/// Finds the object of the servers in `root`.
pub(crate) fn servers_object<'a>(document: &Document, root: &'a Node) -> Result<ServersObject<'a>, Box<Problem>> {
    let Some(members) = root.members() else {
        return Err(not_an_object(document, root, "the file"));
    };
    for &path in SERVERS_KEYS {
        let node_at_path = path.iter().try_fold(root, |node, key| Some(&node.get(key)?.node));
        let is_servers_object = |node: &&Node| match path {
            OPENCODE => is_opencode(document, root),
            // A server of opencode can be called `servers`.
            ["mcp", _] => node.text("type").is_none(),
            _ => true,
        };
        if let Some(node) = node_at_path.filter(is_servers_object) {
            if node.members().is_none() {
                return Err(not_an_object(document, node, &format!("`{}`", path.join("."))));
            }
            return Ok(ServersObject::Under(node));
        }
    }
    if members.iter().any(|member| looks_like_server(&member.node)) {
        return Ok(ServersObject::Root(root));
    }
    Ok(ServersObject::Missing)
}

/// Returns warnings about the servers outside of `used_object`: servers under another key, or under the same key a
/// second time.
fn ignored_servers(document: &Document, root: &Node, used_object: &Node) -> Vec<Problem> {
    let mut ignored_objects = Vec::new();
    let mut used_path = None;
    for &path in SERVERS_KEYS {
        if path == OPENCODE && !is_opencode(document, root) {
            continue;
        }
        for node in all_at(root, path) {
            if std::ptr::eq(node, used_object) {
                used_path = Some(path);
                continue;
            }
            // `mcp` may be the object around the used servers, or one of the used servers may be called `servers`.
            let contains =
                |outer: &Node, inner: &Node| outer.span.start <= inner.span.start && inner.span.end <= outer.span.end;
            let names = names_of_servers(node);
            if names.is_empty() || contains(node, used_object) || contains(used_object, node) {
                continue;
            }
            ignored_objects.push((path, node, names));
        }
    }
    let problem_for = |(path, node, names): (&[&str], &Node, String)| {
        let key = path.join(".");
        let problem = match used_path {
            Some(used_path) if used_path == path => {
                Problem::error(format!("`{key}` is given twice, and this one is not used: {names}"))
            }
            Some(used_path) => Problem::warning(format!(
                "servers are in `{}` already, and those in `{key}` are not used: {names}",
                used_path.join(".")
            )),
            None => Problem::warning(format!("the servers in `{key}` are not used: {names}")),
        };
        document.locate(problem.hint("move them to the others"), node.span.clone())
    };
    ignored_objects.into_iter().map(problem_for).collect()
}

/// Returns all values at `path`: several if a name is repeated.
fn all_at<'a>(root: &'a Node, path: &[&str]) -> Vec<&'a Node> {
    let mut nodes = vec![root];
    for key in path {
        let members = nodes.into_iter().flat_map(|node| node.members().unwrap_or_default());
        nodes = members.filter(|member| member.name == *key).map(|member| &member.node).collect();
    }
    nodes
}

/// Returns the first few names of the members of `servers_object` that look like servers, and the number of the others.
fn names_of_servers(servers_object: &Node) -> String {
    let members = servers_object.members().unwrap_or_default().iter();
    let mut names = members.filter(|member| looks_like_server(&member.node)).map(|member| format!("`{}`", member.name));
    let mut listed_names: Vec<String> = names.by_ref().take(MAX_LISTED_NAMES).collect();
    match names.count() {
        0 => {}
        unlisted_count => listed_names.push(format!("{unlisted_count} more")),
    }
    listed_names.join(", ")
}

/// Returns whether the file belongs to opencode, which has its own names for the fields of an entry.
pub(crate) fn is_opencode(document: &Document, root: &Node) -> bool {
    let has_opencode_name =
        || document.path.as_deref().and_then(Path::file_stem).is_some_and(|stem| stem == "opencode");
    let has_opencode_schema = || root.text("$schema").is_some_and(|schema| schema.contains("opencode.ai/"));
    has_opencode_schema() || has_opencode_name() || {
        let mcp = root.get("mcp").map(|member| &member.node);
        let nested_servers = mcp.and_then(|mcp| mcp.get("servers")).map(|member| &member.node);
        [mcp, nested_servers].into_iter().flatten().any(has_opencode_types)
    }
}

/// Returns whether the file is Gemini CLI's own.
fn is_gemini(document: &Document) -> bool {
    document.path.as_deref().is_some_and(|path| path.ends_with(".gemini/settings.json"))
}

/// Adds the type SSE where Gemini CLI implies it: it treats a `url` without a type as SSE, and `httpUrl` as streamable
/// HTTP (docs/tools/mcp-server.md in google-gemini/gemini-cli).
fn set_sse_type(entry: &mut Node) {
    let has_value = |name: &str| entry.get(name).is_some_and(|member| !matches!(member.node.value, Value::Null));
    if !has_value("url") || has_value("type") || has_value("httpUrl") {
        return;
    }
    let span = entry.span.clone();
    if let Value::Map(members) = &mut entry.value {
        let node = Node { span: span.clone(), value: Value::Text("sse".to_owned()) };
        match members.iter_mut().rfind(|member| member.name == "type") {
            Some(null_member) => null_member.node = node,
            None => members.push(Member { name: "type".to_owned(), name_span: span, node }),
        }
    }
}

/// Returns whether an entry in `servers_object` has one of the types that only opencode has.
fn has_opencode_types(servers_object: &Node) -> bool {
    let entries = servers_object.members().unwrap_or_default().iter();
    entries.filter_map(|entry| entry.node.text("type")).any(|kind| matches!(kind, "local" | "remote"))
}

/// Returns a warning about a file without servers; `None` if the file is empty apart from [`HARMLESS_KEYS`].
fn no_servers_warning(document: &Document, root: &Node) -> Option<Problem> {
    let member = root.members()?.iter().find(|member| !HARMLESS_KEYS.contains(&&*member.name))?;
    let problem = Problem::warning("no servers are configured here: there is no `mcpServers`");
    let similar_member = root.members()?.iter().find(|member| {
        intended_name(&member.name, ["mcpServers", "servers"]).is_some() || member.name == "mcp_servers"
    });
    Some(match similar_member {
        Some(similar) => document.locate(
            problem.hint(format!("`{}` should probably be `mcpServers`", similar.name)),
            similar.name_span.clone(),
        ),
        None => document.locate(problem, member.name_span.clone()),
    })
}

/// Converts a parsed value to a node.
fn convert(document: &Document, value: ast::Value<'_>) -> Result<Node, Box<Problem>> {
    let span = span_of(&value);
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::StringLit(literal) => Value::Text(literal.value.into_owned()),
        ast::Value::NumberLit(literal) => {
            let number = Number::from_str(literal.value).map_err(|_| {
                let problem = Problem::error("this number is out of range");
                Box::new(document.locate(problem, span.clone()))
            })?;
            Value::Number(number)
        }
        ast::Value::Array(array) => {
            Value::List(array.elements.into_iter().map(|element| convert(document, element)).collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => Value::Map(
            object
                .properties
                .into_iter()
                .map(|property| convert_member(document, property))
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(Node { span, value })
}

fn convert_member(document: &Document, property: ast::ObjectProp<'_>) -> Result<Member, Box<Problem>> {
    Ok(Member {
        name_span: span_of(&property.name),
        name: property.name.into_string(),
        node: convert(document, property.value)?,
    })
}

/// Refuses raw control characters in strings, which the parser accepts (RFC 8259, section 7). A line break in a string
/// usually means a forgotten quote, and the parser would only fail at the text that follows.
fn check_texts(document: &Document) -> Result<(), Box<Problem>> {
    let Some(offset) = control_character_offset(&document.text) else {
        return Ok(());
    };
    let problem = match document.text.as_bytes()[offset] {
        b'\n' | b'\r' => {
            Problem::error("this is not JSON: the line ends inside a text").hint("is a closing `\"` missing?")
        }
        _ => Problem::error("this is not JSON: a control character inside a text")
            .hint("write it as an escape, such as `\\t` for a tab"),
    };
    Err(Box::new(document.locate(problem, offset..offset + 1)))
}

/// Returns the offset of the first control character between double quotes, outside of comments.
fn control_character_offset(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut offset, mut in_text) = (0, false);
    while let Some(&byte) = bytes.get(offset) {
        offset += match (byte, in_text) {
            (0..b' ', true) => return Some(offset),
            (b'\\', true) if bytes.get(offset + 1).is_some_and(|next| *next >= b' ') => 2,
            (b'"', _) => {
                in_text = !in_text;
                1
            }
            (b'/', false) => comment_length(&text[offset..]).unwrap_or(1),
            _ => 1,
        };
    }
    None
}

/// Returns the length of the comment at the beginning of `text`, when there is one.
pub(crate) fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        Some(text.find(['\n', '\r']).unwrap_or(text.len()))
    } else {
        let inside = text.strip_prefix("/*")?;
        Some(inside.find("*/").map_or(text.len(), |end| end + "/**/".len()))
    }
}

fn span_of(node: &impl Ranged) -> Range<usize> {
    let range = node.range();
    range.start..range.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let servers = servers(&Document::new(None, text)).unwrap();
        assert!(servers.problems.is_empty(), "{:?}", servers.problems);
        servers.entries.into_iter().map(|raw_entry| raw_entry.name).collect()
    }

    fn broken(text: &str) -> String {
        let document = Document::new(Some("f.json".into()), text);
        format!("{:#}", servers(&document).unwrap_err())
    }

    #[test]
    fn servers_are_found_in_every_common_shape() {
        let entry = r#"{ "command": "x" }"#;
        for shape in [
            format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#),
            format!(r#"{{ "inputs": [], "servers": {{ "a": {entry}, }} }}"#),
            format!(r#"{{ "mcp": {{ "servers": {{ "a": {entry} }} }} }}"#),
            format!(r#"{{ "$schema": "x", "a": {entry} }}"#),
            format!("\u{feff}// a comment\n{{ /* two */ \"mcpServers\": {{ \"a\": {entry}, }}, }}"),
        ] {
            assert_eq!(names(&shape), ["a"], "{shape}");
        }
        for empty in ["", "// nothing\n", "{}", r#"{ "mcpServers": {} }"#, r#"{ "$schema": "x" }"#] {
            assert!(names(empty).is_empty(), "{empty}");
        }
    }

    #[test]
    fn a_syntax_error_names_its_line_and_column() {
        for (text, place) in [
            ("{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" \"args\": [] }\n  }\n}", "f.json:3:26: "),
            ("{\n  \"mcpServers\": {", "f.json:2:17: "),
            ("{ \"a\": 1e999 }", "f.json:1:8: error: this number is out of range"),
            ("{} {}", "f.json:1:4: "),
            ("[]", "f.json:1:1: error: the file must be an object of servers, not a list"),
            ("{\"mcpServers\": []}", "f.json:1:16: error: `mcpServers` must be"),
            ("{'a': 1}", "f.json:1:2: "),
            ("{ \"a\": \"x,\n \"b\": 1 }", "f.json:1:11: error: this is not JSON: the line ends inside a text"),
            (
                "// \"\n/* \" */ { \"a\": \"\\\"\r\" }",
                "f.json:2:19: error: this is not JSON: the line ends inside a text",
            ),
            ("{ \"a\tb\": 1 }", "f.json:1:5: error: this is not JSON: a control character"),
        ] {
            assert!(broken(text).starts_with(place), "{}", broken(text));
        }
    }

    #[test]
    fn an_address_without_a_type_in_gemini_s_own_file_is_one_of_sse() {
        let text = r#"{ "mcpServers": { "a": { "url": "u" }, "b": { "httpUrl": "u" }, "c": { "url": "u", "type": "http" } } }"#;
        let null = r#"{ "mcpServers": { "a": { "url": "u", "type": null } } }"#;
        let servers_of_null = servers(&Document::new(Some("/home/ada/.gemini/settings.json".into()), null)).unwrap();
        let fields = servers_of_null.entries[0].node.members().unwrap();
        assert_eq!(fields.iter().filter(|field| field.name == "type").count(), 1, "{fields:?}");
        let kinds = |path: &str| {
            let servers = servers(&Document::new(Some(path.into()), text)).unwrap();
            servers.entries.iter().map(|raw_entry| raw_entry.node.text("type").map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(kinds("/home/ada/.gemini/settings.json"), [Some("sse".to_owned()), None, Some("http".to_owned())]);
        assert_eq!(kinds("/home/ada/settings.json"), [None, None, Some("http".to_owned())]);
    }

    #[test]
    fn servers_that_another_container_hides_are_named() {
        let entry = r#"{ "command": "x" }"#;
        for (text, is_error, used, message) in [
            (
                format!(r#"{{"mcpServers":{{"a":{entry}}},"mcpServers":{{"c":{entry}}}}}"#),
                true,
                "c",
                "`mcpServers` is given twice, and this one is not used: `a`",
            ),
            (
                format!(r#"{{"mcpServers":{{"a":{entry}}},"servers":{{"b":{entry}}}}}"#),
                false,
                "a",
                "servers are in `mcpServers` already, and those in `servers` are not used: `b`",
            ),
            (
                format!(r#"{{"mcp":{{"servers":{{"b":{entry}}}}},"mcp.servers":{{"c":{entry}}}}}"#),
                false,
                "b",
                "servers are in `mcp.servers` already, and those in `mcp.servers` are not used: `c`",
            ),
            (
                format!(r#"{{"mcp":{{"servers":{{"a":{entry}}}}},"mcp":{{"servers":{{"b":{entry}}}}}}}"#),
                true,
                "b",
                "`mcp.servers` is given twice, and this one is not used: `a`",
            ),
        ] {
            let servers = servers(&Document::new(Some("mcp.json".into()), &text)).unwrap();
            assert_eq!(servers.entries.iter().map(|raw_entry| &*raw_entry.name).collect::<Vec<_>>(), [used], "{text}");
            assert_eq!(servers.problems.len(), 1, "{text}: {:?}", servers.problems);
            let problem = &servers.problems[0];
            assert_eq!((problem.is_error(), &*problem.message), (is_error, message), "{text}");
            assert!(problem.line.is_some() && problem.hint.is_some());
        }
        for harmless in [
            format!(r#"{{"mcpServers":{{"a":{entry}}},"servers":{{}}}}"#),
            format!(r#"{{"mcpServers":{{"a":{entry}}},"servers":["x"],"mcp":{{"enabled":true}}}}"#),
            format!(r#"{{"mcpServers":{{"a":{entry},"servers":{entry}}}}}"#),
        ] {
            names(&harmless);
        }
        let many: Vec<_> = (0..9).map(|index| format!(r#""s{index}":{entry}"#)).collect();
        let text = format!(r#"{{"mcpServers":{{"a":{entry}}},"servers":{{{}}}}}"#, many.join(","));
        let servers = servers(&Document::new(None, &text)).unwrap();
        assert!(servers.problems[0].message.ends_with("`s4`, 4 more"), "{:?}", servers.problems);
    }

    #[test]
    fn a_misspelt_container_is_named() {
        let document = Document::new(None, r#"{ "mcpservers": { "a": { "command": "x" } } }"#);
        let servers = servers(&document).unwrap();
        assert!(servers.entries.is_empty());
        assert!(servers.problems[0].hint.as_deref().unwrap().contains("`mcpServers`"));
    }
}
