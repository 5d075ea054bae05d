//! Finds the tool of a call and its server. Only this module resolves the name of a call.
//!
//! A model that has found a tool by searching calls it through the tool `call_tool`. This module replaces such a call
//! by one of the tool that the arguments name.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::timeout;

use super::{
    Host,
    keeper::Servers,
    own_tools::{Discovery, InnerCall},
};
use crate::{
    call::{Call, CallError, Target},
    catalog::{CatalogTool, ToolReference, UnknownTool},
    server::Server,
    spec::{ServerName, Transport},
    state::State,
};

/// The tool to call, and its server. If the requested call was one of `call_tool`, the inner call is the call that its
/// arguments describe; it replaces the requested call.
type Route = (Option<InnerCall>, CatalogTool, Arc<Server>);

/// The reason why a call has no tool.
enum RouteError {
    /// No tool of the catalog has this name.
    Missing(ToolReference, UnknownTool),
    Failed(CallError),
}

impl Host {
    /// Waits until the tool `selector` (in any form that [`Call::new`] accepts) is in the catalog, or until all servers
    /// that could have the tool have finished starting. Waits for no other server. The caller bounds the time.
    pub async fn wait_for_tool(&self, selector: &str) {
        let reference = ToolReference::Written(selector.to_owned());
        if !self.inbox.is_closed() && !self.catalog().has(&reference) {
            self.wait_for(&reference, |_| Duration::MAX).await;
        }
    }

    /// Returns the error for a call of a tool that is not in the catalog; `selector` names it in any form that
    /// [`Call::new`] accepts. The error is [`CallError::NotReady`] if exactly one server can have such a tool and that
    /// server has no list of its tools, else [`CallError::Unknown`]. Never waits.
    #[must_use]
    pub fn missing(&self, selector: &str) -> CallError {
        self.missing_error(&ToolReference::Written(selector.to_owned()), self.catalog().unknown(selector))
    }

    /// Finds the tool of a call, and its server. If the call is one of [`call_tool`](Self::discovery), returns the call
    /// that its arguments describe instead.
    pub(super) async fn find(&self, call: Call) -> Result<(Call, CatalogTool, Arc<Server>), CallError> {
        let route = match self.route(&call) {
            // Wait only if the tool can still appear: a catalog that the call brings never changes, nor does an
            // excerpt (a fixed view of some servers).
            Err(RouteError::Missing(reference, _)) if call.catalog().is_none() && !self.inbox.is_closed() => {
                Box::pin(self.wait_and_route(&call, reference)).await
            }
            route => route,
        };
        let (inner, tool, server) = route.map_err(|error| match error {
            RouteError::Missing(reference, unknown) => self.missing_error(&reference, unknown),
            RouteError::Failed(error) => error,
        })?;
        let call = match inner {
            Some(InnerCall { arguments, .. }) => call.redirected_to(&tool, arguments),
            None => call,
        };
        Ok((call, tool, server))
    }

    /// Waits until the tool `missing`, which is not in the catalog yet, appears or cannot appear. Then finds the tool
    /// of the call.
    async fn wait_and_route(&self, call: &Call, missing: ToolReference) -> Result<Route, RouteError> {
        let idle_timeout = |server: &Server| call.idle_timeout(server);
        self.wait_for(&missing, idle_timeout).await;
        match self.route(call) {
            // The tool is `call_tool`, and the tool that it names is missing as well.
            Err(RouteError::Missing(other, _)) if other != missing => {
                self.wait_for(&other, idle_timeout).await;
                self.route(call)
            }
            route => route,
        }
    }

