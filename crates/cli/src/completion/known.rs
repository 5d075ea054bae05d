//! What is known without connecting to anything.

use std::{path::PathBuf, sync::OnceLock};

use toolrack_config::{Entry, Environment, Loaded, Places, Request, Scope, trust::NoLedger};
use toolrack_store::{Approval, Store};

use super::notebook::{Notebook, Tool};
use crate::{args::Global, builtin, wire};

/// The configuration as it is now, read when it is first asked for.
#[derive(Debug)]
pub(super) struct Known {
    environment: Environment,
    folder: PathBuf,
    global: Global,
    found: OnceLock<Option<Found>>,
}

#[derive(Debug)]
struct Found {
    places: Places,
    loaded: Loaded,
    servers: Vec<Server>,
}

/// A server that can be named.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    /// In a few words.
    pub(super) about: String,
}

impl Known {
    /// What is known in `folder` to someone who typed `global`.
    pub(super) fn new(environment: Environment, folder: PathBuf, global: &Global) -> Self {
        let mut global = global.clone();
        // A shell hands the line over as it was typed.
        for file in &mut global.mcp_config {
            if let (Ok(below), Some(home)) = (file.strip_prefix("~"), environment.home()) {
                *file = home.join(below);
            }
        }
        // A pipe would be emptied, or waited for.
        global.mcp_config.retain(|file| folder.join(file).is_file());
        Self { environment, folder, global, found: OnceLock::new() }
    }

    /// The names of all environment variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.environment.iter().filter_map(|(name, _)| name.to_str())
    }

    /// The agents that have servers of their own.
    pub(super) fn agents(&self) -> &[String] {
        self.found().map_or(&[], |found| &found.loaded.agents)
    }

    fn found(&self) -> Option<&Found> {
        let found = self.found.get_or_init(|| {
            let places = Places::from_env(&self.environment).ok()?;
            // Without the approvals: they are only looked up for a server whose tools are asked for.
            let mut request = Request::new(places.clone(), &self.folder);
            request.mcp_config.clone_from(&self.global.mcp_config);
            request.strict = self.global.strict_mcp_config;
            request.agent.clone_from(&self.global.agent);
            request.built_in = wire::built_in(&self.folder);
            let loaded = toolrack_config::load(&request, &NoLedger);
            let servers = loaded.entries.iter().map(|entry| server(entry, &loaded)).collect();
            Some(Found { places, loaded, servers })
        });
        found.as_ref()
    }

    /// Every server of the configuration, by name; of what a project brings, nothing but the name.
    pub(super) fn servers(&self) -> &[Server] {
        self.found().map_or(&[], |found| &found.servers)
    }

    /// The tools that `server` had when it was last connected, if its entry still is what was connected then, and may
    /// still be.
    pub(super) fn tools(&self, server: &str) -> Vec<Tool> {
        let Some(found) = self.found() else {
            return Vec::new();
        };
        let Some(entry) = found.loaded.entry(server).filter(|entry| entry.is_valid && entry.enabled) else {
            return Vec::new();
        };
        if entry.scope == Scope::BuiltIn {
            return builtin::tools().iter().map(Tool::of_rmcp).collect();
        }
        let tools = Notebook::below(found.places.data()).read(&entry.into());
        if tools.is_empty() || entry.project.is_none() || is_approved(entry, &found.places) {
            tools
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
impl Known {
    /// As if `server` had been connected, and had one tool.
    pub(super) fn note_a_tool(&self, server: &str) {
        let found = self.found().unwrap();
        let tool = serde_json::json!({ "name": "seen", "arguments": [{ "name": "mode", "values": ["fast", "slow"] }] });
        let tool = serde_json::from_value(tool).unwrap();
        let entry = found.loaded.entry(server).unwrap();
        Notebook::below(found.places.data()).write(&entry.into(), vec![tool]);
    }
}

fn server(entry: &Entry, loaded: &Loaded) -> Server {
    let spec = loaded.desired.get(entry.name.as_str());
    let about = match (spec, &entry.project) {
        (_, Some(_)) => entry.scope.to_string(),
        (None, None) => format!("{}, broken", entry.scope),
        (Some(_), None) if !entry.enabled => format!("{}, disabled", entry.scope),
        (Some(spec), None) => format!("{}, {}", entry.scope, spec.transport.kind()),
    };
    Server { name: entry.name.clone(), about }
}

/// Whether a person agreed to exactly this entry. When nobody can say, nobody did.
fn is_approved(entry: &Entry, places: &Places) -> bool {
    let Some(project) = entry.project.as_deref() else {
        return false;
    };
    approvals(places).iter().any(|approval| approval.covers(project, &entry.name, &entry.hash))
}

/// The approvals, if the database is there and needs no work.
fn approvals(places: &Places) -> Vec<Approval> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let Ok(Some(store)) = Store::open_as_it_is(wire::database(places)).await else {
            return Vec::new();
        };
        let approvals = store.approvals().await.unwrap_or_default();
        store.close().await;
        approvals
    })
}
