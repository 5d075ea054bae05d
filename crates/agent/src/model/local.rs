//! Finds local model servers, for an error message that says how to use one.
//!
//! Toolrack sends no prompt to a server that it has found: the user has to choose the server first. Any program of this
//! machine can listen on one of these ports, and would get every prompt and every tool result.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use reqwest::{Client, redirect};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use toolrack_host::text;

use super::provider::PROVIDERS;

/// The time limit for all requests to all servers together.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);
/// The timeout of a connection: local connections succeed or fail quickly.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// The size of the largest answer to read, in bytes.
const MAX_BYTES: usize = 512 * 1024;
/// The maximum number of models of one server to report.
const MAX_MODELS: usize = 20;
/// The maximum number of models of one server that the server is asked about one by one.
const MAX_MODELS_WITH_DETAILS: usize = 5;
/// The maximum number of bytes in the name of a model.
const MAX_NAME_BYTES: usize = 200;

/// A model server that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LocalServer {
    /// The provider: `ollama`, `llamacpp` or `lmstudio`.
    pub provider: &'static str,
    /// The base URL.
    pub base_url: String,
    /// The models of the server, at most 20.
    pub models: Vec<LocalModel>,
}

/// A model of a local server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LocalModel {
    /// The name, safe to print. Models whose names are not safe to print are left out.
    pub name: String,
    /// Whether the model calls tools; `None` if the server does not say.
    pub tools: Option<bool>,
}

/// Returns the servers that answer on their usual ports on 127.0.0.1: Ollama on 11434, llama.cpp on 8080, LM Studio on
/// 1234. Takes at most 800 ms.
pub async fn find_servers() -> Vec<LocalServer> {
    let local_providers = PROVIDERS.iter().filter(|provider| provider.is_local());
    find_servers_at(local_providers.map(|provider| (provider.name, provider.base_url.to_owned()))).await
}

/// Returns the servers that answer at these addresses (provider and base URL). Takes at most 800 ms.
pub async fn find_servers_at(addresses: impl IntoIterator<Item = (&'static str, String)>) -> Vec<LocalServer> {
    let client =
        Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(redirect::Policy::none()).no_proxy().build();
    let Ok(client) = client else { return Vec::new() };
    let probe = Probe { client, deadline: Instant::now() + PROBE_TIMEOUT };
    let servers = addresses.into_iter().map(|(provider, base_url)| probe.find_server(provider, base_url));
    join_all(servers).await.into_iter().flatten().collect()
}

/// The answer of Ollama's `/api/tags`.
#[derive(Deserialize)]
struct OllamaModelList {
    models: Vec<OllamaModel>,
}

#[derive(Deserialize)]
struct OllamaModel {
    name: String,
}

/// The answer of Ollama's `/api/show`.
#[derive(Deserialize)]
struct ModelDetails {
    capabilities: Vec<String>,
}

/// The answer of `/v1/models`, which all local servers have.
#[derive(Deserialize)]
struct ModelList {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

/// Asks servers for their models, until the deadline.
struct Probe {
    client: Client,
    deadline: Instant,
}

impl Probe {
    /// Returns the server at this address, with its models; `None` if no server of this provider answers there.
    async fn find_server(&self, provider: &'static str, base_url: String) -> Option<LocalServer> {
        let root = base_url.trim_end_matches('/').trim_end_matches("/v1");
        let no_body = None;
        let names: Vec<String> = if provider == "ollama" {
            let list: OllamaModelList = self.request_json(&format!("{root}/api/tags"), no_body).await?;
            list.models.into_iter().map(|model| model.name).collect()
        } else {
            let list: ModelList = self.request_json(&format!("{root}/v1/models"), no_body).await?;
            list.data.into_iter().map(|model| model.id).collect()
        };
        let is_safe_name =
            |name: &String| !name.is_empty() && name.len() <= MAX_NAME_BYTES && text::for_line(name) == **name;
        let names: BTreeSet<String> = names.into_iter().filter(is_safe_name).collect();
        let models = names.into_iter().take(MAX_MODELS).enumerate().map(|(index, name)| async move {
            let asks_details = provider == "ollama" && index < MAX_MODELS_WITH_DETAILS;
            let tools = if asks_details { self.tool_support(root, &name).await } else { None };
            LocalModel { name, tools }
        });
        let models = join_all(models).await;
        Some(LocalServer { provider, base_url: base_url.clone(), models })
    }

    /// Asks Ollama whether a model calls tools. Returns `None` if Ollama does not answer.
    async fn tool_support(&self, root: &str, model: &str) -> Option<bool> {
        let body = serde_json::json!({"model": model}).to_string();
        let details: ModelDetails = self.request_json(&format!("{root}/api/show"), Some(body)).await?;
        Some(details.capabilities.iter().any(|ability| ability == "tools"))
    }

    /// Requests JSON, with a POST if there is a body. Returns `None` if no answer arrives in time, or if the answer
    /// has another form.
    async fn request_json<T: DeserializeOwned>(&self, url: &str, body: Option<String>) -> Option<T> {
        let request = match body {
            Some(body) => self.client.post(url).header("content-type", "application/json").body(body),
            None => self.client.get(url),
        };
        let read_body = async {
            let mut response = request.send().await.ok()?.error_for_status().ok()?;
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.ok()? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > MAX_BYTES {
                    return None;
                }
            }
            serde_json::from_slice(&bytes).ok()
        };
        timeout_at(self.deadline, read_body).await.ok()?
    }
}
