//! Holds the catalog: an immutable, versioned picture of every callable tool. Readers load a catalog without a lock.
//!
//! A catalog maps each model-visible name to a server and a tool, so that routing never parses a name. A caller that
//! holds a catalog sees the same tools under the same names, even if servers change meanwhile.

mod block;
mod budget;
pub(crate) mod cleaned;
mod listed;
pub(crate) mod names;
pub(crate) mod param_headers;
mod profile;
pub(crate) mod schema;
pub(crate) mod search;
mod selection;
pub(crate) mod signature;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tokens;
mod tool_index;
mod toolset;

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value};

pub use block::{BlockKind, ToolBlock, ToolDefinition, UnknownWire, Wire};
pub use budget::{Budget, Offer};
pub use listed::UnusableTool;
pub(crate) use listed::{CheckFailure, Listed, ListedTool};
pub use names::{BadNameStyle, Dashes, NameCap, NameStyle, Naming};
pub(crate) use param_headers::ParamHeaders;
pub use profile::{ShownAs, ToolProfile};
pub use schema::{Change, Cleaned, Provider, clean};
pub use search::Hit;
pub use selection::Selection;
pub use signature::signature;
pub(crate) use toolset::{MismatchedTool, ToolSet};

use self::tool_index::ToolIndex;
use crate::{
    definition::DefinitionHash,
    mcp::{MAX_TOOL_NAME, Tool},
    spec::ServerName,
    text,
};

/// The most suggestions for an unknown name.
const MAX_SUGGESTIONS: usize = 3;

/// The Jaro-Winkler similarity, from 0 to 1, above which a name is suggested for an unknown one.
const MIN_SIMILARITY: f64 = 0.75;

/// The longest part of an unknown name that an error repeats, in bytes.
const MAX_SHOWN_SELECTOR_BYTES: usize = 200;

/// The longest `server/tool`; model-visible names are shorter. Longer names are not looked up, because the time for a
/// look-up grows faster than the length.
const MAX_SELECTOR_BYTES: usize = ServerName::MAX_BYTES + 1 + MAX_TOOL_NAME;

/// The way in which a call names its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolReference {
    /// This tool of this server.
    Tool(ServerName, String),
    /// A name as a user, a model or a program wrote it, which may have several meanings.
    Written(String),
}

/// The tools of all servers at one moment.
#[derive(Debug, Default)]
pub struct Catalog {
    version: u64,
    /// The longest model-visible name.
    cap: NameCap,
    /// Sorted by model-visible name, so that the tools of a model request keep the same bytes.
    tools: Vec<CatalogTool>,
    /// Tools in quarantine, because they differ from their pins (trusted definitions). No client sees these tools, and
    /// a call of such a tool fails with the reason.
    quarantined: Box<[CatalogTool]>,
    tool_index: ToolIndex,
    blocks: block::BlockCache,
    /// The tools as their servers list them, by the servers' names, for search.
    server_tools: Vec<ServerTools>,
}

/// The tools of one server, for search.
#[derive(Clone, Debug)]
struct ServerTools {
    server: ServerName,
    /// The words of the server's name.
    words: Box<[String]>,
    tool_set: Arc<ToolSet>,
}

/// A tool in the catalog.
#[derive(Clone, Debug)]
pub struct CatalogTool {
    /// The name that a model sees: unique in the catalog, `[A-Za-z0-9_-]`, within the cap.
    pub name: String,
    /// The server that has it.
    pub server: ServerName,
    pub(crate) listed: Arc<ListedTool>,
}

impl CatalogTool {
    /// Returns the tool as models, clients and users see it. Its texts have no invisible characters, unless the
    /// server's configuration [keeps](crate::spec::Invisible::Keep) them.
    #[must_use]
    pub fn tool(&self) -> &Tool {
        self.listed.shown()
    }

    /// Returns the tool exactly as the server listed it, to judge the server's text. The name is the same in both
    /// forms.
    #[must_use]
    pub fn as_listed(&self) -> &Tool {
        &self.listed.tool
    }

