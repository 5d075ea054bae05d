//! The answers of the fake (a scripted MCP server for tests) to each method, in both eras of MCP: legacy (2025-11-25
//! and older) and modern (2026-07-28). A *fault* is a misbehaviour that the command line asks for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::faults::Fault;
use super::options::Transport;
use super::process::Death;
use super::server::{Era, Request, Server};
use super::wire::{
    self, Frame, LEGACY, META_CAPABILITIES, META_SERVER, META_SUBSCRIPTION, META_VERSION, MODERN, Refusal, code,
};
use super::{offers, tools};

/// The result of a request.
pub(crate) type Reply = Result<Value, Refusal>;

/// Answers a request of either era.
pub(crate) async fn dispatch(server: &Arc<Server>, request: &Request) -> Reply {
    if server.has(Fault::NeverStart) {
        return wait_forever().await;
    }
    if request.method == "server/discover" {
        apply_probe_faults(server, request).await?;
    }
    if request.faults.has(Fault::DiscoverEmpty) {
        return Ok(json!({}));
    }
    match request.era {
        Era::Legacy => answer_legacy(server, request).await,
        Era::Modern => answer_modern(server, request).await,
    }
}

/// Never answers; a cancellation still ends it.
pub(crate) async fn wait_forever<T>() -> T {
    std::future::pending().await
}

async fn apply_probe_faults(server: &Server, request: &Request) -> Result<(), Refusal> {
    let delay = |fault| Duration::from_millis(server.options.faults.number(fault).unwrap_or(0));
    if request.faults.has(Fault::ExitOnDiscover) {
        let code = server.options.faults.number(Fault::ExitOnDiscover).unwrap_or(1);
        request.out.send(Frame::Die(Death::Exit(i32::try_from(code).unwrap_or(1)))).await;
        return wait_forever().await;
    }
    if request.faults.has(Fault::IgnoreDiscover) {
        return wait_forever().await;
    }
    if request.faults.has(Fault::RefuseVersion) {
        return Err(unsupported_version(MODERN, &request.params["_meta"][META_VERSION]));
    }
    if request.faults.has(Fault::LateDiscover) {
        tokio::time::sleep(delay(Fault::LateDiscover)).await;
    }
    if request.faults.has(Fault::LateThenLegacy) {
        tokio::time::sleep(delay(Fault::LateThenLegacy)).await;
        return Err(method_not_found(&request.method));
    }
    Ok(())
}

fn method_not_found(method: &str) -> Refusal {
    Refusal::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
}

async fn answer_legacy(server: &Arc<Server>, request: &Request) -> Reply {
    match request.method.as_str() {
        "initialize" => return Ok(initialize(server, request)),
        "ping" => return Ok(json!({})),
        "server/discover" | "subscriptions/listen" => return Err(method_not_found(&request.method)),
        _ => {}
    }
    let is_uninitialized = match server.options.transport {
        Transport::Stdio => request.peer.capabilities.get().is_none(),
        // Like the servers of the Python SDK, this waits for `notifications/initialized`.
        Transport::Sse => !request.peer.is_initialized.load(Ordering::Relaxed),
        Transport::Http => false,
    };
    if is_uninitialized {
        return Err(Refusal::new(code::INVALID_REQUEST, "the first request must be `initialize`"));
    }
    match request.method.as_str() {
        "logging/setLevel" => Ok(json!({})),
        "resources/subscribe" | "resources/unsubscribe" => {
            let uri = request.params["uri"].as_str().unwrap_or_default();
            if !uri.starts_with("fake://") {
                return Err(Refusal::new(code::INVALID_PARAMS, "no such resource"));
            }
            server.subscribe(&request.peer, uri, request.method == "resources/subscribe");
            Ok(json!({}))
        }
        _ => answer_common(server, request).await,
    }
}

fn initialize(server: &Server, request: &Request) -> Value {
    let requested_version = request.params["protocolVersion"].as_str().unwrap_or_default();
    let supported = LEGACY.iter().copied().find(|supported| *supported == requested_version).unwrap_or(LEGACY[0]);
    let version = server.options.faults.text(Fault::Version).unwrap_or(supported);
    let mut capabilities = offers::capabilities();
    capabilities["logging"] = json!({});
    if server.has(Fault::NoCapabilities) {
        capabilities = Value::Null;
    }
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": offers::server_info(&server.options),
        "instructions": offers::instructions(server),
    })
}

