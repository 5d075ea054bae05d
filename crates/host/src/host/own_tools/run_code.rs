//! Provides the server with the tool `run_code`, whose description lists the tools that scripts can call.
//!
//! A call of `run_code` never reaches this server. [`Host::call`](crate::Host::call) runs the script itself, after the
//! gate (which decides whether a call may run) has allowed the call. The calls in the script need what the call of
//! `run_code` has: its asker, who answers questions, and its catalog, in which names of tools are looked up.

use std::{
    fmt::Write as _,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{BoxStream, unfold},
};
use serde_json::{Value, json};
use tokio::{
    sync::broadcast::{Receiver, WeakSender, error::RecvError},
    time::sleep,
};

use super::{
    JsonObject, OwnTools,
    script::{Interpreter, ScriptOutput, ScriptTools},
};
use crate::{
    call::{ScriptCall, ScriptContext},
    catalog::{Catalog, CatalogTool, Selection, signature},
    event::Event,
    host::Host,
    link::decode::CallResult,
    mcp::Content,
    native::Native,
    text,
};

const RUN: &str = "run_code";
/// The most bytes that signatures may take in the description; a search finds the other tools.
const MAX_SIGNATURE_BYTES: usize = 12_000;
/// The most bytes of a tool's description in the comment after its signature.
const MAX_DESCRIPTION_BYTES: usize = 120;
/// The delay between a change of tools and the new description. Servers that start together finish one after another,
/// and the description is rewritten once for all that have finished in this time.
const UPDATE_DELAY: Duration = Duration::from_millis(100);

/// The tools that scripts can call, and the interpreter.
pub(crate) struct Scripts {
    interpreter: Arc<dyn Interpreter>,
    /// Weak, as `events` is, because the host owns this server.
    catalog: Weak<ArcSwap<Catalog>>,
    events: WeakSender<Event>,
    selection: Arc<Selection>,
}

impl Scripts {
    /// Creates the server that lists `run_code`. Scripts can call the tools of `selection`, but not `run_code`.
    pub(crate) fn server(
        interpreter: Arc<dyn Interpreter>,
        catalog: &Arc<ArcSwap<Catalog>>,
        events: WeakSender<Event>,
        selection: Selection,
    ) -> Native {
        let catalog = Arc::downgrade(catalog);
        let scripts = Arc::new(Self { interpreter, catalog, events, selection: Arc::new(selection) });
        // As the extension of the server, `scripts` is what `Host::call` finds to run a script.
        super::serve(Arc::clone(&scripts)).extended(scripts)
    }

    /// Returns whether `tool` is the one that runs scripts.
    pub(crate) fn is_script_tool(tool: &str) -> bool {
        tool == RUN
    }

    /// Runs the script in `arguments`. Its calls look up their tools in `catalog`. Returns the result, and the calls
    /// that the script made.
    pub(crate) async fn run(
        &self,
        arguments: &JsonObject,
        host: Host,
        catalog: Arc<Catalog>,
        context: ScriptContext,
    ) -> (CallResult, Vec<ScriptCall>) {
        let Some(code) = arguments.get("code").and_then(Value::as_str) else {
            let error = Some(format!("{RUN} needs `code`, a script"));
            return (to_call_result(ScriptOutput { text: String::new(), error }), Vec::new());
        };
        let tools = ScriptTools::new(host, catalog, context, Arc::clone(&self.selection));
        let output = self.interpreter.run(code.to_owned(), tools.clone()).await;
        (to_call_result(output), tools.calls())
    }

    /// Waits until the description differs from `last_description`, and stores the new description there. Waits forever
    /// if the host is gone.
    async fn description_changed(&self, events: &mut Receiver<Event>, last_description: &mut String) {
        loop {
            match events.recv().await {
                Ok(Event::McpToolsUpdated { .. }) | Err(RecvError::Lagged(_)) => {}
                Ok(_) => continue,
                Err(RecvError::Closed) => std::future::pending().await,
            }
            sleep(UPDATE_DELAY).await;
            let current = self.description();
            if current != *last_description {
                *last_description = current;
                return;
            }
        }
    }

