//! The header fields that mirror a request of 2026-07-28: `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name`,
//! `Mcp-Param-*`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::offers;
use super::super::server::{Request, Server};
use super::super::wire::{META_VERSION, Refusal, code};
use super::connection::header;

/// Checks these header fields against the body, as "server validation" in that revision demands.
pub(super) fn check(server: &Server, request: &Request) -> Result<(), Refusal> {
    let params = &request.params;
    if let Some(version) = params["_meta"][META_VERSION].as_str() {
        check_field(request, "mcp-protocol-version", version)?;
    }
    check_field(request, "mcp-method", &request.method)?;
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => &params["name"],
        "resources/read" => &params["uri"],
        _ => return Ok(()),
    };
    check_field(request, "mcp-name", name.as_str().unwrap_or_default())?;
    if request.method != "tools/call" {
        return Ok(());
    }
    let tools = offers::tools(server);
    let tool = tools.iter().find(|tool| tool["name"] == *name);
    tool.map_or(Ok(()), |tool| check_arguments(request, tool))
}

fn check_arguments(request: &Request, tool: &Value) -> Result<(), Refusal> {
    let Some(properties) = tool["inputSchema"]["properties"].as_object() else { return Ok(()) };
    for (property, schema) in properties {
        let Some(header_name) = schema["x-mcp-header"].as_str() else { continue };
        let field = format!("mcp-param-{}", header_name.to_ascii_lowercase());
        match &request.params["arguments"][property] {
            Value::Null if header(&request.headers, &field).is_none() => {}
            Value::Null => return Err(mismatch(format!("{field} is present, but its argument is not"))),
            Value::String(text) => check_field(request, &field, text)?,
            other => check_field(request, &field, &other.to_string())?,
        }
    }
    Ok(())
}

fn check_field(request: &Request, field: &str, expected: &str) -> Result<(), Refusal> {
    let Some(received) = header(&request.headers, field) else {
        return Err(mismatch(format!("{field} is missing")));
    };
    if decode_value(received).as_deref() == Some(expected) {
        return Ok(());
    }
    Err(mismatch(format!("{field} is {received:?}, the body says {expected:?}")))
}

/// Decodes a value that may be in Base64 (`=?base64?…?=`); `None` if that is not valid Base64 of a text.
fn decode_value(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

fn mismatch(reason: String) -> Refusal {
    Refusal::new(code::HEADER_MISMATCH, format!("Header mismatch: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentinel_of_the_specification_is_decoded() {
        assert_eq!(decode_value("us-west1").as_deref(), Some("us-west1"));
        assert_eq!(decode_value("=?base64?SGVsbG8sIOS4lueVjA==?=").as_deref(), Some("Hello, 世界"));
        assert_eq!(decode_value("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=").as_deref(), Some("=?base64?literal?="));
        assert_eq!(decode_value("=?base64?***?="), None);
    }
}
