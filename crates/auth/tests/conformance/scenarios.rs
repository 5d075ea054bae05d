//! The scenarios, and what each has the client do once it is connected.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolrack_host::{
    Abilities, Asker, Call, CallError, Host, ServerName, SharedAsker, ToolOutcome,
    ask::{Elicitation, Elicited},
};

use crate::client::SERVER;

/// The scenarios of both revisions.
pub(crate) const BOTH: &[&str] = &[
    "tools_call",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    // Not scored.
    "json-schema-2020-12-preservation",
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
    "auth/dpop",
    "auth/dpop-nonce",
];

/// The scenarios of 2025-11-25 alone.
pub(crate) const LEGACY: &[&str] = &["initialize", "elicitation-sep1034-client-defaults", "sse-retry"];

/// The scenarios of 2026-07-28 alone.
pub(crate) const MODERN: &[&str] = &[
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
];

/// Accepts every form, and fills in only required fields and yes-or-no fields, if they have no default.
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

/// Returns the asker, which answers the questions of servers.
pub(crate) fn asker() -> SharedAsker {
    Arc::new(Agreeable)
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

/// One scenario, once its server is connected.
pub(crate) struct Scenario<'a> {
    pub(crate) host: &'a Host,
    pub(crate) name: &'a str,
    pub(crate) context: &'a Value,
}

impl Scenario<'_> {
    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, CallError> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        self.host.call(Call::from_map(format!("{SERVER}/{tool}"), arguments)).await
    }

    pub(crate) async fn play(&self) -> Result<(), CallError> {
        match self.name {
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
            "http-invalid-tool-headers" => self.call_all(json!({"region": "us-west1"})).await?,
            "json-schema-2020-12-preservation" => {
                let catalog = self.host.catalog();
                let tool = catalog.select(&format!("{SERVER}/json_schema_2020_12_tool")).map_err(CallError::Unknown)?;
                let schema: Value = serde_json::from_str(tool.tool().input_schema.get()).unwrap_or_default();
                self.call("json_schema_echo", json!({ "schema": schema })).await?;
            }
            name if name.starts_with("auth/") => self.call_all(json!({})).await?,
            // The other scenarios only need a client that connects and lists.
            _ => {}
        }
        Ok(())
    }

    /// Calls every tool, even after a failure. Returns the first error.
    async fn call_all(&self, arguments: Value) -> Result<(), CallError> {
        let mut done = Ok(());
        for tool in self.host.catalog().tools() {
            done = done.and(self.call(&tool.tool().name, arguments.clone()).await.map(drop));
        }
        done
    }

    async fn use_everything(&self) -> Result<(), CallError> {
        // Only the headers of the requests matter here, not the results.
        let _ = self.call_all(json!({})).await;
        for resource in self.host.resources(SERVER).await? {
            let _ = self.host.read_resource(SERVER, &resource.uri).await;
        }
        for prompt in self.host.prompts(SERVER).await? {
            let _ = self.host.get_prompt(SERVER, &prompt.name, &BTreeMap::new()).await;
        }
        Ok(())
    }
}
