//! Tells the user about changes of servers during a conversation.

use std::collections::BTreeMap;

use tokio::sync::broadcast::{self, error::RecvError};
use toolrack_host::{Event, Host, ServerName, State, text};

use crate::render::{Layout, Sign, Tone, count, paint};

/// The most bytes of a line.
const MAX_LINE_BYTES: usize = 240;

/// News about the servers for the user, one line each.
#[derive(Debug)]
pub(super) struct News {
    events: broadcast::Receiver<Event>,
    layout: Layout,
    /// The tools that each server was known to have.
    tools: BTreeMap<ServerName, Vec<String>>,
}

impl News {
    /// Subscribes to the events from now on.
    pub(super) fn subscribe(host: &Host, layout: Layout) -> Self {
        let mut tools = BTreeMap::<_, Vec<_>>::new();
        for tool in host.catalog().tools() {
            tools.entry(tool.server.clone()).or_default().push(tool.name.clone());
        }
        tools.values_mut().for_each(|names| names.sort_unstable());
        Self { events: host.events(), layout, tools }
    }

    /// Returns the next line, safe to print. Waits forever once the host is gone.
    pub(super) async fn next(&mut self) -> String {
        loop {
            match self.events.recv().await {
                Ok(event) => {
                    if let Some(line) = self.event_line(event) {
                        return line;
                    }
                }
                // Missed events do not matter: they only describe earlier states.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    fn event_line(&mut self, event: Event) -> Option<String> {
        match event {
            Event::McpServerState { server, state } => self.state_line(&server, &state),
            Event::McpToolsUpdated { server, tools } => self.tools_line(server, tools),
            // A tool whose definition has changed. It cannot be called until the user approves the change.
            Event::McpToolQuarantined { server, quarantined } => {
                let sign = paint(Tone::Waiting, self.layout.sign(Sign::Paused));
                let tool = format!("`{server}/{}`", quarantined.tool);
                let line = format!("{tool}: {}; `toolrack trust diff` shows it", quarantined.cause);
                Some(format!("{sign} {}", text::clip(&text::for_line(&line), MAX_LINE_BYTES)))
            }
            _ => None,
        }
    }

    fn state_line(&self, server: &ServerName, state: &State) -> Option<String> {
        let (sign, tone, words) = match state {
            State::Connected { tools } => {
                (Sign::Good, Tone::Good, format!("`{server}` is connected ({})", count(*tools, "tool")))
            }
            State::ToolsFailed { error } => {
                (Sign::Doubtful, Tone::Waiting, format!("`{server}` is connected, but cannot list its tools: {error}"))
            }
            State::Reconnecting { attempt, attempts, in_ms, error } => {
                let seconds = in_ms.div_ceil(1000);
                let words = format!(
                    "`{server}` is disconnected; the next attempt is in {seconds} s ({attempt}/{attempts}): {error}"
                );
                (Sign::Retrying, Tone::Waiting, words)
            }
            State::NeedsAuth { how } => (Sign::Key, Tone::Waiting, format!("`{server}` wants a sign-in: {how}")),
            State::Failed { error } => (Sign::Bad, Tone::Bad, format!("`{server}` failed: {error}")),
            State::Disconnected => (Sign::Off, Tone::Faint, format!("`{server}` is disconnected")),
            _ => return None,
        };
        Some(format!("{} {}", paint(tone, self.layout.sign(sign)), text::for_line(&text::clip(&words, MAX_LINE_BYTES))))
    }

    fn tools_line(&mut self, server: ServerName, mut tools: Vec<String>) -> Option<String> {
        tools.sort_unstable();
        // A server without a connection has no tools until it is back.
        if tools.is_empty() || self.tools.get(&server) == Some(&tools) {
            return None;
        }
        let words = format!("the tools of `{server}` have changed ({})", count(tools.len(), "tool"));
        self.tools.insert(server, tools);
        Some(format!("{} {words}", paint(Tone::Faint, self.layout.sign(Sign::Retrying))))
    }
}
