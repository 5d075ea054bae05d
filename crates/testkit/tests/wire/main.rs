//! The fake server, driven over its raw wire: each era and each fault does what its name says.
//!
//! The clients here are as simple as possible, so that nothing between a test and the bytes can hide a mistake.

// `cfg(test)` is always set here. It is written for clippy, which allows `unwrap` in test modules only.
#[cfg(test)]
mod authorization;
#[cfg(test)]
mod http;
#[cfg(test)]
mod http_faults;
#[cfg(test)]
mod http_streams;
#[cfg(test)]
mod legacy_sse;
#[cfg(test)]
mod offers;
#[cfg(test)]
mod plain_http;
#[cfg(test)]
mod plain_stdio;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod stdio_deaths;
#[cfg(test)]
mod stdio_lies;

use serde_json::{Value, json};
use toolrack_testkit::fake::faults::FAULTS;

/// A request with an id.
fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A legacy `initialize` request that declares everything.
fn initialize(id: u64) -> Value {
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    let client = json!({"name": "test", "version": "0"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    request(id, "initialize", params)
}

/// `tools/call` of the legacy era.
fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// A request of the modern era, with the `_meta` that it needs and all capabilities.
fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    request(id, method, params)
}

/// `tools/call` of the modern era.
fn modern_call(id: u64, tool: &str, arguments: Value) -> Value {
    modern(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// The text of the first content block of an answer.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

#[test]
fn every_fault_of_the_table_is_driven_by_a_test_here() {
    let tests = [
        include_str!("http.rs"),
        include_str!("http_faults.rs"),
        include_str!("http_streams.rs"),
        include_str!("legacy_sse.rs"),
        include_str!("offers.rs"),
        include_str!("stdio.rs"),
        include_str!("stdio_deaths.rs"),
        include_str!("stdio_lies.rs"),
    ]
    .concat();
    let named = |name: &str| tests.contains(&format!("\"{name}\"")) || tests.contains(&format!("\"{name}="));
    let missing: Vec<&str> = FAULTS.iter().map(|row| row.name).filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
