//! Asks members of a team for the values that their servers need, such as keys. The gateway directs the member to the
//! page of the dashboard on which they give the value, so the value never passes through the client. If the client
//! cannot open a page, the result of the call names the page.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    time::timeout,
};
use toolrack_host::{
    Asker as _, CallError, Catalog, Event, ServerName, State,
    ask::{Elicitation, Elicited},
};

use super::{
    Gateway, Inner,
    methods::ClientCaller,
    pending::{PendingCall, Update},
    relay::ClientAsker,
    tool_call::{ListedCall, ToolCall, outcome_of},
    tools,
};
use crate::missing::MissingValues;

/// The name of the tool that the gateway offers to members whose servers lack a value. The tools of such a server are
/// not known yet, so a model learns of the server from the description of this tool.
const CREDENTIALS_TOOL: &str = "give_credentials";

/// How long a call waits for the member to give the missing values.
const VALUES_TIMEOUT: Duration = Duration::from_mins(10);

/// How long a call waits for the server after the member has given the values.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a call that cannot continue, because the member has not given a value. The result says why not.
pub(super) struct NotGiven(pub(super) Bytes);

impl NotGiven {
    fn because(why: &str) -> Self {
        Self(tools::error_result(why, "CREDENTIALS_MISSING"))
    }
}

/// Joins the names for a sentence, each in backticks.
fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A value that a server needs from the member.
struct NeededValue<'a> {
    missing_values: &'a MissingValues,
    server: &'a ServerName,
    name: &'a str,
}

impl Inner {
    /// The names of the values that the member has not yet given for `server`, and the [`MissingValues`] that knows the
    /// pages for them. `None` if no value is missing.
    pub(super) async fn missing_values(
        &self,
        caller: &ClientCaller,
        server: &ServerName,
    ) -> Option<(MissingValues, BTreeSet<String>)> {
        let missing_values = self.options.missing_values.as_ref()?;
        let names = missing_values.missing_for(&caller.principal, server.as_str()).await;
        (!names.is_empty()).then(|| (missing_values.clone(), names))
    }

    /// Directs the member to the pages for the values that `server` lacks, and waits until all of them are given.
    ///
    /// # Errors
    /// The result of the call, if the member has not given all values.
    pub(super) async fn request_values(
        &self,
        server: &ServerName,
        caller: &ClientCaller,
        updates: &mpsc::Sender<Update>,
    ) -> Result<(), NotGiven> {
        let Some((missing_values, names)) = self.missing_values(caller, server).await else { return Ok(()) };
        if !caller.client.abilities.urls {
            let pages: Vec<_> = names.iter().map(|name| missing_values.page_for(name)).collect();
            let (names, pages) = (quoted_list(names.iter().map(String::as_str)), pages.join(" "));
            return Err(NotGiven::because(&format!(
                "the server `{server}` needs {names} from the user, who can enter what is missing in a browser at \
                 {pages}; call the tool again after that. Never ask for the value here."
            )));
        }
        for name in names {
            self.request_value(NeededValue { missing_values: &missing_values, server, name: &name }, caller, updates)
                .await?;
        }
        Ok(())
    }

    /// Directs the member to the page for a value, and waits until they have given it.
    async fn request_value(
        &self,
        NeededValue { missing_values, server, name }: NeededValue<'_>,
        caller: &ClientCaller,
        updates: &mpsc::Sender<Update>,
    ) -> Result<(), NotGiven> {
        let id = format!("toolrack-{:032x}", rand::rng().random::<u128>());
        let (era, client_abilities) = (caller.era, caller.client.abilities);
        let asker =
            ClientAsker { era, client_abilities, updates: updates.clone(), fallback: None, question_name: None };
        let page = missing_values.page_for(name);
        let message =
            format!("The server {server} needs a value of your own: {name}. Only you can give it, on this page.");
        let question = Elicitation::Url { message, url: page.clone(), id: Some(id.clone()) };
        let until_given = missing_values.until_given(&caller.principal, server.as_str(), name);
        // The reason why the value was not given; `None` if it was given.
        let reason_not_given = async {
            tokio::pin!(until_given);
            tokio::select! {
                elicited = asker.elicit(server.clone(), question) => match elicited {
                    Elicited::Accept(_) => until_given.await,
                    Elicited::Decline => return Some("the user declined to give it"),
                    Elicited::Cancel => return Some("the user has not decided"),
                },
                // A member who gives the value on the page has answered, even if they do not answer the client.
                () = &mut until_given => {}
            }
            None
        };
        let why = timeout(VALUES_TIMEOUT, reason_not_given).await.unwrap_or(Some("it was not given in time"));
        if let Some(why) = why {
            return Err(NotGiven::because(&format!(
                "the server `{server}` needs `{name}` from the user, and {why}; the page is {page}"
            )));
        }
        // Fails only if the client has gone away.
        let _ = updates.send(Update::Completed(id)).await;
        Ok(())
    }

