//! Reads TOML: Codex's `[mcp_servers.name]`, and Toolrack's `[[defaults.mcp]]` and `[[agents.mcp]]`.

use std::ops::Range;

use serde_json::Number;
use toml_edit::{Document as Toml, Item, TableLike, Value as TomlValue};

use super::{Agent, Servers, lower_first, not_an_object};
use crate::{
    document::Document,
    node::{Member, Node, Value},
    problem::Problem,
};

/// Returns the value of the file.
pub(crate) fn parse(document: &Document) -> Result<Node, Box<Problem>> {
    let parsed = Toml::parse(&*document.text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        let span = error.span().unwrap_or_default();
        let problem = Problem::error(format!("this is not TOML: {}", lower_first(&message)))
            .hint("this file is ignored until it can be read");
        Box::new(document.locate(problem, span))
    })?;
    Ok(convert(parsed.as_item(), 0..0))
}

pub(crate) fn servers(document: &Document) -> Result<Servers, Box<Problem>> {
    let root = parse(document)?;
    let mut servers = Servers::default();
    if let Some(defaults) = root.get("defaults") {
        if defaults.node.members().is_none() {
            let problem = Problem::error("`defaults` must be a table: write `[[defaults.mcp]]` above each server");
            servers.problems.push(document.locate(problem, defaults.node.span.clone()));
        }
        if let Some(list) = defaults.node.get("mcp") {
            servers.entries = named_entries(document, "defaults.mcp", &list.node, &mut servers.problems)?;
        }
    }
    if let Some(table) = root.get("mcp_servers") {
        let Some(members) = table.node.members() else {
            return Err(not_an_object(document, &table.node, "`mcp_servers`"));
        };
        servers.entries.extend(members.iter().cloned());
    }
    if let Some(list) = root.get("agents") {
        read_agents(document, &list.node, &mut servers);
    }
    Ok(servers)
}

/// Reads `[[agents]]`. Two tables with the same id are one agent. An error in one agent does not affect the servers of
/// the others.
fn read_agents(document: &Document, list: &Node, servers: &mut Servers) {
    let Value::List(nodes) = &list.value else {
        let problem = Problem::error("`agents` must be a list: write `[[agents]]` above each agent");
        return servers.problems.push(document.locate(problem, list.span.clone()));
    };
    for node in nodes {
        let Some(id) = node.text("id").filter(|id| !id.trim().is_empty()) else {
            let problem = Problem::error("an agent without an id is left out").hint("give it `id = \"…\"`");
            servers.problems.push(document.locate(problem, node.span.clone()));
            continue;
        };
        let entries = match node.get("mcp") {
            Some(list) => {
                named_entries(document, "agents.mcp", &list.node, &mut servers.problems).unwrap_or_else(|problem| {
                    servers.problems.push(*problem);
                    Vec::new()
                })
            }
            None => Vec::new(),
        };
        match servers.agents.iter_mut().find(|agent| agent.id == id) {
            Some(agent) => agent.entries.extend(entries),
            None => servers.agents.push(Agent { id: id.to_owned(), entries }),
        }
    }
}

/// Reads the list `place`, such as `defaults.mcp`, in which the name of each server is one of its fields.
fn named_entries(
    document: &Document,
    place: &str,
    list: &Node,
    problems: &mut Vec<Problem>,
) -> Result<Vec<Member>, Box<Problem>> {
    let Value::List(nodes) = &list.value else {
        let problem = Problem::error(format!("`{place}` must be a list: write `[[{place}]]` above each server"));
        return Err(Box::new(document.locate(problem, list.span.clone())));
    };
    let mut entries = Vec::with_capacity(nodes.len());
    for node in nodes {
        let name = node.get("name").map(|member| (&member.node.value, member.node.span.clone()));
        match (name, node.members()) {
            (Some((Value::Text(name), name_span)), Some(members)) => entries.push(Member {
                name: name.clone(),
                name_span,
                node: Node {
                    span: node.span.clone(),
                    value: Value::Map(members.iter().filter(|member| member.name != "name").cloned().collect()),
                },
            }),
            _ => problems.push(document.locate(
                Problem::error("a server without a name is left out").hint("give it `name = \"…\"`"),
                node.span.clone(),
            )),
        }
    }
    Ok(entries)
}

/// Converts `item`. An item without a position gets the position `fallback`.
fn convert(item: &Item, fallback: Range<usize>) -> Node {
    let span = item.span().unwrap_or(fallback);
    let value = match item {
        Item::None => Value::Null,
        Item::Value(value) => return convert_value(value, span),
        Item::Table(table) => Value::Map(convert_members(table, &span)),
        Item::ArrayOfTables(tables) => Value::List(
            tables
                .iter()
                .map(|table| {
                    let span = table.span().unwrap_or_else(|| span.clone());
                    Node { value: Value::Map(convert_members(table, &span)), span }
                })
                .collect(),
        ),
    };
    Node { span, value }
}

