//! Writes notes about the servers that a command has seen into the notebook (the cache of names for completion).

use std::sync::Arc;

use toolrack_config::{Loaded, Scope};
use toolrack_host::{CatalogTool, Host, State};

use super::{Context, tape::Tape};
use crate::notebook::{ConfiguredServer, Notebook, OfferList, Tool, ToolsHash};

/// The servers about which the notebook gets a note. Built-in servers need none, and servers without a file exist only
/// for this command.
pub(super) fn servers_to_note(loaded: &Loaded) -> impl Iterator<Item = ConfiguredServer> {
    let entries = loaded.entries.iter();
    entries.filter(|entry| entry.scope != Scope::BuiltIn && entry.source.path.is_some()).map(ConfiguredServer::from)
}

impl Context {
    /// Writes the tools of the connected servers into the notebook.
    pub(super) async fn note_tools(&self, host: &Host) {
        if Tape::is_replay(self.host_parts.tape.as_ref()) {
            return;
        }
        let status = host.status();
        let catalog = host.catalog();
        let is_connected = |name: &str| {
            let status = status.iter().find(|server| server.name.as_str() == name);
            status.is_some_and(|server| matches!(server.state, State::Connected { .. }))
        };
        let configured_servers: Vec<_> = self
            .host_settings
            .load()
            .configured_servers
            .iter()
            .filter(|server| is_connected(&server.name))
            .cloned()
            .collect();
        let notebook = Notebook::below(self.places.data());
        let secrets = Arc::clone(&self.host_parts.secrets);
        let write_task = tokio::task::spawn_blocking(move || {
            let conceal = |text: &str| secrets.conceal(text).into_owned();
            for server in configured_servers {
                let tools =
                    || catalog.tools().filter(|tool| tool.server.as_str() == server.name).map(CatalogTool::tool);
                let tools_hash = ToolsHash::of(tools());
                if !notebook.is_up_to_date(&server, tools_hash) {
                    notebook.write_tools(
                        &server,
                        tools_hash,
                        tools().map(|tool| Tool::from_mcp(tool, &conceal)).collect(),
                    );
                }
            }
        });
        // A failure does not matter: only completion uses the notes.
        let _ = write_task.await;
    }

    /// Writes lists of prompts or resources into the notebook, each with the name of its server.
    pub(crate) async fn note_offers(&self, loaded: &Loaded, lists: Vec<(String, OfferList)>) {
        if Tape::is_replay(self.host_parts.tape.as_ref()) {
            return;
        }
        let configured_servers: Vec<_> = servers_to_note(loaded).collect();
        let notebook = Notebook::below(self.places.data());
        let write_task = tokio::task::spawn_blocking(move || {
            for (name, list) in lists {
                if let Some(server) = configured_servers.iter().find(|server| server.name == name) {
                    notebook.write_offers(server, list);
                }
            }
        });
        // As in `note_tools`, a failure does not matter.
        let _ = write_task.await;
    }
}