    /// Returns the manual of the language, and as many signatures as fit.
    fn description(&self) -> String {
        let mut description = self.interpreter.manual().to_owned();
        let Some(catalog) = self.catalog.upgrade() else {
            return description;
        };
        let catalog = catalog.load_full();
        let (mut bytes_left, mut omitted_count) = (MAX_SIGNATURE_BYTES, 0_usize);
        for tool in catalog.tools().filter(|tool| self.selection.has(tool)) {
            let line = if bytes_left == 0 {
                None
            } else {
                Some(self.signature_line(tool)).filter(|line| line.len() <= bytes_left)
            };
            match line {
                Some(line) => {
                    bytes_left -= line.len();
                    description += &line;
                }
                // Leave out the last signatures, instead of some long ones in between.
                None => (bytes_left, omitted_count) = (0, omitted_count + 1),
            }
        }
        if omitted_count > 0 {
            // Writing to a string cannot fail.
            let _ = write!(description, "\nand {omitted_count} more, which `search_tools` finds");
        }
        description
    }

    fn signature_line(&self, tool: &CatalogTool) -> String {
        let definition = tool.tool();
        // A schema that cannot be parsed counts as one that says nothing.
        let schema = |raw: &str| serde_json::from_str::<Value>(raw).unwrap_or_default();
        let parameters = signature::parameters(&schema(definition.input_schema.get()));
        let result_type = match &definition.output_schema {
            Some(raw) => match schema(raw.get()) {
                object if object.get("properties").is_some() => {
                    format!("{{ {} }}", signature::parameters(&object).join(", "))
                }
                other => signature::type_name(&other),
            },
            None => "string".to_owned(),
        };
        let call = self.interpreter.signature(tool.server.as_str(), &definition.name, &parameters, &result_type);
        let summary = definition.description.as_deref().unwrap_or_default().trim();
        let summary = text::clip(summary.lines().next().unwrap_or_default(), MAX_DESCRIPTION_BYTES);
        let comment_mark = if summary.is_empty() { "" } else { " // " };
        format!("\n{call}{comment_mark}{}", text::for_line(&summary))
    }

    fn tool(&self) -> Value {
        // `openWorldHint` is false because a script itself reaches nothing outside. The gate judges each call in the
        // script by the hints of the called tool.
        json!({
            "name": RUN,
            "description": self.description(),
            "inputSchema": {
                "type": "object",
                "properties": { "code": { "type": "string", "description": "The script" } },
                "required": ["code"],
            },
            "annotations": { "title": "Run code", "openWorldHint": false },
        })
    }
}

/// Returns the result for the model: the output, followed by the error.
fn to_call_result(output: ScriptOutput) -> CallResult {
    let ScriptOutput { mut text, error } = output;
    let is_error = error.is_some();
    match error {
        Some(error) if text.is_empty() => text = error,
        Some(error) => text = format!("{}\n{error}", text.trim_end()),
        None if text.is_empty() => "the script printed nothing".clone_into(&mut text),
        None => {}
    }
    CallResult { content: vec![Content::Text { text }], is_error, ..CallResult::default() }
}

impl OwnTools for Scripts {
    fn name(&self) -> &'static str {
        "toolrack-scripts"
    }

    fn tools(&self) -> Vec<Value> {
        vec![self.tool()]
    }

    fn call<'a>(&'a self, tool: &'a str, _: &'a JsonObject) -> BoxFuture<'a, Result<String, String>> {
        async move { Err(format!("there is no tool {}", text::Safe(tool))) }.boxed()
    }

    fn changes(&self) -> Option<BoxStream<'_, ()>> {
        let events = self.events.upgrade()?.subscribe();
        // The listed description may be older than the subscription, so the first change counts in any case.
        let no_description = String::new();
        let changes = unfold((events, no_description), async |(mut events, mut last_description)| {
            self.description_changed(&mut events, &mut last_description).await;
            Some(((), (events, last_description)))
        });
        Some(changes.boxed())
    }
}
