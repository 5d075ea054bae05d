//! Gives a model three tools with which it finds and calls all other tools (progressive discovery).
//!
//! Thousands of definitions would fill the context of a model. So the model gets three tools: to search, to read the
//! arguments of a tool, and to call the tool by name. These three never change, so that the prompt cache stays valid.
//!
//! A call of `call_tool` reaches this server only if its arguments are wrong. If they are right,
//! [`Host::call`](crate::Host::call) treats the call as one of the tool that the arguments name, with the same asker
//! (who answers questions during the call), bounds and other properties. So the gate, which decides whether a call may
//! run, judges the named tool. Events name that tool, and the result stays unwrapped.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use futures::{FutureExt as _, future::BoxFuture};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::task::spawn_blocking;

use super::{JsonObject, OwnTools};
use crate::{
    catalog::{Catalog, CatalogTool, Hit, Selection},
    mcp::Annotations,
    native::Native,
    spec::ServerName,
    text,
};

const SEARCH: &str = "search_tools";
const DETAILS: &str = "get_tool_details";
const CALL: &str = "call_tool";

/// How many tools a search returns by default.
const DEFAULT_LIMIT: usize = 5;
/// The most tools that a search returns.
const MAX_LIMIT: usize = 20;
/// The most bytes of a tool's description that a search shows.
const MAX_DESCRIPTION_BYTES: usize = 300;
/// The most arguments of a tool that a search names.
const MAX_ARGUMENTS: usize = 12;

/// The call that the arguments of a call of `call_tool` describe.
pub(crate) struct InnerCall {
    pub(crate) selector: String,
    pub(crate) arguments: JsonObject,
    /// The tools that the model may call.
    pub(crate) selection: Arc<Selection>,
}

/// The server with the three tools.
pub(crate) struct Discovery {
    /// A weak reference, because the host owns both the catalog and this server.
    catalog: Weak<ArcSwap<Catalog>>,
    /// The tools that can be found and called.
    selection: Arc<Selection>,
}

impl Discovery {
    /// Creates a server for the tools of `selection`. The selection does not include the server's own tools.
    pub(crate) fn server(catalog: &Arc<ArcSwap<Catalog>>, selection: Selection) -> Native {
        let discovery = Arc::new(Self { catalog: Arc::downgrade(catalog), selection: Arc::new(selection) });
        super::serve(Arc::clone(&discovery)).extended(discovery)
    }

    /// If `tool` is `call_tool`, returns the call that its arguments describe. `None` for another tool, or for wrong
    /// arguments.
    pub(crate) fn inner_call(&self, tool: &str, arguments: &JsonObject) -> Option<InnerCall> {
        let selector = arguments.get("name").and_then(Value::as_str).filter(|_| tool == CALL)?;
        let (selector, arguments) = (selector.to_owned(), inner_arguments(arguments)?);
        Some(InnerCall { selector, arguments, selection: self.selection.clone() })
    }

    fn catalog(&self) -> Result<Arc<Catalog>, String> {
        self.catalog
            .upgrade()
            .map(|catalog| catalog.load_full())
            .ok_or_else(|| "the tools are no longer available".to_owned())
    }

    async fn search(&self, arguments: &JsonObject) -> Result<String, String> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().to_owned();
        if query.trim().is_empty() {
            return Err(format!("{SEARCH} needs `query`, the task in a few words"));
        }
        let limit = arguments.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let catalog = self.catalog()?;
        let selection = match arguments.get("server").and_then(Value::as_str) {
            Some(server) => Arc::new(self.selection_of(&catalog, server)?),
            None => self.selection.clone(),
        };
        let searched_catalog = catalog.clone();
        let hits = spawn_blocking(move || searched_catalog.search(&query, limit, &selection)).await;
        let hits = hits.map_err(|_| "the search failed".to_owned())?;
        if hits.is_empty() {
            let note = "nothing fits; try other words, or one of these servers";
            return Ok(json!({ "tools": [], "note": note, "servers": self.servers(&catalog) }).to_string());
        }
        let tools: Vec<_> = hits.iter().map(|hit| FoundTool::of(&hit.tool)).collect();
        Ok(json!({ "tools": tools }).to_string())
    }

    /// Returns the part of the selection that belongs to `server`.
    fn selection_of(&self, catalog: &Catalog, server: &str) -> Result<Selection, String> {
        let servers = self.servers(catalog);
        match ServerName::new(server) {
            Ok(name) if servers.contains(server) => Ok(self.selection.restricted_to(name)),
            _ => {
                let server_names: Vec<_> = servers.into_iter().collect();
                let clipped_name = text::clip(server, 200);
                Err(format!("there is no server {}; there are {}", text::Safe(&clipped_name), server_names.join(", ")))
            }
        }
    }

    /// Returns the names of the servers that have a tool in the selection.
    fn servers(&self, catalog: &Catalog) -> BTreeSet<String> {
        catalog.tools().filter(|tool| self.selection.has(tool)).map(|tool| tool.server.to_string()).collect()
    }

    fn details(&self, arguments: &JsonObject) -> Result<String, String> {
        let Some(name) = arguments.get("name").and_then(Value::as_str) else {
            return Err(format!("{DETAILS} needs `name`, the name of a tool as {SEARCH} gives it"));
        };
        let catalog = self.catalog()?;
        let tool = catalog.select_within(name, &self.selection).map_err(|unknown| unknown.to_string())?;
        Ok(details(tool))
    }
}

