//! Writes tool definitions in the formats of model providers, once for each catalog (the tools of all servers). All
//! callers share the finished bytes.
//!
//! A conversation sends the same definitions with every request. The prompt cache of a provider stays valid only while
//! the definitions have the same bytes. So the catalog makes one *block* for each pair of a *wire* (the format of a
//! provider) and a selection of tools. A block has its tools in the order of their names, and every caller gets the
//! same bytes. The bytes depend only on the tools: the same tools give the same bytes, even in another catalog or
//! another process.

mod cache;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

pub(super) use self::cache::BlockCache;
pub use self::wire::{UnknownWire, Wire};
use super::{CatalogTool, schema::Provider, selection::Selection, tokens};

/// The definition of a tool for a model, the same for every provider.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The model-visible name, by which the model calls the tool.
    pub name: Arc<str>,
    /// The server's description; `MCP tool from {server}` if the server sent none.
    pub description: Arc<str>,
    /// The JSON Schema of the arguments, in the provider's form.
    pub input_schema: Arc<RawValue>,
    /// Whether the tool takes any argument.
    pub takes_arguments: bool,
}

impl ToolDefinition {
    fn new(tool: &CatalogTool, provider: Provider) -> Self {
        let schema = tool.listed.cleaned_schemas.get(provider, &tool.tool().input_schema);
        let description = tool.tool().description.as_deref().filter(|description| !description.trim().is_empty());
        Self {
            name: tool.name.as_str().into(),
            description: description.map_or_else(|| format!("MCP tool from {}", tool.server).into(), Into::into),
            input_schema: schema.json.clone(),
            takes_arguments: schema.has_properties,
        }
    }
}

/// The kind of a block.
///
/// Cheap to clone. Equal kinds get the same block of the same catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockKind {
    /// The format of the definitions.
    wire: Wire,
    /// The provider whose rules the schemas follow.
    provider: Provider,
    selection: Arc<Selection>,
}

impl BlockKind {
    /// Creates the kind for all tools in the format of `wire`, with schemas for [that wire's own
    /// provider](Wire::provider).
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        Self { wire, provider: wire.provider(), selection: Arc::default() }
    }

    /// Sets another provider for the schemas, for a server that uses the wire but is more, or less, strict.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = provider;
        self
    }

    /// Restricts the block to these tools.
    #[must_use]
    pub fn selection(mut self, selection: impl Into<Arc<Selection>>) -> Self {
        self.selection = selection.into();
        self
    }
}

/// The definitions of several tools, and their JSON in a request to a model.
///
/// A clone copies no definition.
#[derive(Clone, Debug)]
pub struct ToolBlock {
    wire: Wire,
    tools: Arc<[ToolDefinition]>,
    json: Arc<RawValue>,
    /// The bytes of `json`, which share its memory.
    bytes: Bytes,
    /// The estimated tokens of the definitions.
    tokens: usize,
}

impl ToolBlock {
    /// Creates a block of these definitions, in this order. Blocks of a catalog come from
    /// [`Catalog::block`](super::Catalog::block); use this for definitions that no catalog has.
    #[must_use]
    pub fn new(wire: Wire, tools: impl Into<Arc<[ToolDefinition]>>) -> Self {
        let tools = tools.into();
        let json: Arc<RawValue> = wire.write(&tools).into();
        let tokens = tools
            .iter()
            .map(|tool| tokens::estimate_definition(&tool.name, &tool.description, tool.input_schema.get()))
            .fold(0, usize::saturating_add);
        Self { wire, tools, bytes: Bytes::from_owner(JsonBytes(json.clone())), json, tokens }
    }

    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a CatalogTool>, kind: &BlockKind) -> Self {
        let selected_tools = tools.filter(|tool| kind.selection.has(tool));
        Self::new(kind.wire, selected_tools.map(|tool| ToolDefinition::new(tool, kind.provider)).collect::<Vec<_>>())
    }

    /// Returns the definitions, ordered by name.
    #[must_use]
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// Returns the definition of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolDefinition> {
        // A linear search, because only blocks of a catalog are sorted.
        self.tools.iter().find(|tool| &*tool.name == name)
    }

    /// Returns how many tools there are. Providers refuse more than [`Wire::max_tools`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns whether there are no tools. Then leave `tools` out of the request, because providers refuse an empty
    /// list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the estimated tokens of the definitions in a model's context.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns the wire whose format the JSON has.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the value of the request's member `tools`, which serialises unchanged and without being parsed again.
    #[must_use]
    pub fn json(&self) -> &Arc<RawValue> {
        &self.json
    }

    /// Returns the bytes of [`Self::json`], shared and not copied.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

/// Gives access to the JSON as bytes, without a copy.
struct JsonBytes(Arc<RawValue>);

impl AsRef<[u8]> for JsonBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

#[cfg(test)]
mod tests;
