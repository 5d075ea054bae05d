//! Tool definitions as model providers take them: written once, then handed out as finished bytes.
//!
//! A conversation sends the same definitions with every request, and a provider's prompt cache holds only while they
//! are the same byte for byte. So a block is made once for each catalog, wire and selection, in the order of the names,
//! and every caller gets the same bytes. They depend on the tools alone: as long as these are the same, so are the
//! bytes, in another catalog or another process too.

mod kept;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

pub(super) use self::kept::Blocks;
pub use self::wire::{UnknownWire, Wire};
use super::{CatalogTool, schema::Provider, selection::Selection, tokens};

/// A tool as it is shown to a model, the same for every provider.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The model-visible name, by which the model calls it.
    pub name: Arc<str>,
    /// What it does, in the server's words; `MCP tool from {server}` when it says nothing.
    pub description: Arc<str>,
    /// JSON Schema of the arguments, as the provider takes it.
    pub input_schema: Arc<RawValue>,
    /// Whether it takes any argument.
    pub takes_arguments: bool,
}

impl ToolDefinition {
    fn new(tool: &CatalogTool, provider: Provider) -> Self {
        let schema = tool.listed.cleaned.get(provider, &tool.tool().input_schema);
        let description = tool.tool().description.as_deref().filter(|words| !words.trim().is_empty());
        Self {
            name: tool.name.as_str().into(),
            description: description.map_or_else(|| format!("MCP tool from {}", tool.server).into(), Into::into),
            input_schema: schema.json.clone(),
            takes_arguments: schema.has_properties,
        }
    }
}

/// What kind of block is wanted.
///
/// Cloned cheaply. Two of them that are equal get the same block of the same catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockKind {
    wire: Wire,
    provider: Provider,
    selection: Arc<Selection>,
}

impl BlockKind {
    /// All tools as `wire` writes them, with schemas as [that wire's own provider](Wire::provider) takes them.
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        Self { wire, provider: wire.provider(), selection: Arc::default() }
    }

    /// Schemas as another provider takes them, for a server that speaks the wire and is more, or less, strict.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = provider;
        self
    }

    /// Only these tools.
    #[must_use]
    pub fn selection(mut self, selection: impl Into<Arc<Selection>>) -> Self {
        self.selection = selection.into();
        self
    }
}

/// The definitions of several tools, and their JSON in a request to a model.
///
/// Cloning it copies no definition.
#[derive(Clone, Debug)]
pub struct ToolBlock {
    wire: Wire,
    tools: Arc<[ToolDefinition]>,
    json: Arc<RawValue>,
    bytes: Bytes,
    tokens: usize,
}

impl ToolBlock {
    /// A block of these definitions, in this order. Blocks of a catalog come from
    /// [`Catalog::block`](super::Catalog::block); this is for definitions from elsewhere.
    #[must_use]
    pub fn new(wire: Wire, tools: impl Into<Arc<[ToolDefinition]>>) -> Self {
        let tools = tools.into();
        let json: Arc<RawValue> = wire.write(&tools).into();
        let tokens = tools
            .iter()
            .map(|tool| tokens::of_definition(&tool.name, &tool.description, tool.input_schema.get()))
            .fold(0, usize::saturating_add);
        Self { wire, tools, bytes: Bytes::from_owner(Shared(json.clone())), json, tokens }
    }

    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a CatalogTool>, kind: &BlockKind) -> Self {
        let chosen = tools.filter(|tool| kind.selection.has(tool));
        Self::new(kind.wire, chosen.map(|tool| ToolDefinition::new(tool, kind.provider)).collect::<Vec<_>>())
    }

    /// The definitions, ordered by name.
    #[must_use]
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// The definition of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolDefinition> {
        // In a block of a catalog they are in order; in one from elsewhere they need not be.
        self.tools.iter().find(|tool| &*tool.name == name)
    }

    /// How many tools there are. Providers refuse more than [`Wire::max_tools`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are no tools: then leave `tools` out of the request, for providers refuse an empty list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// What the definitions cost a model, in tokens; an estimate.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The form of the JSON.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The whole value of the request's member `tools`. It serialises as it is, without being parsed again.
    #[must_use]
    pub fn json(&self) -> &Arc<RawValue> {
        &self.json
    }

    /// The bytes of [`Self::json`], shared and not copied.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

/// Lends the JSON as bytes without a copy.
struct Shared(Arc<RawValue>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

#[cfg(test)]
mod tests;
