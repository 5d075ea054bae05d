//! Lets a script call tools. A model writes the script, and gets only its output.
//!
//! [`Host::scripts`](crate::Host::scripts) makes a server with one tool, `run_code`. An [`Interpreter`] runs the
//! model's script. The script has access only to a [`ScriptTools`]. The host treats a script's calls like any other
//! call. The gate decides whether each may run, the asker of the `run_code` call answers its questions, and events
//! report it.

use std::{borrow::Cow, fmt, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{
    call::{Call, CallError, ScriptCall, ScriptContext, ToolOutcome},
    catalog::{Catalog, CatalogTool, Selection},
    host::Host,
    mcp::Progress,
    text,
};

/// Runs scripts that call tools.
///
/// A script is untrusted, because its input may have misled the model. The interpreter must give it no access to files,
/// the network or this process, except through its [`ScriptTools`], and must end it within bounds of time, memory and
/// output.
pub trait Interpreter: Send + Sync {
    /// Returns the manual for the model: the language and its limits, how to print, the bounds, and how to find tools
    /// whose signatures are left out. The host appends the signatures to the manual.
    fn manual(&self) -> &str;

    /// Returns how a script writes a call of the tool `tool` of `server`. `parameters` and `result_type` are written as
    /// in a [`signature`](crate::signature()).
    fn signature(&self, server: &str, tool: &str, parameters: &[String], result_type: &str) -> String;

    /// Runs a script. Dropping the future ends it.
    fn run(&self, code: String, tools: ScriptTools) -> BoxFuture<'_, ScriptOutput>;
}

/// The output of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptOutput {
    /// The printed text, within the bounds of the [`Interpreter`].
    pub text: String,
    /// The reason why the script did not finish, for the model that wrote the script.
    pub error: Option<String>,
}

/// The error of a call that a script makes. The script can catch it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ScriptCallError {
    /// The code, as in [`ScriptCall::error`].
    pub code: &'static str,
    /// The error message.
    pub message: String,
}

/// The tools of one run of a script.
///
/// Clones belong to the same run, so an interpreter can make several calls at once. The interpreter must limit how
/// many.
#[derive(Clone)]
pub struct ScriptTools(Arc<ScriptRun>);

struct ScriptRun {
    host: Host,
    /// The catalog of the `run_code` call, in which the script's calls look up their tools.
    catalog: Arc<Catalog>,
    context: ScriptContext,
    /// The tools that the script can find and call.
    selection: Arc<Selection>,
    /// The calls so far, in the order in which they began.
    calls: Mutex<Vec<ScriptCall>>,
}

impl fmt::Debug for ScriptTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptTools").field("made", &self.calls()).finish_non_exhaustive()
    }
}

impl ScriptTools {
    pub(crate) fn new(host: Host, catalog: Arc<Catalog>, context: ScriptContext, selection: Arc<Selection>) -> Self {
        Self(Arc::new(ScriptRun { host, catalog, context, selection, calls: Mutex::default() }))
    }

    /// Calls the tool `selector` (in any form that [`Call::new`] accepts) and returns its result as JSON: structured
    /// content if there is any, else the text. Pictures and sound are left out.
    ///
    /// # Errors
    /// [`ScriptCallError`], for a tool's own error as well.
    pub async fn call(&self, selector: &str, arguments: Map<String, Value>) -> Result<String, ScriptCallError> {
        let ScriptRun { catalog, context: ScriptContext { conceal, .. }, .. } = &*self.0;
        let selected = catalog.select_within(selector, &self.0.selection);
        let index = match &selected {
            Ok(tool) => self.record_begin(&text::for_line(&tool.selector())),
            Err(unknown) => self.record_begin(&unknown.selector),
        };
        let outcome = match selected {
            Ok(tool) => self.call_tool(tool, arguments).await,
            Err(unknown) => Err(CallError::Unknown(unknown)),
        };
        let conceal_text = |text: &str| match conceal {
            Some(conceal) => conceal(text),
            None => text.to_owned(),
        };
        let result = match outcome {
            Ok(outcome) if outcome.is_error => Err(("TOOL_ERROR", outcome.text)),
            Ok(outcome) => Ok(outcome.structured.unwrap_or(Value::String(outcome.text))),
            Err(error) => Err((error.code(), error.to_string())),
        };
        self.record_end(index, result.as_ref().err().map(|(code, _)| *code));
        match result {
            Ok(mut value) => {
                text::map_texts(&mut value, &|text| Cow::Owned(conceal_text(text)));
                Ok(value.to_string())
            }
            Err((code, message)) => Err(ScriptCallError { code, message: conceal_text(&message) }),
        }
    }

    async fn call_tool(&self, tool: &CatalogTool, arguments: Map<String, Value>) -> Result<ToolOutcome, CallError> {
        let ScriptRun { catalog, context: ScriptContext { asker, caller, .. }, .. } = &*self.0;
        let call = Call::of(tool.server.clone(), tool.tool().name.clone(), arguments)
            .asker(Arc::clone(asker))
            .in_catalog(Arc::clone(catalog))
            .caller(caller.clone());
        Box::pin(self.0.host.call_from_script(call)).await
    }

    /// Returns the tools that match `query` best, as JSON: an array of name, server, description and arguments. The
    /// array has at most `limit` tools; a `limit` above 20 counts as 20. A search only reads the catalog, and makes no
    /// call.
    pub async fn search(&self, query: &str, limit: usize) -> String {
        let ScriptRun { host, catalog, selection, .. } = &*self.0;
        host.search_for_script(Arc::clone(catalog), Arc::clone(selection), query, limit).await
    }

    /// Returns all details of a tool, as JSON: its description and the schemas of its arguments and its result.
    ///
    /// # Errors
    /// If there is no such tool.
    pub fn details(&self, selector: &str) -> Result<String, ScriptCallError> {
        let ScriptRun { catalog, selection, .. } = &*self.0;
        let selected = catalog.select_within(selector, selection);
        selected.map(super::discovery::details).map_err(|unknown| {
            let error = CallError::Unknown(unknown);
            ScriptCallError { code: error.code(), message: error.to_string() }
        })
    }

    /// Returns the calls so far, in the order in which they began. A call that is still running has the error
    /// `CANCELLED`.
    #[must_use]
    pub fn calls(&self) -> Vec<ScriptCall> {
        self.0.calls.lock().clone()
    }

    /// Records that a call begins. Returns its index among the calls so far.
    fn record_begin(&self, tool: &str) -> usize {
        let number = {
            let mut calls = self.0.calls.lock();
            // `record_end` replaces this error. A call that never ends counts as cancelled.
            calls.push(ScriptCall { tool: tool.to_owned(), error: Some("CANCELLED") });
            calls.len()
        };
        if let Some(on_progress) = &self.0.context.on_progress {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            on_progress(Progress { progress: number.into(), total: None, message: Some(tool.to_owned()) });
        }
        number - 1
    }

    fn record_end(&self, index: usize, error: Option<&'static str>) {
        let mut calls = self.0.calls.lock();
        if let Some(call) = calls.get_mut(index) {
            call.error = error;
        }
    }
}
