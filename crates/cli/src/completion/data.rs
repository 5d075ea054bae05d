//! Finds the names that completion can offer without connecting to a server. After any error there are none.
//!
//! The names of a server's tools, prompts and resources come from the notebook, a cache of the items that each server
//! listed last. An offer is a prompt or a resource in the notebook.

use std::{path::PathBuf, sync::OnceLock};

use toolrack_config::{Entry, Environment, Loaded, Places, Request, Scope, trust::NoLedger};
use toolrack_host::text;
use toolrack_store::{SessionQuery, Space, Store};

#[cfg(test)]
use crate::notebook::{OfferList, ToolsHash};
use crate::{
    args::Global,
    builtin, database,
    notebook::{Notebook, Offer, Offers, Tool},
};

/// The maximum number of sessions that are offered: the newest ones.
const MAX_SESSIONS: usize = 100;

/// The most bytes of a session's description.
const MAX_ABOUT: usize = 80;

/// What completion knows. The configuration is read when it is first needed.
#[derive(Debug)]
pub(super) struct CompletionData {
    environment: Environment,
    folder: PathBuf,
    global: Global,
    configuration: OnceLock<Option<Configuration>>,
}

#[derive(Debug)]
struct Configuration {
    places: Places,
    loaded: Loaded,
    servers: Vec<NamedItem>,
}

/// A server or a session that can be named.
#[derive(Debug)]
pub(super) struct NamedItem {
    pub(super) name: String,
    /// A description in a few words.
    pub(super) about: String,
}

impl CompletionData {
    /// Returns what completion knows in `folder` with the options `global`.
    pub(super) fn new(environment: Environment, folder: PathBuf, global: &Global) -> Self {
        let mut global = global.clone();
        // The shell passes the words unexpanded, so this expands `~`.
        for file in &mut global.mcp_config {
            if let (Ok(relative), Some(home)) = (file.strip_prefix("~"), environment.home()) {
                *file = home.join(relative);
            }
        }
        // Reading a pipe would empty it, or block.
        global.mcp_config.retain(|file| folder.join(file).is_file());
        Self { environment, folder, global, configuration: OnceLock::new() }
    }

    /// The names of all environment variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.environment.iter().filter_map(|(name, _)| name.to_str())
    }

    /// The agents that have servers of their own.
    pub(super) fn agents(&self) -> &[String] {
        self.configuration().map_or(&[], |configuration| &configuration.loaded.agents)
    }

    fn configuration(&self) -> Option<&Configuration> {
        let configuration = self.configuration.get_or_init(|| {
            let places = Places::from_env(&self.environment).ok()?;
            // Load without the approvals: they are looked up only for a server whose tools are needed.
            let mut request = Request::new(places.clone(), &self.folder);
            request.mcp_config.clone_from(&self.global.mcp_config);
            request.strict = self.global.strict_mcp_config;
            request.agent.clone_from(&self.global.agent);
            request.built_in = builtin::desired_servers(&self.folder);
            let loaded = toolrack_config::load(&request, &NoLedger);
            let servers = loaded.entries.iter().map(|entry| named_server(entry, &loaded)).collect();
            Some(Configuration { places, loaded, servers })
        });
        configuration.as_ref()
    }

    /// Returns all servers of the configuration, each with a description. For a server of a project, that is only the
    /// scope, because the approvals are not loaded, and so the state of the server is unknown.
    pub(super) fn servers(&self) -> &[NamedItem] {
        self.configuration().map_or(&[], |configuration| &configuration.servers)
    }

    /// Returns the conversations, named by the beginnings of their ids, the most recently used first.
    pub(super) fn sessions(&self) -> Vec<NamedItem> {
        let Ok(places) = Places::from_env(&self.environment) else {
            return Vec::new();
        };
        let query = SessionQuery { limit: MAX_SESSIONS, ..SessionQuery::default() };
        let sessions = read_from_store(&places, async |store| store.sessions(&query).await.unwrap_or_default());
        let named = sessions.into_iter().map(|session| {
            let about = text::clip(&text::for_line(session.title.trim()), MAX_ABOUT).into_owned();
            NamedItem { name: session.prefix, about }
        });
        named.collect()
    }

    /// The names of stored secrets. No key is needed for them.
    pub(super) fn secrets(&self) -> Vec<String> {
        let Ok(places) = Places::from_env(&self.environment) else {
            return Vec::new();
        };
        read_from_store(&places, async |store| store.sealed_names(Space::Secret).await.unwrap_or_default())
    }

    /// Returns the tools that `server` had when it was last connected. Returns none if its entry (its configuration in
    /// a file) has changed since, or may no longer be connected.
    pub(super) fn tools(&self, server: &str) -> Vec<Tool> {
        match self.usable_entry(server) {
            Some((_, entry)) if entry.scope == Scope::BuiltIn => builtin::tools().iter().map(Tool::from_rmcp).collect(),
            Some((configuration, entry)) => {
                let tools = Notebook::below(configuration.places.data()).read_tools(&entry.into());
                // Look up the approval only if there is something to show, because that opens the database.
                if tools.is_empty() || configuration.may_show(entry) { tools } else { Vec::new() }
            }
            None => Vec::new(),
        }
    }

    /// The prompts that `server` had when they were last listed, under the same conditions as [`Self::tools`].
    pub(super) fn prompts(&self, server: &str) -> Vec<Offer> {
        self.offers(server).map(|offers| offers.prompts).unwrap_or_default()
    }

    /// The resources that `server` had when they were last listed, under the same conditions as [`Self::tools`].
    pub(super) fn resources(&self, server: &str) -> Vec<Offer> {
        self.offers(server).map(|offers| offers.resources).unwrap_or_default()
    }

    /// Returns the noted prompts and resources of `server`, if they may be shown.
    fn offers(&self, server: &str) -> Option<Offers> {
        let (configuration, entry) = self.usable_entry(server)?;
        let offers = Notebook::below(configuration.places.data()).read_offers(&entry.into());
        let is_empty = offers.prompts.is_empty() && offers.resources.is_empty();
        (!is_empty && configuration.may_show(entry)).then_some(offers)
    }

    /// Returns the entry of `server`, if it is valid and enabled.
    fn usable_entry(&self, server: &str) -> Option<(&Configuration, &Entry)> {
        let configuration = self.configuration()?;
        let entry = configuration.loaded.entry(server).filter(|entry| entry.is_valid && entry.enabled)?;
        Some((configuration, entry))
    }
}