async fn answer_modern(server: &Arc<Server>, request: &Request) -> Reply {
    let spoken = server.options.faults.text(Fault::Version).unwrap_or(MODERN);
    if request.method == "initialize" {
        // The specification asks for the versions in this error (versioning, "backward compatibility").
        let message = format!("Method not found: initialize. This server speaks only {spoken}");
        return Err(Refusal::new(code::METHOD_NOT_FOUND, message).with_data(json!({"supported": [spoken]})));
    }
    check_meta(request, spoken)?;
    let mut result = match request.method.as_str() {
        "server/discover" => json!({
            "supportedVersions": [spoken],
            "capabilities": if server.has(Fault::NoCapabilities) { Value::Null } else { offers::capabilities() },
            "instructions": offers::instructions(server),
        }),
        "subscriptions/listen" => listen(server, request).await?,
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            return Err(method_not_found(&request.method));
        }
        _ => answer_common(server, request).await?,
    };
    decorate(server, &request.method, &mut result);
    Ok(result)
}

/// Checks the fields of `_meta` that every modern request must have, and the version that they name.
fn check_meta(request: &Request, spoken: &str) -> Result<(), Refusal> {
    let meta = &request.params["_meta"];
    let Some(version) = meta[META_VERSION].as_str() else {
        return Err(Refusal::new(code::INVALID_PARAMS, format!("_meta lacks {META_VERSION}")));
    };
    if !meta[META_CAPABILITIES].is_object() {
        return Err(Refusal::new(code::INVALID_PARAMS, format!("_meta lacks {META_CAPABILITIES}")));
    }
    if version == spoken {
        return Ok(());
    }
    Err(unsupported_version(spoken, &json!(version)))
}

fn unsupported_version(spoken: &str, requested: &Value) -> Refusal {
    let data = json!({"supported": [spoken], "requested": requested});
    Refusal::new(code::UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data)
}

/// Adds the fields of every modern result, and caching hints to the results that a client may cache.
fn decorate(server: &Server, method: &str, result: &mut Value) {
    if result.get("resultType").is_none() {
        result["resultType"] = json!("complete");
    }
    result["_meta"][META_SERVER] = offers::server_info(&server.options);
    let cacheable = method.ends_with("/list")
        || matches!(method, "server/discover" | "resources/templates/list" | "resources/read");
    if cacheable && result["resultType"] == "complete" {
        result["ttlMs"] = json!(if server.has(Fault::NegativeTtl) { -5 } else { server.options.ttl_ms });
        result["cacheScope"] = json!("private");
    }
}

/// Holds a subscription open until it is cancelled, or until a fault ends it.
async fn listen(server: &Server, request: &Request) -> Reply {
    let filter = &request.params["notifications"];
    let acknowledged = json!({"_meta": {META_SUBSCRIPTION: request.id}, "notifications": filter});
    let acknowledgement = wire::notification("notifications/subscriptions/acknowledged", &acknowledged);
    // Register first: once the client has read the acknowledgement, it relies on getting every change.
    server.listen(&request.peer, request.out.clone(), Some((request.id.clone(), filter.clone())));
    request.out.send(Frame::message(&acknowledgement)).await;
    if let Some(ms) = server.options.faults.number(Fault::ListenDrops) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        request.out.send(Frame::End).await;
        return wait_forever().await;
    }
    if let Some(ms) = server.options.faults.number(Fault::ListenCancelled) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        server.unlisten(&request.peer, &request.id);
        let cancelled = wire::notification("notifications/cancelled", &json!({"requestId": request.id}));
        request.out.send(Frame::message(&cancelled)).await;
        return wait_forever().await;
    }
    if let Some(ms) = server.options.faults.number(Fault::ListenEnds) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        server.unlisten(&request.peer, &request.id);
        return Ok(json!({"_meta": {META_SUBSCRIPTION: request.id}}));
    }
    wait_forever().await
}

/// The methods that both eras have.
async fn answer_common(server: &Arc<Server>, request: &Request) -> Reply {
    if request.faults.has(Fault::ListFails) {
        return Err(Refusal::new(code::INTERNAL, "told to fail"));
    }
    match request.method.as_str() {
        "tools/list" => offers::list_tools(server, &request.params),
        "tools/call" => tools::call(server, request).await,
        "resources/list" => Ok(json!({"resources": offers::resources()})),
        "resources/templates/list" => Ok(json!({"resourceTemplates": offers::resource_templates()})),
        "resources/read" => offers::read_resource(server, request).await,
        "prompts/list" => Ok(json!({"prompts": offers::prompts()})),
        "prompts/get" => offers::get_prompt(server, request).await,
        "completion/complete" => Ok(offers::complete(&request.params)),
        other => Err(method_not_found(other)),
    }
}