    /// Waits until `server`, which has just got its values, offers the tool `selector`. Returns the catalog with that
    /// tool; `None` if the server fails, or does not offer the tool within [`SERVER_TIMEOUT`].
    pub(super) async fn until_offered(&self, server: &ServerName, selector: &str) -> Option<Arc<Catalog>> {
        let (mut events, mut is_connecting) = (self.host.events(), false);
        let until_tool_appears = async {
            loop {
                let catalog = self.host.catalog();
                if catalog.has_tool(selector) {
                    return Some(catalog);
                }
                match events.recv().await {
                    Ok(Event::McpServerState { server: source, state }) if source == *server => match state {
                        State::Connecting => is_connecting = true,
                        // An attempt that began after the values were given has failed. Failures before that do not
                        // count.
                        State::Failed { .. } | State::Reconnecting { .. } if is_connecting => return None,
                        _ => {}
                    },
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        timeout(SERVER_TIMEOUT, until_tool_appears).await.ok().flatten()
    }
}

impl Gateway {
    /// Adds the tool for missing values to `result`, the first page of a list of tools, if any values are missing.
    pub(super) async fn with_credentials_tool(&self, result: Bytes, caller: &ClientCaller) -> Bytes {
        let Some(missing_values) = &self.0.options.missing_values else { return result };
        let servers = self.servers_missing_values(missing_values, caller).await;
        if servers.is_empty() || self.0.host.catalog().get(CREDENTIALS_TOOL).is_some() {
            return result;
        }
        let Ok(mut list) = serde_json::from_slice::<Value>(&result) else { return result };
        let servers = quoted_list(servers.iter().map(ServerName::as_str));
        if let Some(tools) = list["tools"].as_array_mut() {
            tools.insert(
                0,
                json!({
                    "name": CREDENTIALS_TOOL,
                    "description": format!(
                        "Leads the user to a page on which they give what these servers need before their tools can be \
                         used: {servers}. Takes no value itself."
                    ),
                    "inputSchema": { "type": "object" },
                }),
            );
        }
        list.to_string().into()
    }

    /// The servers that the client may use and for which the member has not given all values.
    async fn servers_missing_values(&self, missing_values: &MissingValues, caller: &ClientCaller) -> Vec<ServerName> {
        let servers = missing_values.servers_lacking_values(&caller.principal).await;
        servers.into_iter().filter(|server| caller.view.may_have(server)).collect()
    }

    /// Calls a tool that no list contains: the tool for missing values, or a tool of a server that is not connected. If
    /// that server lacks values of the member, the call waits until the member has given the values. If not, the answer
    /// is the error that says why the server is not connected. `None` if the tool is missing for another reason.
    pub(super) async fn call_unlisted(&self, caller: &ClientCaller, tool_call: ToolCall) -> Option<PendingCall> {
        if let Some(call) = self.call_credentials_tool(caller, &tool_call.name).await {
            return Some(call);
        }
        // The host does not know the names that a profile gives.
        let selector = caller.view.snapshot().selector(&tool_call.name).into_owned();
        let error = self.0.host.missing(&selector);
        let server = match &error {
            CallError::NotReady { server, .. } if caller.view.may_have(server) => server.clone(),
            _ => return None,
        };
        let (gateway, caller) = (self.clone(), caller.clone());
        if self.0.missing_values(&caller, &server).await.is_none() {
            return Some(PendingCall::new(move |_| async move { outcome_of(Err(error), caller.era) }.boxed()));
        }
        Some(PendingCall::new(move |updates| {
            async move {
                if let Err(NotGiven(result)) = gateway.0.request_values(&server, &caller, &updates).await {
                    return Ok(result);
                }
                let Some(catalog) = gateway.0.until_offered(&server, &selector).await else {
                    return outcome_of(Err(gateway.0.host.missing(&selector)), caller.era);
                };
                let tool = gateway.find_tool(&catalog, &caller.view, &tool_call.name)?;
                let (server, name) = (tool.server.clone(), tool.tool().name.clone());
                let tool_call = ToolCall { name, ..tool_call };
                gateway.0.run_tool_call(ListedCall { server, catalog, tool_call }, &caller, updates).await
            }
            .boxed()
        }))
    }

    /// Calls the tool for missing values; `None` if `name` is another tool.
    async fn call_credentials_tool(&self, caller: &ClientCaller, name: &str) -> Option<PendingCall> {
        let missing_values = self.0.options.missing_values.as_ref().filter(|_| name == CREDENTIALS_TOOL)?;
        let servers = self.servers_missing_values(missing_values, caller).await;
        let (gateway, caller) = (self.0.clone(), caller.clone());
        Some(PendingCall::new(move |updates| {
            async move {
                for server in &servers {
                    if let Err(NotGiven(result)) = gateway.request_values(server, &caller, &updates).await {
                        return Ok(result);
                    }
                }
                let servers = quoted_list(servers.iter().map(ServerName::as_str));
                let text = match &*servers {
                    "" => "Nothing is missing.".to_owned(),
                    servers => {
                        format!("The user has given what was missing. The tools of {servers} are in the list of tools.")
                    }
                };
                Ok(json!({ "content": [{ "type": "text", "text": text }] }).to_string().into())
            }
            .boxed()
        }))
    }
}
