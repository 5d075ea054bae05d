//! Types for a call that runs a script instead of sending a request. The gate decides about each call in the script,
//! and events report it, like any other call.

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::text::Conceal;
use crate::{
    ask::SharedAsker,
    link::{OnProgress, decode::CallResult},
    witness::Caller,
};

/// Runs the script of a call, with the arguments that the gate has approved. Returns the result, and the calls that the
/// script made.
pub(crate) type Script =
    Box<dyn FnOnce(Map<String, Value>, ScriptContext) -> BoxFuture<'static, (CallResult, Vec<ScriptCall>)> + Send>;

/// Settings that the calls of a script share with the call that runs the script.
pub(crate) struct ScriptContext {
    pub(crate) asker: SharedAsker,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) conceal: Option<Conceal>,
    pub(crate) caller: Caller,
}

/// A call that a script made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScriptCall {
    /// The tool as `server/tool`; for an unknown tool, the script's name for it, safe to print.
    pub tool: String,
    /// The reason why the call has no result: a code of [`CallError::code`](crate::CallError::code), `TOOL_ERROR`, or
    /// `CANCELLED` if the script ended before the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
}