    /// Returns the estimated tokens of its definition in a model's context, computed on first use.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.listed.tokens()
    }

    /// Returns the hash of its definition. The first use computes it (about ten microseconds, more for large schemas).
    #[must_use]
    pub fn definition_hash(&self) -> DefinitionHash {
        self.listed.definition_hash()
    }

    /// Returns `false` only if [`Self::mirrored_headers`] returns no headers for any arguments. A cheap check before
    /// that method.
    #[must_use]
    pub fn may_mirror(&self) -> bool {
        ParamHeaders::may_be_in(self.tool().input_schema.get())
    }

    /// Returns the HTTP headers that mirror arguments of this tool (MCP 2026-07-28, `x-mcp-header`), and their values
    /// for these arguments; `None` for an argument that is absent. A program that offers the tool over HTTP must check
    /// these headers. Returns no headers for a tool with invalid `x-mcp-header` marks, which clients do not call over
    /// HTTP.
    #[must_use]
    pub fn mirrored_headers(&self, arguments: &Map<String, Value>) -> Vec<(HeaderName, Option<HeaderValue>)> {
        let schema = serde_json::from_str(self.tool().input_schema.get());
        let marks = schema.ok().and_then(|schema| ParamHeaders::from_schema(&schema).ok());
        marks.map(|marks| marks.mirrored_headers(arguments)).unwrap_or_default()
    }

    /// Returns the name that users and policies write: `server/tool`.
    #[must_use]
    pub fn selector(&self) -> String {
        format!("{}/{}", self.server, self.listed.tool.name)
    }
}

/// The error for a name that no tool has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("no tool is called `{selector}`{}", Suggestions(.suggestions))]
pub struct UnknownTool {
    /// The caller's text, safe to print.
    pub selector: String,
    /// Tools with similar names, as `server/tool`.
    pub suggestions: Vec<String>,
}

impl Catalog {
    /// Builds the catalog of the tools of `servers`.
    pub(crate) fn build(version: u64, servers: &BTreeMap<ServerName, Arc<ToolSet>>, naming: &Naming) -> Self {
        let pairs = servers.iter().flat_map(|(server, tool_set)| {
            tool_set.all().map(move |listed| (server.as_str(), listed.tool.name.as_str()))
        });
        let names = names::assign(naming, pairs);
        let mut catalog = Self { version, cap: naming.cap, ..Self::default() };
        let mut quarantined = Vec::new();
        for (server, tool_set) in servers {
            let words = search::server_words(server.as_str());
            catalog.server_tools.push(ServerTools { server: server.clone(), words, tool_set: tool_set.clone() });
            let to_catalog_tool = |listed: &Arc<ListedTool>| {
                let name = names.get(&(server.as_str(), listed.tool.name.as_str()))?.clone();
                Some(CatalogTool { name, server: server.clone(), listed: listed.clone() })
            };
            catalog.tools.extend(tool_set.tools.iter().filter_map(to_catalog_tool));
            let mismatched = tool_set.mismatched.iter().filter(|mismatched| !mismatched.usable);
            quarantined.extend(mismatched.filter_map(|mismatched| to_catalog_tool(&mismatched.listed)));
        }
        catalog.quarantined = quarantined.into();
        catalog.tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        // This should remove nothing: `names::assign` distinguishes tools by up to 40 digits of a hash.
        catalog.tools.dedup_by(|a, b| a.name == b.name);
        catalog.tools.shrink_to_fit();
        catalog.tool_index = ToolIndex::new(&catalog.tools);
        catalog
    }

    /// Returns a catalog of the servers that `is_selected` accepts. Each tool keeps its name, because a name depends
    /// only on its own server and tool.
    pub(crate) fn excerpt(&self, is_selected: impl Fn(&ServerName) -> bool) -> Self {
        let tools: Vec<_> = self.tools.iter().filter(|tool| is_selected(&tool.server)).cloned().collect();
        Self {
            version: self.version,
            cap: self.cap,
            tool_index: ToolIndex::new(&tools),
            tools,
            quarantined: self.quarantined.iter().filter(|tool| is_selected(&tool.server)).cloned().collect(),
            server_tools: self
                .server_tools
                .iter()
                .filter(|server_tools| is_selected(&server_tools.server))
                .cloned()
                .collect(),
            ..Self::default()
        }
    }

    /// Returns the tools of each server, to build another catalog.
    pub(crate) fn tool_sets(&self) -> BTreeMap<ServerName, Arc<ToolSet>> {
        self.server_tools.iter().map(|tools| (tools.server.clone(), tools.tool_set.clone())).collect()
    }