    /// Waits until one of the servers that may have the tool `reference` has it, or until all of them have listed their
    /// tools.
    async fn wait_for(&self, reference: &ToolReference, idle_timeout: impl Fn(&Server) -> Duration) {
        let servers = self.servers.load_full();
        let candidate_servers = self.candidate_servers(reference, &servers).into_iter().map(|(_, server)| server);
        let starting = candidate_servers.filter(|server| !server.is_settled());
        let mut starting: FuturesUnordered<_> =
            starting.map(|server| timeout(idle_timeout(server), server.settled())).collect();
        loop {
            // A server connects a moment before its tools are in the catalog.
            self.publish().await;
            if self.catalog().has(reference) || starting.next().await.is_none() {
                return;
            }
        }
    }

    /// Returns the servers that may have the tool `reference`, judging by names only; at most one server if
    /// `reference` names a server.
    fn candidate_servers<'s>(
        &self,
        reference: &ToolReference,
        servers: &'s Servers,
    ) -> Vec<(&'s ServerName, &'s Arc<Server>)> {
        let written = match reference {
            ToolReference::Tool(server, _) => return servers.get_key_value(server).into_iter().collect(),
            ToolReference::Written(written) => written,
        };
        if let Some((server, _)) = written.split_once('/')
            && let Some(owner) = servers.get_key_value(server)
        {
            return vec![owner];
        }
        let naming = self.naming();
        let is_candidate = |server: &str| {
            let rest = written.strip_prefix(server);
            rest.is_some_and(|rest| rest.starts_with('.')) || naming.may_produce(server, written)
        };
        servers.iter().filter(|(name, _)| is_candidate(name.as_str())).collect()
    }

    /// Finds the tool of a call in the catalog of the call if it has one, else in the current catalog.
    fn route(&self, call: &Call) -> Result<Route, RouteError> {
        let catalog = call.catalog().unwrap_or_else(|| self.catalog());
        // A tool in quarantine (its definition has changed, and waits for approval) is found as well: the call then
        // fails with the reason.
        let Some(tool) = catalog.tool_named(call.tool_reference()) else {
            return Err(RouteError::Missing(call.tool_reference().clone(), catalog.unknown(&call.selector())));
        };
        let server = self.server(tool.server.as_str()).map_err(RouteError::Failed)?;
        let Transport::Native(native) = &server.spec.transport else {
            return Ok((None, tool.clone(), server));
        };
        let Some(inner) = native
            .extension::<Discovery>()
            .and_then(|discovery| discovery.inner_call(&tool.tool().name, call.arguments()))
        else {
            return Ok((None, tool.clone(), server));
        };
        let tool = match catalog.select_within(&inner.selector, &inner.selection) {
            Ok(tool) => tool,
            Err(unknown) => {
                let quarantined = catalog.quarantined_tool(&inner.selector).filter(|tool| inner.selection.has(tool));
                quarantined
                    .ok_or_else(|| RouteError::Missing(ToolReference::Written(inner.selector.clone()), unknown))?
            }
        };
        let tool = tool.clone();
        let server = self.server(tool.server.as_str()).map_err(RouteError::Failed)?;
        Ok((Some(inner), tool, server))
    }

    /// Returns the error for a tool that is not in the catalog, often because its server is not connected.
    fn missing_error(&self, reference: &ToolReference, unknown: UnknownTool) -> CallError {
        let servers = self.servers.load();
        let [(name, server)] = self.candidate_servers(reference, &servers)[..] else {
            return self.shut_down_error().unwrap_or(CallError::Unknown(unknown));
        };
        let snapshot = server.snapshot();
        let knows_its_tools = match &snapshot.state {
            // An idle server has listed its tools or loaded a stored list, unless it has an error.
            State::Idle { .. } => snapshot.error.is_none(),
            state => snapshot.link.is_some() && state.error().is_none(),
        };
        if knows_its_tools {
            return CallError::Unknown(unknown);
        }
        // No tool of this server is known yet, so no call can wait for its connection. A later call may find one.
        server.try_again_if_refused();
        // The error names the server only, so it needs no name of an item.
        Target { server_name: name, item_name: "", server }.not_ready_error(snapshot)
    }
}
