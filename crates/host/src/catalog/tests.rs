//! Catalogs without connections, for tests.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json, value::to_raw_value};

use super::{Catalog, Naming};
use crate::{
    catalog::{Listed, ListedTool, ToolSet},
    link::decode,
    spec::{ServerName, ServerSpec},
};

/// A tool with these arguments, each with a description.
pub(crate) fn tool(name: &str, description: &str, arguments: &[(&str, &str)]) -> Value {
    let properties: serde_json::Map<_, _> = arguments
        .iter()
        .map(|(name, about)| ((*name).to_owned(), json!({ "type": "string", "description": about })))
        .collect();
    json!({
        "name": name,
        "description": description,
        "inputSchema": { "type": "object", "properties": properties },
    })
}

/// The tools of one server, as `tools/list` has them.
pub(crate) fn set(tools: &[Value]) -> ToolSet {
    let tools = tools.iter().map(|tool| {
        let tool = decode::tool(&to_raw_value(tool).unwrap()).unwrap();
        ListedTool::new(tool, Default::default())
    });
    let unfiltered = ServerSpec::stdio("server", [""; 0]);
    ToolSet::new(Listed { tools: tools.collect(), ..Listed::default() }, &unfiltered)
}

pub(crate) fn catalog(version: u64, servers: &[(&str, Arc<ToolSet>)]) -> Catalog {
    let servers: BTreeMap<_, _> =
        servers.iter().map(|(name, set)| (ServerName::new(*name).unwrap(), set.clone())).collect();
    Catalog::build(version, &servers, &Naming::default())
}
