//! Tells clients of the gateway (one MCP server in front of all others) what changes at the servers behind it.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use toolrack_host::{Event, Principal, ServerName};

use bytes::Bytes;

use super::{message, protocol_names::META_SUBSCRIPTION, view::View};
use crate::rights::Right;

/// The maximum number of news that wait for a slow client. A client that falls further behind is told that every list
/// has changed.
const MAX_WAITING_NEWS: usize = 256;

/// Log levels of MCP, least urgent first.
pub(super) const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The index of `info`. A message whose own level is not in [`LEVELS`] gets this level.
pub(super) const INFO_LEVEL: u8 = 1;

/// The index of a level in [`LEVELS`].
pub(super) fn level_index(name: &str) -> Option<u8> {
    LEVELS.iter().position(|level| *level == name).and_then(|index| u8::try_from(index).ok())
}

/// A list that clients can ask the gateway for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// A change or message that may concern clients.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// The items of this server in a list have changed. With `None`, the items of any server may have changed.
    Changed(List, Option<ServerName>),
    /// A server has written a log message.
    Log { server: ServerName, level: u8, message: String },
}

impl News {
    /// Returns whether a client of `principal` with this view may receive the news. Only operators receive logs,
    /// because what a server logs can contain texts of any caller.
    pub(super) fn concerns(&self, view: &View, principal: &Principal) -> bool {
        match self {
            Self::Changed(_, server) => server.as_ref().is_none_or(|server| view.may_have(server)),
            Self::Log { server, .. } => Right::Operate.is_held_by(principal) && view.may_have(server),
        }
    }
}

/// The notification that a list has changed. `subscription` is the id of the client's subscription, as JSON, if the
/// notification belongs to one.
pub(super) fn list_changed(list: List, subscription: Option<&str>) -> Bytes {
    match subscription {
        None => format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, list.method()),
        Some(id) => format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{"_meta":{{"{META_SUBSCRIPTION}":{id}}}}}}}"#,
            list.method()
        ),
    }
    .into()
}

/// The notification of a log message.
pub(super) fn log_message(server: &ServerName, level: u8, text: &str) -> Bytes {
    let level = LEVELS.get(usize::from(level)).copied().unwrap_or("info");
    message::request_or_notification(
        /* id */ None,
        "notifications/message",
        &json!({"level": level, "logger": server.as_str(), "data": text}),
    )
}

/// The notification that a resource has changed. `subscription` is as in [`list_changed`].
pub(super) fn resource_updated(uri: &str, subscription: Option<&str>) -> Bytes {
    let uri = Value::from(uri);
    let meta = subscription.map(|id| format!(r#","_meta":{{"{META_SUBSCRIPTION}":{id}}}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":{uri}{meta}}}}}"#).into()
}

/// The notifications that a client of 2026-07-28 subscribes to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    pub(super) resource_subscriptions: Vec<String>,
}

impl Filter {
    pub(super) fn wants(&self, list: List) -> bool {
        match list {
            List::Tools => self.tools_list_changed,
            List::Prompts => self.prompts_list_changed,
            List::Resources => self.resources_list_changed,
        }
    }

    /// The first message of a subscription: it repeats the parts of the filter that the gateway accepts.
    pub(super) fn acknowledgement(&self, id: &str) -> Bytes {
        let flags = [
            (self.tools_list_changed, "toolsListChanged"),
            (self.prompts_list_changed, "promptsListChanged"),
            (self.resources_list_changed, "resourcesListChanged"),
        ];
        let mut accepted_fields: Vec<_> =
            flags.iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, name)| format!(r#""{name}":true"#)).collect();
        if !self.resource_subscriptions.is_empty() {
            accepted_fields.push(format!(r#""resourceSubscriptions":{}"#, json!(self.resource_subscriptions)));
        }
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"{META_SUBSCRIPTION}":{id}}},"notifications":{{{}}}}}}}"#,
            accepted_fields.join(",")
        )
        .into()
    }
}