fn convert_value(value: &TomlValue, fallback: Range<usize>) -> Node {
    let span = value.span().unwrap_or(fallback);
    let value = match value {
        TomlValue::String(text) => Value::Text(text.value().clone()),
        TomlValue::Integer(number) => Value::Number((*number.value()).into()),
        TomlValue::Float(number) => match Number::from_f64(*number.value()) {
            Some(number) => Value::Number(number),
            // JSON has no `nan` and no `inf`.
            None => Value::Text(number.value().to_string()),
        },
        TomlValue::Boolean(flag) => Value::Bool(*flag.value()),
        TomlValue::Datetime(date) => Value::Text(date.value().to_string()),
        TomlValue::Array(array) => Value::List(array.iter().map(|value| convert_value(value, span.clone())).collect()),
        TomlValue::InlineTable(table) => Value::Map(convert_members(table, &span)),
    };
    Node { span, value }
}

fn convert_members(table: &dyn TableLike, fallback: &Range<usize>) -> Vec<Member> {
    table
        .iter()
        .map(|(name, item)| {
            let name_span = table.key(name).and_then(toml_edit::Key::span).unwrap_or_else(|| fallback.clone());
            Member { name: name.to_owned(), node: convert(item, name_span.clone()), name_span }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Servers, Box<Problem>> {
        servers(&Document::new(Some("f.toml".into()), text))
    }

    #[test]
    fn both_shapes_are_read_with_places() {
        let text = "[defaults]\n# shared\n\n[[defaults.mcp]]\nname = \"fs\"\ncommand = \"x\"\n\n[mcp_servers.gh]\nurl = \"https://x\"\n[mcp_servers.gh.headers]\nA = \"b\"\n";
        let servers = read(text).unwrap();
        assert!(servers.problems.is_empty());
        let names: Vec<_> = servers.entries.iter().map(|raw_entry| &*raw_entry.name).collect();
        assert_eq!(names, ["fs", "gh"]);
        let command = &servers.entries[0].node.get("command").unwrap();
        assert_eq!(&text[command.node.span.clone()], "\"x\"");
        assert!(servers.entries[0].node.get("name").is_none());
        let header = servers.entries[1].node.get("headers").unwrap().node.get("A").unwrap().clone();
        assert_eq!(&text[header.node.span], "\"b\"");
    }

    #[test]
    fn a_server_without_a_name_costs_only_itself() {
        let servers = read("[[defaults.mcp]]\ncommand = \"x\"\n[[defaults.mcp]]\nname = \"a\"\n").unwrap();
        assert_eq!(servers.entries.len(), 1);
        assert_eq!(servers.problems[0].line, Some(1));
    }

    #[test]
    fn servers_that_are_not_below_defaults_mcp_are_named_and_cost_no_others() {
        for (text, line) in [
            ("defaults = 1\n[mcp_servers.a]\ncommand = \"x\"\n", 1),
            ("defaults = [1]\n[mcp_servers.a]\ncommand = \"x\"\n", 1),
            ("[mcp_servers.a]\ncommand = \"x\"\n[[defaults]]\nname = \"b\"\ncommand = \"x\"\n", 3),
        ] {
            let servers = read(text).unwrap();
            assert_eq!(servers.entries.iter().map(|raw_entry| &*raw_entry.name).collect::<Vec<_>>(), ["a"], "{text}");
            let [problem] = &*servers.problems else { panic!("{text}: {:?}", servers.problems) };
            assert_eq!((problem.is_error(), problem.line), (true, Some(line)), "{text}");
            assert!(problem.message.contains("write `[[defaults.mcp]]`"), "{problem}");
        }
    }

    #[test]
    fn agents_have_servers_of_their_own() {
        let servers = read(
            "[[agents]]\nid = \"a\"\n[[agents.mcp]]\nname = \"x\"\ncommand = \"x\"\n[[agents]]\nid = \"b\"\n\
             [[agents]]\nmcp = []\n[[agents]]\nid = \"a\"\nmcp = [{ name = \"y\", command = \"y\" }]\n",
        )
        .unwrap();
        let agents: Vec<_> = servers.agents.iter().map(|agent| (&*agent.id, agent.entries.len())).collect();
        assert_eq!(agents, [("a", 2), ("b", 0)]);
        assert_eq!((servers.problems.len(), servers.problems[0].line), (1, Some(8)));
        for text in ["agents = 1", "[[agents]]\nid = \"a\"\nmcp = 1"] {
            assert!(read(text).is_ok_and(|servers| servers.problems.len() == 1), "{text}");
        }
    }

    #[test]
    fn broken_toml_is_placed() {
        let problem = read("[defaults]\nmcp = [\n").unwrap_err();
        assert!(problem.line.is_some_and(|line| line >= 2), "{problem}");
        assert!(read("mcp_servers = 1").is_err());
        assert!(read("[defaults]\nmcp = 1").is_err());
    }
}
