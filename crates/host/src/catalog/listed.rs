//! The tools of one server as it listed them.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use super::{cleaned::CleanedSchemas, param_headers::ParamHeaders, tokens};
use crate::{
    definition::{DefinitionHash, canonical},
    mcp::Tool,
    spec::Invisible,
    unseen,
    validate::{Misfits, Unfit, Validator, plainly_fits},
};

/// A tool as listed on this connection.
#[derive(Debug)]
pub(crate) struct ListedTool {
    /// As it came: pins, calls and checks of arguments go by this.
    pub(crate) tool: Tool,
    /// As models, clients and users see it, if that differs. Boxed: it seldom does.
    told: Option<Box<Tool>>,
    /// How its arguments go into headers (2026-07-28, Streamable HTTP).
    pub(crate) headers: ParamHeaders,
    /// Its input schema as model providers take it.
    pub(crate) cleaned: CleanedSchemas,
    /// What it costs a model, in tokens. Counted on demand: a call does not need it.
    tokens: OnceLock<u32>,
    /// What only tools need that are called or inspected. Boxed: most of them never are.
    learned: OnceLock<Box<Learned>>,
}

/// What is made of a listed tool when it is first needed.
#[derive(Debug, Default)]
struct Learned {
    input: Learnable,
    output: Learnable,
    definition: OnceLock<DefinitionHash>,
}

/// Why a value was not found to match a schema of its tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// The value does not match the schema: where and why.
    Broken(String),
    /// The check could not be made: why.
    Unchecked(String),
}

/// A schema of a tool.
#[derive(Debug)]
struct Schema {
    schema: Value,
    /// Compiled for the first value that does not plainly fit.
    validator: OnceLock<Result<Validator, String>>,
}

/// A schema that is read when it is first needed.
type Learnable = OnceLock<Result<Schema, String>>;

/// Compares what the server sent, how that is shown, and how it is called, not what was derived from it.
impl PartialEq for ListedTool {
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool && self.told == other.told && self.headers == other.headers
    }
}

impl ListedTool {
    pub(crate) fn new(tool: Tool, headers: ParamHeaders) -> Self {
        let (tokens, learned) = (OnceLock::new(), OnceLock::new());
        Self { tool, told: None, headers, cleaned: CleanedSchemas::default(), tokens, learned }
    }

    /// The same tool, shown as the entry of its server wants it.
    pub(crate) fn told(mut self, invisible: Invisible) -> Self {
        self.told = match invisible {
            Invisible::Remove => unseen::without(&self.tool).map(Box::new),
            Invisible::Keep => None,
        };
        self
    }

    /// The tool as models, clients and users see it.
    pub(crate) fn shown(&self) -> &Tool {
        self.told.as_deref().unwrap_or(&self.tool)
    }

    /// What its definition costs a model, in tokens; an estimate.
    pub(crate) fn tokens(&self) -> usize {
        let count = || u32::try_from(tokens::of_tool(self.shown())).unwrap_or(u32::MAX);
        *self.tokens.get_or_init(count) as usize
    }

    fn learned(&self) -> &Learned {
        self.learned.get_or_init(Box::default)
    }

    /// The hash of the tool's definition.
    pub(crate) fn definition(&self) -> DefinitionHash {
        *self.learned().definition.get_or_init(|| DefinitionHash::of(&canonical(&self.tool)))
    }

    /// Checks structured content against the output schema. Slow: not for an async thread.
    ///
    /// # Errors
    /// Why the content does not fit, or why that could not be checked.
    pub(crate) fn check_output(&self, structured: &Value) -> Result<(), Unmet> {
        match &self.tool.output_schema {
            Some(schema) => check(&self.learned().output, schema, structured),
            None => Ok(()),
        }
    }

    /// Checks arguments against the input schema. Slow: not for an async thread.
    ///
    /// # Errors
    /// Why they do not fit, or why that could not be checked.
    pub(crate) fn check_input(&self, arguments: &Value) -> Result<(), Unmet> {
        check(&self.learned().input, &self.tool.input_schema, arguments)
    }
}

fn check(learnable: &Learnable, schema: &RawValue, value: &Value) -> Result<(), Unmet> {
    let unchecked = |why: &String| Unmet::Unchecked(why.clone());
    let read = || {
        let schema = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        Ok(Schema { schema, validator: OnceLock::new() })
    };
    let Schema { schema, validator } = learnable.get_or_init(read).as_ref().map_err(unchecked)?;
    if plainly_fits(schema, value) {
        return Ok(());
    }
    let compile = || Validator::compile(schema).map_err(|problem| problem.to_string());
    let validator = validator.get_or_init(compile).as_ref().map_err(unchecked)?;
    validator.validate(value).map_err(|unfit| match unfit {
        Unfit::Mismatch { misfits } => Unmet::Broken(Misfits(&misfits).to_string()),
        Unfit::TooExpensive => unchecked(&unfit.to_string()),
    })
}

/// All tools of a server.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) tools: Vec<ListedTool>,
    /// Tools that cannot be used, and why.
    pub(crate) quarantined: Vec<(String, String)>,
    /// How long the server calls this list fresh; zero if it does not say.
    pub(crate) fresh_for: Duration,
    /// The list as it can be kept, if that was asked for; see [`Listed::of_kept`].
    pub(crate) kept: Option<Bytes>,
}