/// The source of news. Its buffer is allocated when the first client listens, because most gateways in a team have no
/// such client.
#[derive(Debug, Default)]
pub(super) struct NewsSender(OnceLock<broadcast::Sender<News>>);

impl NewsSender {
    pub(super) fn subscribe(&self) -> broadcast::Receiver<News> {
        self.0.get_or_init(|| broadcast::channel(MAX_WAITING_NEWS).0).subscribe()
    }

    /// Sends the news that an event of the host means to clients, if any.
    pub(super) fn send_event(&self, event: Event) {
        match event {
            Event::McpToolsUpdated { server, .. } => self.send(News::Changed(List::Tools, Some(server))),
            // Prompts and resources come and go with their server.
            Event::McpServerConnected { server, .. } | Event::McpServerDisconnected { server, .. } => {
                self.send(News::Changed(List::Prompts, Some(server.clone())));
                self.send(News::Changed(List::Resources, Some(server)));
            }
            Event::McpPromptsChanged { server } => self.send(News::Changed(List::Prompts, Some(server))),
            Event::McpResourcesChanged { server } => self.send(News::Changed(List::Resources, Some(server))),
            Event::McpServerLog { server, level: name, message } => {
                let level = level_index(&name).unwrap_or(INFO_LEVEL);
                self.send(News::Log { server, level, message });
            }
            // The other events mean nothing to clients, or reach them through their calls.
            _ => {}
        }
    }

    pub(super) fn send(&self, news: News) {
        if let Some(listeners) = self.0.get() {
            // It is not an error if no client listens any more.
            let _ = listeners.send(news);
        }
    }
}

/// The next news. A receiver that fell behind gets the news that every list has changed. `None` when the gateway ends.
pub(super) async fn next(receiver: &mut broadcast::Receiver<News>) -> Option<Vec<News>> {
    match receiver.recv().await {
        Ok(news) => Some(vec![news]),
        Err(broadcast::error::RecvError::Lagged(_)) => {
            Some(List::ALL.into_iter().map(|list| News::Changed(list, /* server */ None)).collect())
        }
        Err(broadcast::error::RecvError::Closed) => None,
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::principal::{Kind, Role};

    use super::*;
    use crate::gateway::{options::GatewayOptions, view::Views};

    #[test]
    fn an_acknowledgement_names_only_the_accepted_notifications() {
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:\"y"], "more": true});
        let filter: Filter = serde_json::from_value(wanted).unwrap();
        let notification: Value = serde_json::from_slice(&filter.acknowledgement("\"a\"")).unwrap();
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:\"y"]});
        assert_eq!(notification["params"]["notifications"], honoured);
        assert_eq!(notification["params"]["_meta"][META_SUBSCRIPTION], "a");
        assert!(filter.wants(List::Tools) && !filter.wants(List::Prompts));
    }

    #[test]
    fn log_messages_reach_operators_only_and_changes_reach_all_clients() {
        let view = Views::new(&GatewayOptions::default()).default_view();
        let server = ServerName::new("git").unwrap();
        let log = News::Log { server: server.clone(), level: 1, message: "of another member".to_owned() };
        let ann = |role| Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap().with_role(role);
        assert!(log.concerns(&view, &Principal::LOCAL) && log.concerns(&view, &ann(Role::Operator)));
        for role in [Role::User, Role::Viewer, Role::Auditor] {
            assert!(!log.concerns(&view, &ann(role)), "{role:?}");
            assert!(News::Changed(List::Tools, Some(server.clone())).concerns(&view, &ann(role)));
        }
    }

    #[tokio::test]
    async fn a_client_that_is_too_slow_learns_that_everything_has_changed() {
        let room = NewsSender::default();
        let mut slow = room.subscribe();
        for _ in 0..2 * MAX_WAITING_NEWS {
            room.send(News::Changed(List::Tools, None));
        }
        assert_eq!(next(&mut slow).await.unwrap().len(), List::ALL.len());
        assert_eq!(next(&mut slow).await.unwrap().len(), 1);
    }
}