impl Configuration {
    /// Whether the notes about a server may be shown: only if the user approved its entry, or wrote it.
    fn may_show(&self, entry: &Entry) -> bool {
        entry.project.is_none() || is_approved(entry, &self.places)
    }
}

#[cfg(test)]
impl CompletionData {
    /// Writes notes as if `server` had been connected, and had one tool, one resource and one prompt.
    pub(super) fn note_a_tool(&self, server: &str) {
        let configuration = self.configuration().unwrap();
        let tool = serde_json::json!({ "name": "seen", "arguments": [{ "name": "mode", "values": ["fast", "slow"] }] });
        let tool = serde_json::from_value(tool).unwrap();
        let entry = configuration.loaded.entry(server).unwrap();
        let notebook = Notebook::below(configuration.places.data());
        notebook.write_tools(&entry.into(), ToolsHash::of([].into_iter()), vec![tool]);
        let offer = serde_json::json!({ "name": "x://seen", "arguments": [] });
        notebook.write_offers(&entry.into(), OfferList::Resources(vec![serde_json::from_value(offer).unwrap()]));
        let offer = serde_json::json!({ "name": "greet", "arguments": [{ "name": "who" }] });
        notebook.write_offers(&entry.into(), OfferList::Prompts(vec![serde_json::from_value(offer).unwrap()]));
    }
}

fn named_server(entry: &Entry, loaded: &Loaded) -> NamedItem {
    let spec = loaded.desired.get(entry.name.as_str());
    let about = match (spec, &entry.project) {
        // The approvals are not loaded, so it is unknown whether this server may be used.
        (_, Some(_)) => entry.scope.to_string(),
        (None, None) => format!("{}, broken", entry.scope),
        (Some(_), None) if !entry.enabled => format!("{}, disabled", entry.scope),
        (Some(spec), None) => format!("{}, {}", entry.scope, spec.transport.kind()),
    };
    NamedItem { name: entry.name.clone(), about }
}

/// Whether a user approved exactly this entry; `false` when that is not known.
fn is_approved(entry: &Entry, places: &Places) -> bool {
    let Some(project) = entry.project.as_deref() else {
        return false;
    };
    let approvals = read_from_store(places, async |store| store.approvals().await.unwrap_or_default());
    approvals.iter().any(|approval| approval.covers(project, &entry.name, &entry.agreement))
}

/// Returns what `read` finds in the database, if there is one and it needs no migration.
fn read_from_store<T: Default>(places: &Places, read: impl AsyncFnOnce(&Store) -> T) -> T {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return T::default();
    };
    runtime.block_on(async {
        // Completion must not contact a server, and the rows of a linked folder are on a database server.
        if !matches!(database::link::read(places.data()), Ok(None)) {
            return T::default();
        }
        let Ok(Some(store)) = Store::open_existing(database::file(places)).await else {
            return T::default();
        };
        let read_rows = read(&store).await;
        store.close().await;
        read_rows
    })
}
