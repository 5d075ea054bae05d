//! A program that embeds `toolrack-host` and uses another `rmcp` 3.x than Toolrack's own programs do.

use std::error::Error;

use rmcp::{
    ServerHandler, handler::server::wrapper::Parameters, service::serve_server_with_ct, tool, tool_handler, tool_router,
};
use serde_json::json;
use tokio::io::split;
use toolrack_host::{Call, Host, Native, ServerSpec};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: f64,
    b: f64,
}

#[derive(Clone)]
struct Calculator;

#[tool_router]
impl Calculator {
    #[tool(description = "Adds two numbers")]
    fn add(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Calculator {}

fn calculator() -> ServerSpec {
    ServerSpec::native(Native::new("calculator", |io, stop| async move {
        if let Ok(service) = serve_server_with_ct(Calculator, split(io), stop).await {
            let _ = service.waiting().await;
        }
    }))
}

/// Adds two numbers through a server that this program's own `rmcp` serves.
async fn sum(a: f64, b: f64) -> Result<String, Box<dyn Error>> {
    let host = Host::builder().build();
    host.add("calculator", calculator()).await?;
    host.settled().await;
    let sum = host.call(Call::new("calculator/add", json!({"a": a, "b": b}))?).await?.text;
    host.shutdown().await;
    Ok(sum)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", sum(17.0, 25.0).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn a_tool_that_is_written_with_another_rmcp_is_called() {
        assert_eq!(super::sum(17.0, 25.0).await.unwrap(), "42");
    }
    #[tokio::test]
    async fn without_the_feature_schema_validation_an_entry_with_strict_checks_fails_and_the_error_names_the_feature() {
        use toolrack_host::spec::{OutputSchema, ValidateArgs};

        let strict = |spec: super::ServerSpec| super::ServerSpec { validate_args: Some(ValidateArgs::Strict), ..spec };
        let rejecting = |spec: super::ServerSpec| super::ServerSpec { output_schema: OutputSchema::Reject, ..spec };
        let entries = [
            ("strict", strict(super::calculator()), "validate_args"),
            ("rejecting", rejecting(super::calculator()), "output_schema"),
        ];
        let host = super::Host::builder().build();
        for (name, spec, setting) in entries {
            host.add(name, spec).await.unwrap();
            host.settled().await;
            let status = host.status().into_iter().find(|status| status.name.as_str() == name).unwrap();
            let why = host.not_ready(&status.name).unwrap().to_string();
            assert!(why.contains("`schema-validation` of toolrack-host") && why.contains(setting), "{why}");
        }
        host.shutdown().await;
    }

    #[tokio::test]
    async fn without_the_feature_http_an_entry_with_a_url_fails_and_the_error_names_the_feature() {
        let host = super::Host::builder().build();
        host.add("far", super::ServerSpec::http("http://127.0.0.1:9/mcp")).await.unwrap();
        host.settled().await;
        let why = host.not_ready(&host.status()[0].name).unwrap().to_string();
        assert!(why.contains("the feature `http` of toolrack-host"), "{why}");
        host.shutdown().await;
    }
}