    /// Returns the version, which grows with each change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns all tools, ordered by model-visible name.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &CatalogTool> {
        self.tools.iter()
    }

    /// Returns the tools in quarantine, which differ from their [pins](crate::pins). No model sees these tools, and no
    /// search finds them. Each tool has the name that it would have outside of quarantine.
    pub fn quarantined(&self) -> impl ExactSizeIterator<Item = &CatalogTool> {
        self.quarantined.iter()
    }

    /// Returns the tool in quarantine that `selector` names, in one of the spellings of [`Self::select`]. A call of
    /// this tool fails, and its error has the reason of the quarantine.
    #[must_use]
    pub fn quarantined_tool(&self, selector: &str) -> Option<&CatalogTool> {
        let has_name = |tool: &&CatalogTool| {
            let (server, name) = (tool.server.as_str(), tool.listed.tool.name.as_str());
            let pair = || selector.strip_prefix(server)?.strip_prefix(['/', '.']);
            tool.name == selector || pair() == Some(name)
        };
        self.quarantined.iter().find(has_name)
    }

    /// Returns the tool `tool` of `server`, in quarantine or not, for callers that know both names. Neither name is
    /// parsed.
    #[must_use]
    pub fn tool_of(&self, server: &ServerName, tool: &str) -> Option<&CatalogTool> {
        let has_name = |entry: &&CatalogTool| entry.server == *server && entry.listed.tool.name == tool;
        self.find_pair(server, tool).or_else(|| self.quarantined.iter().find(has_name))
    }

    /// Returns the tool of a call, in quarantine or not.
    pub(crate) fn tool_named(&self, reference: &ToolReference) -> Option<&CatalogTool> {
        match reference {
            ToolReference::Tool(server, tool) => self.tool_of(server, tool),
            ToolReference::Written(selector) => self.find(selector).or_else(|| self.quarantined_tool(selector)),
        }
    }

    /// Returns whether the catalog has the tool of a call, in quarantine or not.
    pub(crate) fn has(&self, reference: &ToolReference) -> bool {
        self.tool_named(reference).is_some()
    }

    /// Returns whether the catalog has the tool that `selector` names, in quarantine or not, in one of the spellings of
    /// [`Self::select`].
    #[must_use]
    pub fn has_tool(&self, selector: &str) -> bool {
        self.find(selector).is_some() || self.quarantined_tool(selector).is_some()
    }

    /// Returns the tool of this model-visible name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CatalogTool> {
        self.tool_index.get(&self.tools, name)
    }

    /// Returns tool definitions in a provider's format, ordered by name. The first use of a kind makes the block, which
    /// takes a few microseconds for each tool, and more for large schemas. The catalog caches the blocks of up to 16
    /// kinds; later callers share them without a copy.
    ///
    /// A tool that has not changed since an earlier catalog keeps its cleaned schema. If no selected tool has changed,
    /// the bytes are the same.
    #[must_use]
    pub fn block(&self, kind: &BlockKind) -> Arc<ToolBlock> {
        self.blocks.get(kind, || ToolBlock::of(self.tools.iter(), kind))
    }

    /// Returns the tool that `selector` names: `server/tool`, `server.tool` or a model-visible name.
    ///
    /// # Errors
    /// [`UnknownTool`], with similar names; without them if `selector` is longer than a name can be.
    pub fn select(&self, selector: &str) -> Result<&CatalogTool, UnknownTool> {
        self.find(selector).ok_or_else(|| self.unknown(selector))
    }

    /// Returns the error that no tool is called `selector`, with similar names.
    #[must_use]
    pub fn unknown(&self, selector: &str) -> UnknownTool {
        UnknownTool {
            selector: text::for_line(&text::clip(selector, MAX_SHOWN_SELECTOR_BYTES)).into_owned(),
            suggestions: self.similar_to(selector),
        }
    }

    /// Selects as [`Self::select`] does, but only among the tools of `selection`.
    ///
    /// # Errors
    /// [`UnknownTool`], with similar names of that selection. It reveals nothing about other tools.
    pub fn select_within(&self, selector: &str, selection: &Selection) -> Result<&CatalogTool, UnknownTool> {
        match self.find(selector) {
            Some(tool) if selection.has(tool) => Ok(tool),
            _ => {
                let mut suggestions = self.similar_to(selector);
                suggestions.retain(|similar| self.find(similar).is_some_and(|tool| selection.has(tool)));
                let clipped = text::clip(selector, MAX_SHOWN_SELECTOR_BYTES);
                Err(UnknownTool { selector: text::for_line(&clipped).into_owned(), suggestions })
            }
        }
    }

    /// Returns the tool that `selector` names: as `server/tool`, or else as a model-visible name, or else as
    /// `server.tool`.
    fn find(&self, selector: &str) -> Option<&CatalogTool> {
        if selector.len() > MAX_SELECTOR_BYTES {
            return None;
        }
        let tool_split_at = |separator: usize| {
            let server = ServerName::new(&selector[..separator]).ok()?;
            self.find_pair(&server, &selector[separator + 1..])
        };
        if let Some(slash) = selector.find('/')
            && let Some(tool) = tool_split_at(slash)
        {
            return Some(tool);
        }
        if let Some(tool) = self.get(selector) {
            return Some(tool);
        }
        // The longest server name wins, because names may contain dots.
        selector.rmatch_indices('.').find_map(|(dot, _)| tool_split_at(dot))
    }

    /// Returns the tool `tool` of `server`, unless it is in quarantine.
    fn find_pair(&self, server: &ServerName, tool: &str) -> Option<&CatalogTool> {
        self.tool_index.get_pair(&self.tools, server.as_str(), tool)
    }

    /// Returns the tool that models see as `name` in one of the [usual styles](NameStyle::PRESETS), also if this
    /// catalog has another style. `None` if several tools could have that name.
    ///
    /// This is for a user who types a name as another program shows it. Do not use it for names that a model wrote: any
    /// server with a tool of that name would get the call.
    #[must_use]
    pub fn by_usual_name(&self, name: &str) -> Option<&CatalogTool> {
        let mut only_match: Option<&CatalogTool> = None;
        let namings = NameStyle::PRESETS.into_iter().flat_map(|style| {
            [Dashes::Keep, Dashes::Underscore].map(|dashes| Naming { style: style.clone(), cap: self.cap, dashes })
        });
        for naming in namings {
            let pairs = self.tools.iter().map(|tool| (tool.server.as_str(), tool.listed.tool.name.as_str()));
            let names = names::assign(&naming, pairs);
            let found_in_style = self.tools.iter().find(|tool| {
                let pair = (tool.server.as_str(), tool.listed.tool.name.as_str());
                names.get(&pair).is_some_and(|assigned_name| assigned_name == name)
            });
            match (only_match, found_in_style) {
                (Some(first), Some(other)) if !std::ptr::eq(first, other) => return None,
                (None, Some(_)) => only_match = found_in_style,
                _ => {}
            }
        }
        only_match
    }

    /// Returns the selectors of tools with similar names, the most similar first, safe to print.
    fn similar_to(&self, selector: &str) -> Vec<String> {
        if selector.len() > MAX_SELECTOR_BYTES {
            return Vec::new();
        }
        // The selectors below have a slash between server and tool.
        let query = selector.replace('.', "/").to_lowercase();
        let mut similar_tools: Vec<_> = self
            .tools
            .iter()
            .filter_map(|tool| {
                let selector = tool.selector();
                let similarity = strsim::jaro_winkler(&query, &selector.to_lowercase())
                    .max(strsim::jaro_winkler(&query, &tool.listed.tool.name.to_lowercase()));
                (similarity > MIN_SIMILARITY).then_some((similarity, selector))
            })
            .collect();
        similar_tools.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let escape = |(_, selector): (f64, String)| text::for_line(&selector).into_owned();
        similar_tools.into_iter().take(MAX_SUGGESTIONS).map(escape).collect()
    }
}

/// The end of the message of [`UnknownTool`]: the suggestions, or nothing if there are none.
struct Suggestions<'a>(&'a [String]);

impl std::fmt::Display for Suggestions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => Ok(()),
            [only] => write!(f, "; did you mean `{only}`?"),
            [first, rest @ ..] => write!(f, "; did you mean `{first}`, or {}?", rest.join(", ")),
        }
    }
}
