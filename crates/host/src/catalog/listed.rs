//! Holds the tools of one server, as the server listed them. Some data is derived from each tool on first use.
//!
//! A tool has two forms. Calls and checks use the tool as its server sent it. Models, clients and users see its *shown*
//! form, without invisible characters.

use std::{fmt, sync::OnceLock, time::Duration};

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use super::{cleaned::CleanedSchemas, param_headers::ParamHeaders, tokens};
use crate::{
    definition::{DefinitionHash, canonical_definition},
    invisible,
    mcp::Tool,
    spec::{Invisible, ServerSpec},
    text,
    validate::{Mismatches, Unfit, Validator, plainly_fits},
};

/// A tool as the server listed it.
#[derive(Debug)]
pub(crate) struct ListedTool {
    /// The tool as the server sent it, for calls, for checks of arguments, and for the comparison with its trusted
    /// definition (its pin).
    pub(crate) tool: Tool,
    /// The tool as models, clients and users see it, if that differs. Boxed, because that is rare.
    shown: Option<Box<Tool>>,
    /// The HTTP headers that repeat some of its arguments (2026-07-28, Streamable HTTP).
    pub(crate) headers: ParamHeaders,
    /// The input schema for each model provider.
    pub(crate) cleaned_schemas: CleanedSchemas,
    /// The tokens in a model's context. Counted on demand, because a call does not need it.
    tokens: OnceLock<u32>,
    /// Data that only called or inspected tools need. Boxed, because most tools never are.
    derived: OnceLock<Box<Derived>>,
}

/// Data of a listed tool that is computed on first use.
#[derive(Debug, Default)]
struct Derived {
    input: LazySchema,
    output: LazySchema,
    definition_hash: OnceLock<DefinitionHash>,
}

/// The reason why a value does not count as matching a schema of its tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CheckFailure {
    /// The value does not match the schema: the place and the reason.
    Mismatch(String),
    /// The check could not be made: the reason.
    Unchecked(String),
}

/// A schema of a tool.
#[derive(Debug)]
struct Schema {
    schema: Value,
    /// Compiled for the first value that the quick check cannot accept.
    validator: OnceLock<Result<Validator, String>>,
}

/// A schema that is parsed on first use.
type LazySchema = OnceLock<Result<Schema, String>>;

/// Compares the tool as the server sent it, its shown form, and the headers for calls, but no derived data.
impl PartialEq for ListedTool {
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool && self.shown == other.shown && self.headers == other.headers
    }
}

impl ListedTool {
    pub(crate) fn new(tool: Tool, headers: ParamHeaders) -> Self {
        let (tokens, derived) = (OnceLock::new(), OnceLock::new());
        Self { tool, shown: None, headers, cleaned_schemas: CleanedSchemas::default(), tokens, derived }
    }

    /// Makes the shown form of the tool, according to the server's configuration.
    ///
    /// # Errors
    /// If invisible characters in it could not be found.
    pub(crate) fn shown_as(mut self, spec: &ServerSpec) -> Result<Self, UnusableTool> {
        let without_invisible =
            invisible::cleaned_tool(&self.tool).map_err(|why| UnusableTool::new(&self.tool.name, &why))?;
        self.shown = match spec.invisible.unwrap_or_default() {
            Invisible::Remove => without_invisible.map(Box::new),
            Invisible::Keep => None,
        };
        Ok(self)
    }

    /// Returns the tool as models, clients and users see it.
    pub(crate) fn shown(&self) -> &Tool {
        self.shown.as_deref().unwrap_or(&self.tool)
    }

    /// Returns the estimated tokens of its definition in a model's context.
    pub(crate) fn tokens(&self) -> usize {
        let count = || u32::try_from(tokens::estimate_tool(self.shown())).unwrap_or(u32::MAX);
        *self.tokens.get_or_init(count) as usize
    }

    fn derived(&self) -> &Derived {
        self.derived.get_or_init(Box::default)
    }

    /// Returns the hash of the tool's definition.
    pub(crate) fn definition_hash(&self) -> DefinitionHash {
        *self.derived().definition_hash.get_or_init(|| DefinitionHash::of(&canonical_definition(&self.tool)))
    }

    /// Checks structured content against the output schema. Slow: not for an async thread.
    ///
    /// # Errors
    /// [`CheckFailure`] if the content does not match, or if the check could not be made.
    pub(crate) fn check_output(&self, structured: &Value) -> Result<(), CheckFailure> {
        match &self.tool.output_schema {
            Some(schema) => check(&self.derived().output, schema, structured),
            None => Ok(()),
        }
    }

    /// Checks arguments against the input schema. Slow: not for an async thread.
    ///
    /// # Errors
    /// [`CheckFailure`] if the arguments do not match, or if the check could not be made.
    pub(crate) fn check_input(&self, arguments: &Value) -> Result<(), CheckFailure> {
        check(&self.derived().input, &self.tool.input_schema, arguments)
    }
}

/// Checks `value` against a schema, which `lazy_schema` caches after it was parsed.
fn check(lazy_schema: &LazySchema, schema: &RawValue, value: &Value) -> Result<(), CheckFailure> {
    let unchecked_error = |why: &String| CheckFailure::Unchecked(why.clone());
    let parse = || {
        let schema = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        Ok(Schema { schema, validator: OnceLock::new() })
    };
    let Schema { schema, validator } = lazy_schema.get_or_init(parse).as_ref().map_err(unchecked_error)?;
    // For most values, the quick check spares the compilation of the schema.
    if plainly_fits(schema, value) {
        return Ok(());
    }
    let compile = || Validator::compile(schema).map_err(|problem| problem.to_string());
    let validator = validator.get_or_init(compile).as_ref().map_err(unchecked_error)?;
    validator.validate(value).map_err(|unfit| match unfit {
        Unfit::Mismatch { mismatches } => CheckFailure::Mismatch(Mismatches(&mismatches).to_string()),
        Unfit::TooExpensive => unchecked_error(&unfit.to_string()),
    })
}

/// A listed tool that cannot be used, for example because its definition cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UnusableTool {
    /// The name of the tool, safe to print.
    pub name: String,
    /// The reason, safe to print.
    pub why: String,
}

impl UnusableTool {
    pub(crate) fn new(name: &str, why: &str) -> Self {
        Self { name: text::for_line(name).into_owned(), why: text::for_line(why).into_owned() }
    }
}

impl fmt::Display for UnusableTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tool {} cannot be used: {}", self.name, self.why)
    }
}

/// All tools of a server.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) tools: Vec<ListedTool>,
    /// Tools that cannot be used.
    pub(crate) unusable: Vec<UnusableTool>,
    /// How long the list is fresh, according to the server; zero if it does not say.
    pub(crate) fresh_for: Duration,
    /// The list in a form to store for the next run of the program, if that was requested; see
    /// [`Listed::from_stored`].
    pub(crate) bytes_to_store: Option<Bytes>,
}