/// Returns all details of a tool, as JSON.
pub(crate) fn details(tool: &CatalogTool) -> String {
    // Strings and checked JSON always serialize.
    serde_json::to_string(&Details::of(tool)).unwrap_or_default()
}

/// Returns the first `MAX_LIMIT` of `hits`, as a JSON array.
pub(crate) fn hits_as_json(hits: &[Hit]) -> String {
    let tools: Vec<_> = hits.iter().take(MAX_LIMIT).map(|hit| FoundTool::of(&hit.tool)).collect();
    serde_json::to_string(&tools).unwrap_or_default()
}

/// Returns the arguments of the inner call; models write them as an object, or as text that contains one.
fn inner_arguments(arguments: &JsonObject) -> Option<JsonObject> {
    match arguments.get("arguments") {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(inner)) => Some(inner.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        Some(_) => None,
    }
}

/// A tool in the result of a search.
#[derive(Serialize)]
struct FoundTool<'a> {
    name: &'a str,
    server: &'a str,
    description: Cow<'a, str>,
    /// The names of the tool's arguments; `?` marks optional ones.
    arguments: Vec<String>,
}

impl<'a> FoundTool<'a> {
    fn of(tool: &'a CatalogTool) -> Self {
        // If the schema cannot be parsed, the tool is shown without arguments.
        let schema: Value = serde_json::from_str(tool.tool().input_schema.get()).unwrap_or_default();
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mark_optional =
            |name: &String| if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") };
        let mut arguments: Vec<_> = schema["properties"].as_object().into_iter().flat_map(Map::keys).collect();
        arguments.sort_by_key(|name| !required.contains(&name.as_str()));
        let description = tool.tool().description.as_deref().unwrap_or_default().trim();
        Self {
            name: &tool.name,
            server: tool.server.as_str(),
            description: text::clip(description, MAX_DESCRIPTION_BYTES),
            arguments: arguments.into_iter().take(MAX_ARGUMENTS).map(mark_optional).collect(),
        }
    }
}

/// The details that a call needs.
#[derive(Serialize)]
struct Details<'a> {
    name: &'a str,
    server: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a RawValue>,
    annotations: &'a Annotations,
}

impl<'a> Details<'a> {
    fn of(tool: &'a CatalogTool) -> Self {
        let definition = tool.tool();
        Self {
            name: &tool.name,
            server: tool.server.as_str(),
            description: definition.description.as_deref().unwrap_or_default(),
            input_schema: &definition.input_schema,
            output_schema: definition.output_schema.as_deref(),
            annotations: &definition.annotations,
        }
    }
}

fn tool_definitions() -> Vec<Value> {
    let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required });
    let query = json!({
        "query": { "type": "string", "description": "What you want to do, in a few words" },
        "limit": { "type": "integer", "description": "How many tools to show; 5 if not given, at most 20" },
        "server": { "type": "string", "description": "Only tools of this server" },
    });
    let name = json!({ "type": "string", "description": "The name of the tool, as search_tools gives it" });
    let call =
        json!({ "name": name, "arguments": { "type": "object", "description": "What the tool's schema asks for" } });
    let read_only_annotations =
        |title: &str| json!({ "title": title, "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false });
    vec![
        json!({
            "name": SEARCH,
            "description": "Finds tools by what they do. There are many more tools than you can see: search before you \
                            say that something cannot be done.",
            "inputSchema": object(query, &["query"]),
            "annotations": read_only_annotations("Search tools"),
        }),
        json!({
            "name": DETAILS,
            "description": "Shows everything about one tool: its whole description and the JSON Schema of its arguments.",
            "inputSchema": object(json!({ "name": name }), &["name"]),
            "annotations": read_only_annotations("About a tool"),
        }),
        json!({
            "name": CALL,
            "description": "Calls a tool that search_tools found. Look at get_tool_details first if you are not sure of \
                            its arguments.",
            "inputSchema": object(call, &["name"]),
            "annotations": { "title": "Call a tool" },
        }),
    ]
}

impl OwnTools for Discovery {
    fn name(&self) -> &'static str {
        "toolrack-discovery"
    }

    fn tools(&self) -> Vec<Value> {
        tool_definitions()
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: &'a JsonObject) -> BoxFuture<'a, Result<String, String>> {
        async move {
            match tool {
                SEARCH => self.search(arguments).await,
                DETAILS => self.details(arguments),
                CALL => Err(format!("{CALL} needs `name`, the name of a tool, and `arguments`, an object")),
                other => Err(format!("there is no tool {}", text::Safe(other))),
            }
        }
        .boxed()
    }
}
