//! The client that the official conformance suite drives: every scenario through [`Host`], as any embedder would.
//!
//! Run by the suite as `conformance-client URL`, with the scenario in the environment. The era is not told: the host
//! finds it out.

use std::{env, process::ExitCode, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolrack_host::{
    Abilities, Asker, Call, CallError, Desired, Host, ServerName, ServerSpec, SharedAsker, ToolOutcome,
    ask::{Elicitation, Elicited},
};

const SERVER: &str = "conformance";

/// Says yes to every form and fills in nothing but what has no default.
struct Agreeable;

impl Asker for Agreeable {
    fn abilities(&self) -> Abilities {
        Abilities { forms: true, ..Abilities::NONE }
    }

    fn elicit(&self, _: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        let fields = match question {
            Elicitation::Form { schema, .. } => fill_in(&schema),
            Elicitation::Url { .. } => Map::new(),
        };
        Box::pin(async move { Elicited::Accept(fields) })
    }
}

fn fill_in(schema: &Value) -> Map<String, Value> {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .filter(|(name, property)| {
            property.get("default").is_none() && (required.contains(&name.as_str()) || property["type"] == "boolean")
        })
        .map(|(name, property)| {
            let value = match property["type"].as_str() {
                Some("boolean") => json!(true),
                Some("integer" | "number") => json!(1),
                _ => json!("text"),
            };
            (name.clone(), value)
        })
        .collect()
}

struct Scenario {
    host: Host,
    name: String,
    context: Value,
}

impl Scenario {
    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, CallError> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        self.host.call(Call::new(format!("{SERVER}/{tool}"), arguments)).await
    }

    async fn run(&self) -> Result<(), CallError> {
        match self.name.as_str() {
            "tools_call" => drop(self.call("add_numbers", json!({"a": 5, "b": 3})).await?),
            "elicitation-sep1034-client-defaults" => {
                self.call("test_client_elicitation_defaults", json!({})).await?;
            }
            "sse-retry" => drop(self.call("test_reconnection", json!({})).await?),
            "sep-2322-client-request-state" => {
                for tool in
                    ["test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"]
                {
                    self.call(tool, json!({})).await?;
                }
            }
            "http-standard-headers" => self.use_everything().await?,
            "http-custom-headers" => {
                for call in self.context["toolCalls"].as_array().into_iter().flatten() {
                    self.call(call["name"].as_str().unwrap_or_default(), call["arguments"].clone()).await?;
                }
            }
            "http-invalid-tool-headers" => {
                for tool in self.host.catalog().tools() {
                    self.call(&tool.tool().name, json!({"region": "us-west1"})).await?;
                }
            }
            "json-schema-2020-12-preservation" => {
                let catalog = self.host.catalog();
                let tool = catalog.select(&format!("{SERVER}/json_schema_2020_12_tool")).map_err(CallError::Unknown)?;
                let schema: Value = serde_json::from_str(tool.tool().input_schema.get()).unwrap_or_default();
                self.call("json_schema_echo", json!({ "schema": schema })).await?;
            }
            // Connecting and listing is all that the others ask for.
            _ => {}
        }
        Ok(())
    }

    async fn use_everything(&self) -> Result<(), CallError> {
        for tool in self.host.catalog().tools() {
            let _ = self.call(&tool.tool().name, json!({})).await;
        }
        for resource in self.host.resources(SERVER).await? {
            let _ = self.host.read_resource(SERVER, &resource.uri).await;
        }
        for prompt in self.host.prompts(SERVER).await? {
            let _ = self.host.get_prompt(SERVER, &prompt.name, &std::collections::BTreeMap::new()).await;
        }
        Ok(())
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = env::args().nth(1) else {
        return ExitCode::from(2);
    };
    let mut spec = ServerSpec::http(url);
    spec.timeouts.call = Duration::from_secs(20);
    let asker: SharedAsker = Arc::new(Agreeable);
    let host = Host::builder().asker(asker).client("toolrack-conformance", env!("CARGO_PKG_VERSION")).build();
    let Ok(name) = ServerName::new(SERVER) else {
        return ExitCode::FAILURE;
    };
    host.apply(Desired::from([(name, spec)])).await;
    host.settled().await;
    let scenario = Scenario {
        name: variable("MCP_CONFORMANCE_SCENARIO").unwrap_or_default(),
        context: variable("MCP_CONFORMANCE_CONTEXT")
            .and_then(|context| serde_json::from_str(&context).ok())
            .unwrap_or_default(),
        host,
    };
    let state = scenario.host.status().into_iter().map(|server| server.state).next();
    let connected = matches!(state, Some(toolrack_host::State::Connected { .. }));
    let result = scenario.run().await;
    scenario.host.shutdown().await;
    match (connected, result) {
        (true, Ok(())) => ExitCode::SUCCESS,
        (_, result) => {
            tell(&format!("{state:?} {result:?}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the suite shows stderr of a client that fails")]
fn tell(what: &str) {
    eprintln!("{what}");
}
